"""Solution of merge_splits."""

SOURCE = '''
def merge_splits(O_s: torch.Tensor, L_s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [n, d], L [n]) over the keys of all splits, from O_s [s, n, d] and L_s [s, n]."""
    m = L_s.amax(dim=0)
    shift = torch.where(m == -math.inf, 0.0, m)
    weights = torch.exp(L_s - shift)  # 0 for a split without a key
    total = weights.sum(dim=0)
    written = torch.where(L_s[:, :, None] == -math.inf, 0.0, O_s)
    O = (weights[:, :, None] * written).sum(dim=0) / torch.where(total == 0, 1.0, total)[:, None]
    return O, shift + torch.log(total)
'''

EXPLANATION = """
A split counts by its share of all weight, e^(L_s − L). By hand: e^(3.313 − 5.018) = 0.18 against 1, so 15 % and 85 %, and
0.154 · 12.69 + 0.846 · 30.18 = 27.49. The maximum keeps e^L in range, one for each row. A split without a key has weight
0, but 0 · NaN is NaN, so its row of O_s has to be left out and not multiplied away. log 0 = −∞ gives L of an empty row for free.
"""

"""Solution of merge_pieces."""

SOURCE = '''
def merge_pieces(O_p: torch.Tensor, L_p: torch.Tensor, owner: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [n, d], L [n], base 2) of n rows, from their pieces O_p [p, d] and L_p [p], base 2; piece i is of row owner[i]."""
    m = torch.full((n,), -math.inf).scatter_reduce(0, owner, L_p, "amax")
    shift = torch.where(m == -math.inf, 0.0, m)
    weights = torch.exp2(L_p - shift[owner])  # 0 for a piece without a key
    total = torch.zeros(n).index_add(0, owner, weights)
    written = torch.where(L_p[:, None] == -math.inf, 0.0, O_p)
    O = torch.zeros(n, O_p.shape[1]).index_add(0, owner, weights[:, None] * written)
    return O / torch.where(total == 0, 1.0, total)[:, None], shift + torch.log2(total)
'''

EXPLANATION = """
A piece counts by its share of its row's weight, 2^(L_p − L), and it does not matter how many pieces a row has, or when they come. In base 2
all is as before, if it is base 2 throughout: 2^4.780 is e^3.313. Three places lose a test that has a key everywhere: 0 · NaN, so that an
unwritten average has to be left out and not multiplied away; −∞ − (−∞) in a row without a key; and the division by its sum of 0.
x[owner] += y is the fourth: where an index comes twice, PyTorch keeps one of the two.
"""

"""Solution of rescale_accumulator."""

SOURCE = '''
def rescale_accumulator(
    m: float, l: float, acc: torch.Tensor, x: torch.Tensor, V: torch.Tensor
) -> tuple[float, float, torch.Tensor]:
    """(m, l, acc) after a block of scores x [n] and values V [n, d]; m and l as floats, acc [d]."""
    m_new = max(m, float(x.max()))
    p = torch.exp(x - m_new)
    factor = math.exp(m - m_new)
    return m_new, l * factor + float(p.sum()), acc * factor + p @ V
'''

EXPLANATION = """
17.36 · exp(3 − 5) + 30 + 40 · exp(1 − 5) = 33.08, and 33.08 / 1.203 = 27.49. All weights in acc are measured from one maximum, so one
factor moves them all to another, though the weights themselves are gone. The order matters twice: take the factor before m is
overwritten, and rescale before the new part is added, because p is measured from the new maximum already.
"""

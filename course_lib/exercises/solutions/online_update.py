"""Solution of online_update."""

SOURCE = '''
def online_update(m: float, l: float, x: torch.Tensor) -> tuple[float, float]:
    """(m, l) after a block of scores x [n], float32; m and l as floats."""
    new = max(m, float(x.max()))
    return new, l * math.exp(m - new) + float(torch.exp(x - new).sum())
'''

EXPLANATION = """
Everything is kept relative to the largest score so far, so no exponential exceeds 1. When the maximum grows, the old sum shrinks by
exp(m − m_new): one multiplication, however many scores it stands for. With m = −∞ the factor is exp(−∞) = 0.
"""

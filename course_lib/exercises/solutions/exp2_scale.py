"""Solution of exp2_scale."""

SOURCE = '''
def exp2_scale(s: torch.Tensor, d: int, slope: float) -> tuple[torch.Tensor, float]:
    """(weights [N], L) of raw scores s [N], float32, for head size d, with ALiBi's penalty of slope per token of distance."""
    log2e = math.log2(math.e)
    distance = len(s) - 1 - torch.arange(len(s))
    y = s * (log2e / math.sqrt(d)) - (slope * log2e) * distance
    m = y.max()
    p = torch.exp2(y - m)
    l = p.sum()
    return p / l, float(m * math.log(2) + torch.log(l))
'''

EXPLANATION = """
The scale was one multiplication for each score; log2 e rides along in it for nothing. What is added to a scaled score, a penalty, a mask's
bias, a softcap's result, has to be brought to base 2 by itself: it takes log2 e and not 1/√d. The slope does, once for all keys. ℓ does
not notice the base: 2^(y − m) are the same numbers as before. m does, and so does L, which is converted once a row where it leaves
the kernel.
"""

"""Solution of exp2_scale."""

SOURCE = '''
def exp2_scale(s: torch.Tensor, d: int) -> tuple[torch.Tensor, float]:
    """(weights [N], L) of raw scores s [N], float32, for head size d."""
    y = s * (math.log2(math.e) / math.sqrt(d))
    m = y.max()
    p = torch.exp2(y - m)
    l = p.sum()
    return p / l, float(m * math.log(2) + torch.log(l))
'''

EXPLANATION = """
The scale was one multiplication for each score; log2 e rides along in it for nothing. ℓ does not notice: 2^(y − m) are
the same numbers as before, written with another base. m does, and so does L. A kernel may keep L in units of log2, if
its backward pass uses 2^x, too: what counts is that both sides agree. Where L leaves the kernel, or is merged with
another's, it has to be converted once a row.
"""

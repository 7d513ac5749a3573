"""Solution of attention_sink."""

SOURCE = '''
def attention_sink(O: torch.Tensor, L: torch.Tensor, sink: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [H, n, d], L [H, n]) of an attention in which head h has also the score sink[h], without a value."""
    L_new = torch.logaddexp(L, sink[:, None])
    share = torch.where(L == -math.inf, 0.0, torch.exp(L - L_new))
    return O * share[:, :, None], L_new
'''

EXPLANATION = r"""
By hand: $L = 3 + \log 1.368 = 3.313$, $L_\text{new} = \log(e^{3.313} + e^3) = 3.862$, and $12.69 \cdot e^{3.313 - 3.862} = 7.33$. The
sink is one more state in a merge, with $m$ = sink, $\ell = 1$ and $o = 0$. A kernel that takes it in by itself starts its loop from that
state, where ours starts from $m = -\infty$ and $\ell = 0$. A row may so give its values less than a weight of 1, even next to nothing.
"""

"""Solution of ring_backward."""

SOURCE = '''
def ring_backward(rank: int, ranks: int, q, k, v, o, L, do):
    """A generator: (dq, dk, dv) of this rank's tokens, float32 [heads, c, d]."""
    q, do, root = q.float(), do.float(), q.shape[-1] ** 0.5
    D = (do * o).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(q), torch.zeros_like(q)
    for _ in range(ranks):
        p = (q @ k.float().mT / root - L[..., None]).exp()
        ds = p * (do @ v.float().mT - D)
        dq = dq + ds @ k.float() / root
        dk, dv = dk + ds.mT @ q / root, dv + p.mT @ do
        coming = yield ("post", k, v, dk, dv)
        yield ("wait",)
        k, v, dk, dv = coming
    return dq, dk, dv
'''

EXPLANATION = """
The weights of a block are final because L is that of all keys; with the block's own L each block's weights would sum to 1. What stays is
summed where it stays (dQ), what travels is summed on its way (dK, dV), and it needs one hop more than the keys: the last one brings it
home. The library saves that hop for its own part, sends sums a step behind their keys, and so hides them, too.
"""

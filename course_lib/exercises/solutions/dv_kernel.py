"""Solution of dv_kernel."""

SOURCE = '''
@triton.jit
def dv_kernel(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """dV [n, D] = Pᵀ dO, float32, with causal P = exp(scale · Q Kᵀ − L) recomputed; one block of keys per program."""
    first = tl.program_id(0) * BLOCK
    keys, cols = first + tl.arange(0, BLOCK), tl.arange(0, D)
    k = tl.load(k_ptr + keys[:, None] * D + cols[None, :], mask=keys[:, None] < n, other=0.0)
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(first, n, BLOCK):  # query i sees key i: the walk begins on the diagonal
        rows = start + tl.arange(0, BLOCK)
        at = rows[:, None] * D + cols[None, :]
        q = tl.load(q_ptr + at, mask=rows[:, None] < n, other=0.0)
        do = tl.load(do_ptr + at, mask=rows[:, None] < n, other=0.0)
        L = tl.load(L_ptr + rows, mask=rows < n, other=float("inf"))
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        p = tl.where(keys[None, :] <= rows[:, None], tl.exp(s - L[:, None]), 0.0)
        dv = tl.dot(tl.trans(p), do, dv, input_precision="ieee")
    tl.store(dv_ptr + keys[:, None] * D + cols[None, :], dv, mask=keys[:, None] < n)
'''

EXPLANATION = """
With L each block of P comes back alone: no maximum, no sum, in any order. So the outer loop may go over K/V, and dV is written once,
without atomics. Forward, a causal walk ends on the diagonal; here it begins there, because the keys stay and the queries pass. L knows
nothing of hidden scores, so e^(S − L) may overflow for them: tl.where chooses, a product with a mask of zeros and ones would make NaN.
Beyond the last query L is ∞, and p = exp(0 − ∞) = 0; with −∞ not even the zeros of dO save the sum.
"""

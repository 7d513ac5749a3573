"""Solution of dv_kernel."""

SOURCE = '''
@triton.jit
def dv_kernel(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """dV [n_k, D] = Pᵀ dO, float32, with P = exp(scale · Q Kᵀ − L) recomputed; one block of keys per program."""
    keys = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, D)
    k = tl.load(k_ptr + keys[:, None] * D + cols[None, :], mask=keys[:, None] < n_k, other=0.0)
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, n_q, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        at = rows[:, None] * D + cols[None, :]
        q = tl.load(q_ptr + at, mask=rows[:, None] < n_q, other=0.0)
        do = tl.load(do_ptr + at, mask=rows[:, None] < n_q, other=0.0)
        L = tl.load(L_ptr + rows, mask=rows < n_q, other=float("inf"))
        p = tl.exp(tl.dot(q, tl.trans(k), input_precision="ieee") * scale - L[:, None])
        dv = tl.dot(tl.trans(p), do, dv, input_precision="ieee")
    tl.store(dv_ptr + keys[:, None] * D + cols[None, :], dv, mask=keys[:, None] < n_k)
'''

EXPLANATION = """
With L each block of P comes back alone: no maximum, no sum, in any order. So the outer loop may go over K/V, dV stays on
the chip and is written once, without atomics. Beyond the last query q is 0 and L is ∞: p = exp(0 − ∞) = 0. With L = 0
there p would be 1, and only the zeros of dO save the sum; with −∞ not even they do. Beyond the last key p is not 0,
but those rows of dV are never stored. The course's kernel makes [keys, queries] at once, tl.dot(k, tl.trans(q)), and
so never transposes P.
"""

"""Solution of online_kernel."""

SOURCE = '''
@triton.jit
def online_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """O [n_q, D] = softmax(scale · Q Kᵀ) V, float32; BLOCK_M rows of O per program."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        correction = tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None]
        acc += tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], acc / l[:, None], mask=rows[:, None] < n_q)
'''

EXPLANATION = """
Two vectors and four lines more than Lite: m and l, the running maximum, the correction, and its two uses; the division moves behind the
loop. The mask of the tail has to come before the maximum: a padded key with weight 0 but score 0 is harmless until all real scores
lie far below 0. With the block's own maximum instead of the running one, the kernel passes nearly every test, until a spike in an early
block makes exp(m − m_new) overflow.
"""

"""Solution of debug_it."""

SOURCE = '''
@triton.jit
def debug_it(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """O [heads, n_q, D] of the heads of Q over those of K and V, which ``group`` heads of Q share."""
    head, rows, dims = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q_at = (head * n_q + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < n_q, other=0.0)
    acc, l = tl.zeros([BLOCK, D], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n_k, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        kv_at = (head // group * n_k + keys[:, None]) * D + dims[None, :]
        k = tl.load(k_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p, correction = tl.exp(s - m_new[:, None]), tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + q_at, acc / l[:, None], mask=rows[:, None] < n_q)
'''

EXPLANATION = """
`head % group` deals the heads out in turns, and for a group of 1 it gives all of them head 0; `head // group` gives neighbours the same
head. With one head both are 0. The block's own maximum is right on paper, because the correction may go up as well as down; in fp32 it
overflows as soon as a block lies 89 below the one before. Random scores hardly ever do that, so more random tests would not have found
it: it takes a spike that comes early.
"""

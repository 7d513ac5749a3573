"""The kernel that launch_it launches: attention for a batch of heads, at any strides. It checks nothing: its launcher has to."""

from course_lib.kernels import tl, triton


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, heads, group, n_q, n_k, d, scale,
    q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head, o_batch, o_row, o_head,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of O for head tl.program_id(1) % heads of sequence tl.program_id(1) // heads; D: d rounded up to a power of two.

    Strides are in numbers; those of a row lie one after another. Under CAUSAL a query sees the keys up to its own row.
    """
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    first = tl.program_id(0) * BLOCK_M
    rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, D)[None, :]
    here = (rows[:, None] < n_q) & (dims < d)
    q = tl.load(q_ptr + batch * q_batch + head * q_head + rows[:, None] * q_row + dims, mask=here, other=0.0)
    k_ptr += batch * k_batch + head // group * k_head
    v_ptr += batch * v_batch + head // group * v_head
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, tl.minimum(n_k, first + BLOCK_M) if CAUSAL else n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        there = (keys[:, None] < n_k) & (dims < d)
        k = tl.load(k_ptr + keys[:, None] * k_row + dims, mask=there, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * v_row + dims, mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        correction = tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + batch * o_batch + head * o_head + rows[:, None] * o_row + dims, acc / l[:, None], mask=here)

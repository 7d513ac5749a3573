"""Solution of window_kernel."""

SOURCE = '''
@triton.jit
def window_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """O [n, D] of attention in which query i sees the keys i - window + 1 to i, float32; BLOCK_M rows per program."""
    first = tl.program_id(0) * BLOCK_M
    rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    begin = tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N
    for start in range(begin, tl.minimum(first + BLOCK_M, n), BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = (keys[None, :] <= rows[:, None]) & (keys[None, :] > rows[:, None] - window)
        s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        p = tl.exp(s - shift[:, None])
        correction = tl.exp(m - shift)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None]
        acc += tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], acc / l[:, None], mask=rows[:, None] < n)
'''

EXPLANATION = """
Three things are new beside Online: where the loop begins and ends, a mask with two sides, and the shift. In Online every row sees a key of
the first block, so m is finite from then on. Here the last queries of a program may see nothing before the second block, and NaN, once in
l or acc, stays there. Walking from the diagonal down to the window's end is as good: each row meets its own key first. No mask of the
tail is needed, because a key behind the last token comes after every query.
"""

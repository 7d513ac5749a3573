from course_lib.kernels import tl, triton


@triton.jit
def _rows(ptr, rows, n, D: tl.constexpr):
    return tl.load(
        ptr + rows[:, None] * D + tl.arange(0, D)[None, :], mask=(rows >= 0)[:, None] & (rows < n)[:, None], other=0.0
    )


@triton.jit
def right_from_the_first_key_that_is_seen(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    i = first + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n, D) * (scale * 1.4426950408889634)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    mean = tl.zeros([BLOCK_M, D], tl.float32)
    start = tl.maximum(first + 1 - window, 0)
    while start < tl.minimum(first + BLOCK_M, n):
        j = start + tl.arange(0, BLOCK_N)
        s = tl.dot(q, tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee")
        hidden = (j[None, :] > i[:, None]) | (j[None, :] + window <= i[:, None])
        s = tl.where(hidden, float("-inf"), s)
        new = tl.maximum(m, tl.max(s, 1))
        empty = new == float("-inf")
        old = tl.where(empty, 0.0, l * tl.exp2(m - tl.where(empty, 0.0, new)))
        p = tl.exp2(s - tl.where(empty, 0.0, new)[:, None])
        l = old + tl.sum(p, 1)
        by = tl.where(l == 0, 1.0, l)
        mean = tl.dot(p / by[:, None], _rows(v_ptr, j, n, D), mean * (old / by)[:, None], input_precision="ieee")
        m = new
        start += BLOCK_N
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], mean, mask=i[:, None] < n)


@triton.jit
def _online(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    LOW: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    i = first + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n, D)
    m = tl.full((BLOCK_M,), LOW, tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    o = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, n), BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        s = tl.dot(q, tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee") * scale
        s = tl.where((j[None, :] <= i[:, None]) & (i[:, None] - j[None, :] < window), s, LOW)
        new = tl.maximum(m, tl.max(s, 1))
        p, old = tl.exp(s - new[:, None]), tl.exp(m - new)
        l, m = old * l + tl.sum(p, 1), new
        o = tl.dot(p, _rows(v_ptr, j, n, D), old[:, None] * o, input_precision="ieee")
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o / l[:, None], mask=i[:, None] < n)


@triton.jit
def wrong_online_with_a_mask(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """if rows that see no key of a block are forgotten"""
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, float("-inf"))


@triton.jit
def wrong_mask_of_minus_1e30(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """−1e30 stands for"""
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, -1e30)

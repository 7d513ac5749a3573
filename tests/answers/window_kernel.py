from course_lib.kernels import tl, triton


@triton.jit
def _rows(ptr, rows, n, D: tl.constexpr):
    return tl.load(
        ptr + rows[:, None] * D + tl.arange(0, D)[None, :], mask=(rows >= 0)[:, None] & (rows < n)[:, None], other=0.0
    )


@triton.jit
def _band(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BUG: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    o = tl.zeros((BLOCK_M, D), tl.float32)
    lowest = tl.program_id(0) * BLOCK_M - window + 1
    last = tl.minimum(tl.program_id(0) * BLOCK_M + BLOCK_M, n) - 1
    if BUG == "as many blocks as the window":
        lowest = tl.maximum(0, tl.program_id(0) * BLOCK_M - tl.cdiv(window, BLOCK_N) * BLOCK_N)
    lowest = tl.maximum(lowest, 0)
    # from the diagonal down: each row meets its own key in the first block that holds any of its keys
    for back in range(0, last // BLOCK_N - lowest // BLOCK_N + 1):
        j = (last // BLOCK_N - back) * BLOCK_N + tl.arange(0, BLOCK_N)
        scores = tl.dot(q, tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee") * scale
        apart = i[:, None] - j[None, :]
        scores = tl.where((apart >= 0) & (apart < window), scores, -float("inf"))
        new = tl.maximum(m, tl.max(scores, axis=1))
        if BUG == "zero weight":
            w = tl.where(scores > -float("inf"), tl.exp(scores - new[:, None]), 0.0)
            old = tl.exp(m - new)
        else:
            safe = tl.maximum(new, -3.4e38)
            w = tl.exp(scores - safe[:, None])
            old = tl.exp(m - safe)
        l, m = old * l + tl.sum(w, axis=1), new
        o = old[:, None] * o + tl.dot(w, _rows(v_ptr, j, n, D), allow_tf32=BUG == "TF32")
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o / l[:, None], mask=i[:, None] < n)


@triton.jit
def right_from_the_diagonal_down(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _band(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, "")


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
def wrong_weights_times_v_in_tf32(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _band(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, "TF32")


@triton.jit
def wrong_weights_of_zero_but_a_correction_that_is_no_number(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _band(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, "zero weight")


@triton.jit
def wrong_as_many_blocks_as_the_window_has(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _band(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, "as many blocks as the window")


@triton.jit
def wrong_online_with_a_mask(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """if rows that see no key of a block are forgotten"""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    o = tl.zeros((BLOCK_M, D), tl.float32)
    begin = tl.maximum(tl.program_id(0) * BLOCK_M - window + 1, 0) // BLOCK_N * BLOCK_N
    for start in range(begin, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, n), BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        s = tl.dot(q, tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee") * scale
        s = tl.where((j[None, :] <= i[:, None]) & (i[:, None] - j[None, :] < window), s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p, old = tl.exp(s - new[:, None]), tl.exp(m - new)
        l = old * l + tl.sum(p, 1)
        o = tl.dot(p, _rows(v_ptr, j, n, D), old[:, None] * o, input_precision="ieee")
        m = new
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o / l[:, None], mask=i[:, None] < n)


@triton.jit
def wrong_mask_of_minus_1e30(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """−1e30 stands for"""
    first = tl.program_id(0) * BLOCK_M
    i = first + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n, D)
    m = tl.full((BLOCK_M,), -1e30, tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    o = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, n), BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        s = tl.dot(q, tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee") * scale
        s = tl.where((j[None, :] <= i[:, None]) & (i[:, None] - j[None, :] < window), s, -1e30)
        new = tl.maximum(m, tl.max(s, 1))
        p, old = tl.exp(s - new[:, None]), tl.exp(m - new)
        l = old * l + tl.sum(p, 1)
        o = tl.dot(p, _rows(v_ptr, j, n, D), old[:, None] * o, input_precision="ieee")
        m = new
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o / l[:, None], mask=i[:, None] < n)


@triton.jit
def wrong_whole_rows_of_scores(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.arange(0, 128)
    s = tl.dot(_rows(q_ptr, i, n, D), tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee") * scale
    s = tl.where((j[None, :] <= i[:, None]) & (i[:, None] - j[None, :] < window), s, -float("inf"))
    p = tl.exp(s - tl.max(s, 1)[:, None])
    o = tl.dot(p / tl.sum(p, 1)[:, None], _rows(v_ptr, j, n, D), input_precision="ieee")
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o, mask=i[:, None] < n)


@triton.jit
def _upwards(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    EARLY: tl.constexpr, ONE: tl.constexpr, CUT: tl.constexpr, LOW: tl.constexpr = float("-inf"),
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    i = first + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    o = tl.zeros((BLOCK_M, D), tl.float32)
    begin = tl.maximum(first - window + (0 if EARLY else 1), 0) // CUT * CUT
    for start in range(begin, tl.minimum(first + BLOCK_M, n), BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        s = tl.dot(q, tl.trans(_rows(k_ptr, j, n, D)), input_precision="ieee") * scale
        s = tl.where((j[None, :] <= i[:, None]) & (i[:, None] - j[None, :] < window), s, LOW)
        new = tl.maximum(m, tl.max(s) if ONE else tl.max(s, 1))
        safe = tl.where(new > -float("inf"), new, 0.0)
        p, old = tl.exp(s - safe[:, None]), tl.exp(m - safe)
        l = old * l + tl.sum(p, 1)
        o = tl.dot(p, _rows(v_ptr, j, n, D), old[:, None] * o, input_precision="ieee")
        m = new
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o / l[:, None], mask=i[:, None] < n)


@triton.jit
def wrong_begins_one_key_early(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """block of key first − window"""
    _upwards(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, True, False, BLOCK_N)


@triton.jit
def wrong_one_maximum_for_all_rows(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """all rows have one maximum"""
    _upwards(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, False, True, BLOCK_N)


@triton.jit
def wrong_begins_at_a_multiple_of_the_block_of_queries(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _upwards(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, False, False, BLOCK_M)


@triton.jit
def wrong_mask_of_the_lowest_score(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _upwards(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D, BLOCK_M, BLOCK_N, False, False, BLOCK_N, -1e38)

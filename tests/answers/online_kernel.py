from course_lib.kernels import tl, triton


@triton.jit
def _rows(ptr, rows, n, D: tl.constexpr):
    return tl.load(ptr + rows[:, None] * D + tl.arange(0, D)[None, :], mask=(rows < n)[:, None], other=0.0)


@triton.jit
def _online(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BUG: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = _rows(q_ptr, i, n_q, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    o = tl.zeros((BLOCK_M, D), tl.float32)
    for block in range(tl.cdiv(n_k, BLOCK_N)):
        j = block * BLOCK_N + tl.arange(0, BLOCK_N)
        scores = tl.dot(q, tl.trans(_rows(k_ptr, j, n_k, D)), input_precision="ieee")
        scores = scores * (0.25 if BUG == "quarter" else scale) + tl.where(j < n_k, 0, -float("inf"))[None, :]
        new = tl.maximum(m, tl.max(scores, axis=1))
        w = tl.exp(scores - new[:, None])
        old = tl.exp(m - new)
        l, m = old * l + tl.sum(w, axis=1), new
        v = _rows(v_ptr, j, n_k, D)
        o = old[:, None] * o + tl.dot(w, v, allow_tf32=BUG == "TF32")
    tl.store(o_ptr + i[:, None] * D + tl.arange(0, D)[None, :], o / l[:, None], mask=i[:, None] < n_q)


@triton.jit
def right_helper_and_another_order(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "")


@triton.jit
def right_block_pointers_exp2_and_an_average(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    q = tl.load(
        tl.make_block_ptr(q_ptr, (n_q, D), (D, 1), (first, 0), (BLOCK_M, D), (1, 0)),
        boundary_check=(0,),
        padding_option="zero",
    )
    kt_at = tl.make_block_ptr(k_ptr, (D, n_k), (1, D), (0, 0), (D, BLOCK_N), (0, 1))
    v_at = tl.make_block_ptr(v_ptr, (n_k, D), (D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    q *= scale * 1.4426950408889634
    m = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    l = tl.zeros([BLOCK_M], tl.float32)
    mean = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        s = tl.dot(q, tl.load(kt_at, boundary_check=(1,), padding_option="zero"), input_precision="ieee")
        s = tl.where(start + tl.arange(0, BLOCK_N)[None, :] < n_k, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        old = l * tl.exp2(m - new)
        p = tl.exp2(s - new[:, None])
        l = old + tl.sum(p, 1)
        v = tl.load(v_at, boundary_check=(0,), padding_option="zero")
        mean = tl.dot(p / l[:, None], v, mean * (old / l)[:, None], input_precision="ieee")
        m = new
        kt_at, v_at = tl.advance(kt_at, (0, BLOCK_N)), tl.advance(v_at, (BLOCK_N, 0))
    tl.store(tl.make_block_ptr(o_ptr, (n_q, D), (D, 1), (first, 0), (BLOCK_M, D), (1, 0)), mean, boundary_check=(0,))


@triton.jit
def wrong_weights_times_v_in_tf32(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "TF32")


@triton.jit
def wrong_heads_of_16(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """16 stands where D belongs"""
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, 16, BLOCK_M, BLOCK_N, "")


@triton.jit
def wrong_all_keys_at_once(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, 512, "")


@triton.jit
def wrong_scale_of_a_quarter(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _online(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "quarter")

from course_lib.kernels import tl, triton


@triton.jit
def _load(ptr, rows, n, WIDTH: tl.constexpr):
    return tl.load(ptr + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], mask=(rows < n)[:, None], other=0.0)


@triton.jit
def _added(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TF32: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = _load(q_ptr, i, n_q, D) * scale
    o = tl.zeros((BLOCK_M, DV), tl.float32)
    for block in range(tl.cdiv(n_k, BLOCK_N)):
        j = block * BLOCK_N + tl.arange(0, BLOCK_N)
        x = bias + tl.dot(q, tl.trans(_load(k_ptr, j, n_k, D)), allow_tf32=TF32)
        w = tl.where(j[None, :] < n_k, tl.sigmoid(x), 0.0)
        o += tl.dot(w, _load(v_ptr, j, n_k, DV), input_precision="ieee")
    tl.store(o_ptr + i[:, None] * DV + tl.arange(0, DV)[None, :], o, mask=i[:, None] < n_q)


@triton.jit
def right_with_triton_s_sigmoid(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    _added(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias, D, DV, BLOCK_M, BLOCK_N, False)


@triton.jit
def wrong_no_word_on_precision(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    _added(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias, D, DV, BLOCK_M, BLOCK_N, True)

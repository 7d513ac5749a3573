from course_lib.kernels import tl, triton


@triton.jit
def right_pointers_moved_on(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    offs_m = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    offs_k = tl.arange(0, BLOCK)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[None, :] * K + offs_k[:, None]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK)):
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K - k * BLOCK), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < K - k * BLOCK) & (offs_n[None, :] < N), other=0.0)
        total += tl.dot(a, b, allow_tf32=False)
        a_ptrs += BLOCK
        b_ptrs += BLOCK
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], total, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


@triton.jit
def _tile(ptr, rows, cols, R, C):
    return tl.load(ptr + rows[:, None] * C + cols[None, :], mask=(rows[:, None] < R) & (cols[None, :] < C), other=0.0)


@triton.jit
def right_helper_and_transposed_sum(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    own = tl.arange(0, BLOCK)
    rows, cols = tl.program_id(0) * BLOCK + own, tl.program_id(1) * BLOCK + own
    total = tl.full([BLOCK, BLOCK], 0.0, tl.float32)
    for start in tl.range(0, K, BLOCK):
        b = _tile(b_ptr, cols, start + own, N, K)
        total = tl.dot(b, tl.trans(_tile(a_ptr, rows, start + own, M, K)), total, input_precision="ieee")
    tl.store(c_ptr + rows[None, :] * N + cols[:, None], total, (rows[None, :] < M) & (cols[:, None] < N))


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, AS_THE_PAGE: tl.constexpr, PRECISION: tl.constexpr):
    own = tl.arange(0, BLOCK)
    rows, cols = tl.program_id(0) * BLOCK + own, tl.program_id(1) * BLOCK + own
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        b = _tile(b_ptr, start + own, cols, K, N) if AS_THE_PAGE else tl.trans(_tile(b_ptr, cols, start + own, N, K))
        total += tl.dot(_tile(a_ptr, rows, start + own, M, K), b, input_precision=PRECISION)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def wrong_no_word_on_precision(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, False, None)


@triton.jit
def wrong_as_the_page_has_it(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """if B is read as if it were [K, N] already"""
    _product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, True, "ieee")

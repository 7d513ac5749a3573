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
def _product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr, BUG: tl.constexpr):
    own = tl.arange(0, BLOCK)
    rows, cols = tl.program_id(0) * BLOCK + own, tl.program_id(1) * BLOCK + own
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, STEP if BUG == "one step" else K, STEP):
        inner = start + tl.arange(0, STEP)
        a, b = _tile(a_ptr, rows, inner, M, K), tl.trans(_tile(b_ptr, cols, inner, N, K))
        if BUG == "TF32":
            total += tl.dot(a, b)
        else:
            total += tl.dot(a, b, input_precision="ieee")
    at = rows[:, None] * N + cols[None, :]
    tl.store(c_ptr + at, total, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def wrong_no_word_on_precision(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, BLOCK, "TF32")


@triton.jit
def wrong_blocks_of_16(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """16 stands where BLOCK belongs"""
    _product(a_ptr, b_ptr, c_ptr, M, N, K, 16, 16, "")


@triton.jit
def wrong_as_the_page_has_it(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """if B is read as if it were [K, N] already"""
    own = tl.arange(0, BLOCK)
    rows, cols = tl.program_id(0) * BLOCK + own, tl.program_id(1) * BLOCK + own
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        a, b = _tile(a_ptr, rows, start + own, M, K), _tile(b_ptr, start + own, cols, K, N)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def wrong_outer_product_of_sums(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    own = tl.arange(0, BLOCK)
    rows, cols = tl.program_id(0) * BLOCK + own, tl.program_id(1) * BLOCK + own
    a, b = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        a += tl.sum(_tile(a_ptr, rows, start + own, M, K), 1)
        b += tl.sum(_tile(b_ptr, cols, start + own, N, K), 1)
    at = rows[:, None] * N + cols[None, :]
    tl.store(c_ptr + at, a[:, None] * b[None, :] / K, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def wrong_all_of_k_in_64(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, 64, "one step")

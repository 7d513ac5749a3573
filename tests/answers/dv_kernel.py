from course_lib.kernels import tl, triton


@triton.jit
def right_keys_first(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    keys, cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    k = tl.load(k_ptr + keys[:, None] * D + cols[None, :], mask=keys[:, None] < n_k, other=0.0) * scale
    dv = tl.zeros((BLOCK, D), dtype=tl.float32)
    for block in range(tl.cdiv(n_q, BLOCK)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        seen = rows < n_q
        q = tl.load(q_ptr + rows[None, :] * D + cols[:, None], mask=seen[None, :], other=0.0)
        do = tl.load(do_ptr + rows[:, None] * D + cols[None, :], mask=seen[:, None], other=0.0)
        L = tl.load(L_ptr + rows, mask=seen, other=0.0)
        p = tl.where(seen[None, :], tl.exp(tl.dot(k, q, allow_tf32=False) - L[None, :]), 0.0)
        dv += tl.dot(p, do, allow_tf32=False)
    tl.store(dv_ptr + keys[:, None] * D + cols[None, :], dv, mask=keys[:, None] < n_k)


@triton.jit
def right_with_descriptors(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    queries = tl.make_tensor_descriptor(q_ptr, [n_q, D], [D, 1], [BLOCK, D])
    gradients = tl.make_tensor_descriptor(do_ptr, [n_q, D], [D, 1], [BLOCK, D])
    k = tl.make_tensor_descriptor(k_ptr, [n_k, D], [D, 1], [BLOCK, D]).load([first, 0])
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, n_q, BLOCK):
        L = tl.load(L_ptr + start + tl.arange(0, BLOCK), mask=start + tl.arange(0, BLOCK) < n_q, other=0.0)
        s = tl.dot(queries.load([start, 0]), k.T, input_precision="ieee") * (scale * 1.4426950408889634)
        p = tl.exp2(s - 1.4426950408889634 * L[:, None])
        dv = tl.dot(p.T, gradients.load([start, 0]), dv, input_precision="ieee")
    tl.make_tensor_descriptor(dv_ptr, [n_k, D], [D, 1], [BLOCK, D]).store([first, 0], dv)


@triton.jit
def _loaded(ptr, rows, n, D: tl.constexpr):
    return tl.load(ptr + rows[:, None] * D + tl.arange(0, D)[None, :], mask=rows[:, None] < n, other=0.0)


@triton.jit
def _dv(
    q_ptr,
    k_ptr,
    L_ptr,
    do_ptr,
    dv_ptr,
    n_q,
    n_k,
    scale,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    END,
    SECOND: tl.constexpr,
):
    keys = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = _loaded(k_ptr, keys, n_k, D)
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, END, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        L = tl.load(L_ptr + rows, mask=rows < n_q, other=0.0)
        s = tl.dot(_loaded(q_ptr, rows, n_q, D), tl.trans(k), input_precision="ieee") * scale
        p = tl.exp(s - L[:, None])
        dv = tl.dot(tl.trans(p), _loaded(do_ptr, rows, n_q, D), dv, input_precision=SECOND)
    tl.store(dv_ptr + keys[:, None] * D + tl.arange(0, D)[None, :], dv, mask=keys[:, None] < n_k)


@triton.jit
def wrong_tf32_in_the_sum(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    _dv(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D, BLOCK, n_q, None)


@triton.jit
def wrong_blocks_of_16(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """if blocks of 16 are taken whatever BLOCK is"""
    _dv(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D, 16, n_q, "ieee")


@triton.jit
def wrong_sum_in_memory(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    keys = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = dv_ptr + keys[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(at, tl.zeros([BLOCK, D], tl.float32), mask=keys[:, None] < n_k)
    for start in range(0, n_q, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        L = tl.load(L_ptr + rows, mask=rows < n_q, other=float("inf"))
        s = tl.dot(_loaded(q_ptr, rows, n_q, D), tl.trans(_loaded(k_ptr, keys, n_k, D)), input_precision="ieee")
        p = tl.trans(tl.exp(s * scale - L[:, None]))
        part = tl.dot(p, _loaded(do_ptr, rows, n_q, D), input_precision="ieee")
        tl.store(at, part + tl.load(at, mask=keys[:, None] < n_k, other=0.0), mask=keys[:, None] < n_k)

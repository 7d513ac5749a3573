from course_lib.kernels import tl, triton


@triton.jit
def right_with_descriptors_from_the_end(
    q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr
):
    first = tl.program_id(0) * BLOCK
    queries = tl.make_tensor_descriptor(q_ptr, [n, D], [D, 1], [BLOCK, D])
    gradients = tl.make_tensor_descriptor(do_ptr, [n, D], [D, 1], [BLOCK, D])
    k = tl.make_tensor_descriptor(k_ptr, [n, D], [D, 1], [BLOCK, D]).load([first, 0])
    dv = tl.zeros([BLOCK, D], tl.float32)
    apart = tl.arange(0, BLOCK)[:, None] - tl.arange(0, BLOCK)[None, :]
    for back in range(tl.cdiv(n - first, BLOCK)):
        start = first + (tl.cdiv(n - first, BLOCK) - 1 - back) * BLOCK
        L = tl.load(L_ptr + start + tl.arange(0, BLOCK), mask=start + tl.arange(0, BLOCK) < n, other=0.0)
        s = tl.dot(queries.load([start, 0]), k.T, input_precision="ieee") * (scale * 1.4426950408889634)
        s = tl.where(apart + (start - first) < 0, -float("inf"), s)
        p = tl.exp2(s - 1.4426950408889634 * L[:, None])
        dv = tl.dot(p.T, gradients.load([start, 0]), dv, input_precision="ieee")
    tl.make_tensor_descriptor(dv_ptr, [n, D], [D, 1], [BLOCK, D]).store([first, 0], dv)


@triton.jit
def _loaded(ptr, rows, n, D: tl.constexpr):
    return tl.load(ptr + rows[:, None] * D + tl.arange(0, D)[None, :], mask=rows[:, None] < n, other=0.0)


@triton.jit
def _dv(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr):
    keys = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = _loaded(k_ptr, keys, n, D)
    dv = tl.zeros([BLOCK, D], tl.float32)
    for start in range(tl.program_id(0) * BLOCK if CAUSAL else 0, n, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        L = tl.load(L_ptr + rows, mask=rows < n, other=float("inf"))
        s = tl.dot(_loaded(q_ptr, rows, n, D), tl.trans(k), input_precision="ieee") * scale
        p = tl.exp(s - L[:, None])
        if CAUSAL:
            p = tl.where(rows[:, None] >= keys[None, :], p, 0.0)
        dv += tl.dot(tl.trans(p), _loaded(do_ptr, rows, n, D), input_precision=None if CAUSAL else "ieee")
    tl.store(dv_ptr + keys[:, None] * D + tl.arange(0, D)[None, :], dv, mask=keys[:, None] < n)


@triton.jit
def wrong_tf32_in_the_sum(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    _dv(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D, BLOCK, True)


@triton.jit
def wrong_as_on_the_page(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """if nothing is masked"""
    _dv(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D, BLOCK, False)

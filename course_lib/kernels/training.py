"""Forward and backward of ``course_lib.attention``: every stride, grouped heads, causal, softcap, any length and head size.

Scores are kept in powers of two: p = 2^(s · log2 e − L · log2 e), one multiplication folded into the scale. Blocks that no
mask touches are computed without one. Softmax's gradient needs P again; it is recomputed from Q, K and the saved L.
Source: FlashAttention-2 (arXiv 2307.08691), Algorithms 1 and 2; the backward is two kernels, one for dK and dV, one for dQ,
so that nothing has to be added atomically.
"""

from course_lib.kernels import LOG2E, tl, triton

LENGTHS = ["n_q", "n_k", "offset"]  # a new length does not compile anew


@triton.jit
def _rows(ptr, start, BLOCK: tl.constexpr, n, stride, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr):
    """Rows start … start + BLOCK of a matrix, [BLOCK, BLOCK_D], zeros beyond its n rows and D columns."""
    lanes, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    at = ptr + tl.cast(start, tl.int64) * stride + (lanes[:, None] * stride + dims[None, :])
    if MASKED:
        return tl.load(at, mask=(start + lanes[:, None] < n) & (dims[None, :] < D), other=0.0)
    elif D < BLOCK_D:
        return tl.load(at, mask=dims[None, :] < D, other=0.0)
    else:
        return tl.load(at)


@triton.jit
def _store_rows(ptr, x, start, BLOCK: tl.constexpr, n, stride, D: tl.constexpr, BLOCK_D: tl.constexpr):
    lanes, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    at = ptr + tl.cast(start, tl.int64) * stride + (lanes[:, None] * stride + dims[None, :])
    tl.store(at, x.to(ptr.dtype.element_ty), mask=(start + lanes[:, None] < n) & (dims[None, :] < D))


@triton.jit
def _elements(b, h, n, UNIT: tl.constexpr):
    """Strides in elements. They are passed in units of 16 bytes where all allow it: the compiler looks for multiples of
    16 elements, does not find one in 40, and would load 2 bytes at a time."""
    return b * UNIT, h * UNIT, n * UNIT


@triton.jit
def _place(n, BLOCK: tl.constexpr):
    """(block, head counted over the batch) of this program; one axis, because the others end at 65,535."""
    blocks = tl.cdiv(n, BLOCK)
    return tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)


@triton.jit
def _capped(s, scale, softcap, SOFTCAP: tl.constexpr):
    """Scores times log2 e; with a softcap, cap · tanh(s / cap), and tanh itself for the gradient."""
    if SOFTCAP:
        tanh = 1 - 2 / (tl.exp2(s * (2 * LOG2E * scale / softcap)) + 1)
        return tanh * (softcap * LOG2E), tanh
    else:
        return s * (scale * LOG2E), s


@triton.jit
def _forward_blocks(
    q, acc, m, l, k_ptr, v_ptr, k_stride, v_stride, rows, begin, end, n_k, offset, scale, softcap, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr, SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    for start in range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = _rows(k_ptr, start, BLOCK_N, n_k, k_stride, D, BLOCK_D, MASKED)  # [BLOCK_N, BLOCK_D]
        s, _ = _capped(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, SOFTCAP)
        if MASKED:
            seen = keys[None, :] < n_k
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + offset)
            s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(m_new > -float("inf"), m_new, 0.0) if MASKED else m_new  # a row may see no key at all
        p = tl.exp2(s - shift[:, None])
        correction = tl.exp2(m - shift)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None]
        v = _rows(v_ptr, start, BLOCK_N, n_k, v_stride, D, BLOCK_D, MASKED)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
        m = m_new
    return acc, m, l


@triton.jit(do_not_specialize=LENGTHS)
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, L_ptr, q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, o_b, o_h, o_n,
    heads, group, n_q, n_k, offset, scale, softcap, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr, UNIT: tl.constexpr, CAUSAL: tl.constexpr, SOFTCAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: one block of queries of one head. L [B·H, Nq] is the natural log-sum-exp."""
    q_b, q_h, q_n = _elements(q_b, q_h, q_n, UNIT)
    k_b, k_h, k_n = _elements(k_b, k_h, k_n, UNIT)
    v_b, v_h, v_n = _elements(v_b, v_h, v_n, UNIT)
    o_b, o_h, o_n = _elements(o_b, o_h, o_n, UNIT)
    block, head = _place(n_q, BLOCK_M)
    if CAUSAL:  # the longest rows first, so that no long one is left for the end
        block = tl.cdiv(n_q, BLOCK_M) - 1 - block
    start_m = block * BLOCK_M
    b, h = head // heads, head % heads
    rows = start_m + tl.arange(0, BLOCK_M)
    k_ptr += b * k_b + h // group * k_h
    v_ptr += b * v_b + h // group * v_h
    q = _rows(q_ptr + b * q_b + h * q_h, start_m, BLOCK_M, n_q, q_n, D, BLOCK_D, True)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    end, clear = n_k, n_k
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(n_k, start_m + BLOCK_M + offset))
        clear = tl.maximum(0, tl.minimum(n_k, start_m + offset + 1))
    clear = clear // BLOCK_N * BLOCK_N  # blocks of keys before this one need no mask
    acc, m, l = _forward_blocks(
        q, acc, m, l, k_ptr, v_ptr, k_n, v_n, rows, 0, clear, n_k, offset, scale, softcap, D, BLOCK_N, BLOCK_D, CAUSAL,
        SOFTCAP, False, PRECISION,
    )  # fmt: skip
    acc, m, l = _forward_blocks(
        q, acc, m, l, k_ptr, v_ptr, k_n, v_n, rows, clear, end, n_k, offset, scale, softcap, D, BLOCK_N, BLOCK_D, CAUSAL,
        SOFTCAP, True, PRECISION,
    )  # fmt: skip
    l = tl.where(m > -float("inf"), l, 1.0)  # a row that saw no key: its acc is 0 and its m is -inf
    inverse = 1 / l
    _store_rows(o_ptr + b * o_b + h * o_h, acc * inverse[:, None], start_m, BLOCK_M, n_q, o_n, D, BLOCK_D)
    L_ptr += head * n_q
    tl.store(L_ptr + rows, (m + tl.log2(l)) / LOG2E, mask=rows < n_q)


@triton.jit(do_not_specialize=LENGTHS)
def delta_kernel(
    o_ptr, do_ptr, dL_ptr, D_ptr, o_b, o_h, o_n, do_b, do_h, do_n, heads, n_q,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """D = rowsum(dO ∘ O) (Algorithm 2, line 4), less the gradient of L, which acts on the same place."""
    o_b, o_h, o_n = _elements(o_b, o_h, o_n, UNIT)
    do_b, do_h, do_n = _elements(do_b, do_h, do_n, UNIT)
    block, head = _place(n_q, BLOCK_M)
    start_m = block * BLOCK_M
    b, h = head // heads, head % heads
    rows = start_m + tl.arange(0, BLOCK_M)
    o = _rows(o_ptr + b * o_b + h * o_h, start_m, BLOCK_M, n_q, o_n, D, BLOCK_D, True).to(tl.float32)
    do = _rows(do_ptr + b * do_b + h * do_h, start_m, BLOCK_M, n_q, do_n, D, BLOCK_D, True).to(tl.float32)
    at = head * n_q + rows
    delta = tl.sum(o * do, 1) - tl.load(dL_ptr + at, mask=rows < n_q, other=0.0)
    tl.store(D_ptr + at, delta, mask=rows < n_q)


@triton.jit
def _key_value_blocks(
    k, v, dk, dv, q_ptr, do_ptr, L_ptr, D_ptr, q_n, do_n, keys, begin, end, n_q, offset, scale, softcap,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr, SOFTCAP: tl.constexpr,
    MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    for start in range(begin, end, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        q = _rows(q_ptr, start, BLOCK_M, n_q, q_n, D, BLOCK_D, MASKED)  # [BLOCK_M, BLOCK_D]
        if MASKED:  # +inf beyond the last query: its p is 0
            L = tl.load(L_ptr + rows, mask=rows < n_q, other=float("inf"))
            delta = tl.load(D_ptr + rows, mask=rows < n_q, other=0.0)
            delta = tl.where(-float("inf") < L, delta, 0.0)  # what comes back to a row that saw no key is dropped
        else:
            L, delta = tl.load(L_ptr + rows), tl.load(D_ptr + rows)
        s, tanh = _capped(
            tl.dot(k, tl.trans(q), input_precision=PRECISION), scale, softcap, SOFTCAP
        )  # [BLOCK_N, BLOCK_M]
        p = tl.exp2(s - (L * LOG2E)[None, :])
        if MASKED and CAUSAL:
            p = tl.where(keys[:, None] <= rows[None, :] + offset, p, 0.0)
        do = _rows(do_ptr, start, BLOCK_M, n_q, do_n, D, BLOCK_D, MASKED)
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision=PRECISION)  # dV = Pᵀ dO
        dp = tl.dot(v, tl.trans(do), input_precision=PRECISION)  # dPᵀ = V dOᵀ
        ds = p * (dp - delta[None, :])
        if SOFTCAP:
            ds = ds * (1 - tanh * tanh)
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=PRECISION)  # dK = dSᵀ Q, scaled at the end
    return dk, dv


@triton.jit(do_not_specialize=LENGTHS)
def key_value_gradient_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, L_ptr, D_ptr, dk_ptr, dv_ptr, q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    do_b, do_h, do_n, dk_b, dk_h, dk_n, dv_b, dv_h, dv_n,
    kv_heads, group, n_q, n_k, offset, scale, softcap, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr, UNIT: tl.constexpr, CAUSAL: tl.constexpr, SOFTCAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: dK and dV of one block of keys, over all queries of all heads that share it."""
    q_b, q_h, q_n = _elements(q_b, q_h, q_n, UNIT)
    k_b, k_h, k_n = _elements(k_b, k_h, k_n, UNIT)
    v_b, v_h, v_n = _elements(v_b, v_h, v_n, UNIT)
    do_b, do_h, do_n = _elements(do_b, do_h, do_n, UNIT)
    dk_b, dk_h, dk_n = _elements(dk_b, dk_h, dk_n, UNIT)
    dv_b, dv_h, dv_n = _elements(dv_b, dv_h, dv_n, UNIT)
    block, head = _place(n_k, BLOCK_N)
    start_n = block * BLOCK_N
    b, kv = head // kv_heads, head % kv_heads
    keys = start_n + tl.arange(0, BLOCK_N)
    k = _rows(k_ptr + b * k_b + kv * k_h, start_n, BLOCK_N, n_k, k_n, D, BLOCK_D, True)
    v = _rows(v_ptr + b * v_b + kv * v_h, start_n, BLOCK_N, n_k, v_n, D, BLOCK_D, True)
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    full = n_q // BLOCK_M * BLOCK_M  # up to here every query exists
    begin, clear = 0, 0
    if CAUSAL:  # queries before begin see none of these keys, from clear on they see all of them
        begin = tl.minimum(tl.maximum(0, start_n - offset) // BLOCK_M * BLOCK_M, n_q)
        clear = tl.cdiv(tl.maximum(0, start_n + BLOCK_N - 1 - offset), BLOCK_M) * BLOCK_M
        clear = tl.minimum(clear, tl.cdiv(n_q, BLOCK_M) * BLOCK_M)
    for member in range(0, group):
        h = kv * group + member
        Q, DO = q_ptr + b * q_b + h * q_h, do_ptr + b * do_b + h * do_h
        at = (b * kv_heads * group + h) * n_q
        if CAUSAL:
            dk, dv = _key_value_blocks(
                k, v, dk, dv, Q, DO, L_ptr + at, D_ptr + at, q_n, do_n, keys, begin, clear, n_q, offset, scale,
                softcap, D, BLOCK_M, BLOCK_D, CAUSAL, SOFTCAP, True, PRECISION,
            )  # fmt: skip
        dk, dv = _key_value_blocks(
            k, v, dk, dv, Q, DO, L_ptr + at, D_ptr + at, q_n, do_n, keys, clear, full, n_q, offset, scale,
            softcap, D, BLOCK_M, BLOCK_D, CAUSAL, SOFTCAP, False, PRECISION,
        )  # fmt: skip
        dk, dv = _key_value_blocks(
            k, v, dk, dv, Q, DO, L_ptr + at, D_ptr + at, q_n, do_n, keys, tl.maximum(clear, full), n_q, n_q,
            offset, scale, softcap, D, BLOCK_M, BLOCK_D, CAUSAL, SOFTCAP, True, PRECISION,
        )  # fmt: skip
    _store_rows(dk_ptr + b * dk_b + kv * dk_h, dk * scale, start_n, BLOCK_N, n_k, dk_n, D, BLOCK_D)
    _store_rows(dv_ptr + b * dv_b + kv * dv_h, dv, start_n, BLOCK_N, n_k, dv_n, D, BLOCK_D)


@triton.jit
def _query_blocks(
    q, do, L, delta, dq, k_ptr, v_ptr, k_n, v_n, rows, begin, end, n_k, offset, scale, softcap, D: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr, SOFTCAP: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    for start in range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = _rows(k_ptr, start, BLOCK_N, n_k, k_n, D, BLOCK_D, MASKED)  # [BLOCK_N, BLOCK_D]
        v = _rows(v_ptr, start, BLOCK_N, n_k, v_n, D, BLOCK_D, MASKED)
        s, tanh = _capped(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, SOFTCAP)
        p = tl.exp2(s - L[:, None])  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = keys[None, :] < n_k
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + offset)
            p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v), input_precision=PRECISION) - delta[:, None])
        if SOFTCAP:
            ds = ds * (1 - tanh * tanh)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)  # dQ = dS K, scaled at the end
    return dq


@triton.jit(do_not_specialize=LENGTHS)
def query_gradient_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, L_ptr, D_ptr, dq_ptr, q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n,
    do_b, do_h, do_n, dq_b, dq_h, dq_n,
    heads, group, n_q, n_k, offset, scale, softcap, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr, UNIT: tl.constexpr, CAUSAL: tl.constexpr, SOFTCAP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program: dQ of one block of queries of one head."""
    q_b, q_h, q_n = _elements(q_b, q_h, q_n, UNIT)
    k_b, k_h, k_n = _elements(k_b, k_h, k_n, UNIT)
    v_b, v_h, v_n = _elements(v_b, v_h, v_n, UNIT)
    do_b, do_h, do_n = _elements(do_b, do_h, do_n, UNIT)
    dq_b, dq_h, dq_n = _elements(dq_b, dq_h, dq_n, UNIT)
    block, head = _place(n_q, BLOCK_M)
    if CAUSAL:
        block = tl.cdiv(n_q, BLOCK_M) - 1 - block
    start_m = block * BLOCK_M
    b, h = head // heads, head % heads
    rows = start_m + tl.arange(0, BLOCK_M)
    k_ptr += b * k_b + h // group * k_h
    v_ptr += b * v_b + h // group * v_h
    q = _rows(q_ptr + b * q_b + h * q_h, start_m, BLOCK_M, n_q, q_n, D, BLOCK_D, True)
    do = _rows(do_ptr + b * do_b + h * do_h, start_m, BLOCK_M, n_q, do_n, D, BLOCK_D, True)
    at = head * n_q + rows
    L = tl.load(L_ptr + at, mask=rows < n_q, other=0.0) * LOG2E
    delta = tl.where(-float("inf") < L, tl.load(D_ptr + at, mask=rows < n_q, other=0.0), 0.0)
    L = tl.where(-float("inf") < L, L, 0.0)  # a row that saw no key: its p is masked
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    end, clear = n_k, n_k
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(n_k, start_m + BLOCK_M + offset))
        clear = tl.maximum(0, tl.minimum(n_k, start_m + offset + 1))
    clear = clear // BLOCK_N * BLOCK_N
    dq = _query_blocks(
        q, do, L, delta, dq, k_ptr, v_ptr, k_n, v_n, rows, 0, clear, n_k, offset, scale, softcap, D, BLOCK_N, BLOCK_D,
        CAUSAL, SOFTCAP, False, PRECISION,
    )  # fmt: skip
    dq = _query_blocks(
        q, do, L, delta, dq, k_ptr, v_ptr, k_n, v_n, rows, clear, end, n_k, offset, scale, softcap, D, BLOCK_N, BLOCK_D,
        CAUSAL, SOFTCAP, True, PRECISION,
    )  # fmt: skip
    _store_rows(dq_ptr + b * dq_b + h * dq_h, dq * scale, start_m, BLOCK_M, n_q, dq_n, D, BLOCK_D)

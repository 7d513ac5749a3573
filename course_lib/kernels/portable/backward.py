"""The backward pass: D, then dK and dV, one program per block of keys, then dQ, one for each block of queries."""

import torch

from course_lib.kernels import LOG2E, tl, triton
from course_lib.kernels.launching import launch
from course_lib.kernels.portable.rows import FARTHEST_ROWS, SHAPES, _capped, _elements, _place, _rows, _store_rows
from course_lib.kernels.portable.tiles import blocks_of, constants_of, strides_in_units


@triton.jit(do_not_specialize=SHAPES)
def delta_kernel(
    o_ptr, do_ptr, dL_ptr, D_ptr, o_b, o_h, o_n, do_b, do_h, do_n, heads, n_q,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, UNIT: tl.constexpr, OF_L: tl.constexpr,
):  # fmt: skip
    """D = rowsum(dO ∘ O) (Algorithm 2, line 4), less the gradient of L, if there is one: it acts on the same place."""
    o_b, o_h, o_n = _elements(o_b, o_h, o_n, UNIT)
    do_b, do_h, do_n = _elements(do_b, do_h, do_n, UNIT)
    block, head = _place(n_q, BLOCK_M)
    start_m = block * BLOCK_M
    b, h = head // heads, head % heads
    rows = start_m + tl.arange(0, BLOCK_M)
    o = _rows(o_ptr + b * o_b + h * o_h, start_m, BLOCK_M, n_q, o_n, D, BLOCK_D, True).to(tl.float32)
    do = _rows(do_ptr + b * do_b + h * do_h, start_m, BLOCK_M, n_q, do_n, D, BLOCK_D, True).to(tl.float32)
    at = head * n_q + rows
    delta = tl.sum(o * do, 1)
    if OF_L:
        delta -= tl.load(dL_ptr + at, mask=rows < n_q, other=0.0)
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
        s, slope = _capped(
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
            ds = ds * slope
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=PRECISION)  # dK = dSᵀ Q, scaled at the end
    return dk, dv


@triton.jit(do_not_specialize=SHAPES)
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
        s, slope = _capped(tl.dot(q, tl.trans(k), input_precision=PRECISION), scale, softcap, SOFTCAP)
        p = tl.exp2(s - L[:, None])  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = keys[None, :] < n_k
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + offset)
            p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v), input_precision=PRECISION) - delta[:, None])
        if SOFTCAP:
            ds = ds * slope
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)  # dQ = dS K, scaled at the end
    return dq


@triton.jit(do_not_specialize=SHAPES)
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


def launch_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, do: torch.Tensor,
    dL: torch.Tensor | None, causal: bool, offset: int, scale: float, softcap: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv): three kernels, for D, for dK and dV, for dQ. ``dL`` None: nothing was made of L."""
    if do.stride(3) != 1 or do.stride(2) >= FARTHEST_ROWS:
        do = do.contiguous()
    (b, h, n_q, d), (_, h_k, n_k, _) = q.shape, k.shape
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    offset = max(-n_q, min(offset, n_k))
    delta, constants = torch.empty_like(L), constants_of(q, causal, softcap)
    unit, strides = strides_in_units(o, do)
    launch(
        delta_kernel, (triton.cdiv(n_q, 64) * b * h,), o, do,
        L if dL is None else dL.contiguous(), delta, *strides, h, n_q,
        D=d, BLOCK_M=64, BLOCK_D=constants["BLOCK_D"], UNIT=unit, OF_L=dL is not None,
    )  # fmt: skip
    numbers = [h // h_k, n_q, n_k, offset, scale, softcap]
    unit, strides = strides_in_units(q, k, v, do, dk, dv)
    x = blocks_of("key value gradient", q, causal)
    launch(
        key_value_gradient_kernel, (triton.cdiv(n_k, x.block_n) * b * h_k,), q, k, v, do, L, delta, dk, dv,
        *strides, h_k, *numbers,
        BLOCK_M=x.block_m, BLOCK_N=x.block_n, num_warps=x.num_warps, num_stages=x.num_stages,
        UNIT=unit, **constants,
    )  # fmt: skip
    unit, strides = strides_in_units(q, k, v, do, dq)
    x = blocks_of("query gradient", q, causal)
    launch(
        query_gradient_kernel, (triton.cdiv(n_q, x.block_m) * b * h,), q, k, v, do, L, delta, dq,
        *strides, h, *numbers,
        BLOCK_M=x.block_m, BLOCK_N=x.block_n, num_warps=x.num_warps, num_stages=x.num_stages,
        UNIT=unit, **constants,
    )  # fmt: skip
    return dq, dk, dv

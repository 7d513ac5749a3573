"""The forward pass: O and L, one program per block of queries."""

import torch

from course_lib.kernels import LOG2E, tl, triton
from course_lib.kernels.launching import check_memory, launch
from course_lib.kernels.portable.rows import SHAPES, _capped, _elements, _place, _rows, _store_rows
from course_lib.kernels.portable.tiles import blocks_of, constants_of, strides_in_units


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


@triton.jit(do_not_specialize=SHAPES)
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


def launch_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int, scale: float, softcap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, L) for arguments that ``attention`` has checked; a ``softcap`` of 0 is none."""
    check_memory(q=q, k=k, v=v)  # of a compiled model they are not seen before
    (b, h, n_q), (h_k, n_k) = q.shape[:3], k.shape[1:3]
    o, L = torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)
    if o.numel() == 0:
        return o, L
    offset = max(-n_q, min(offset, n_k))
    blocks, constants = blocks_of("forward", q, causal), constants_of(q, causal, softcap)
    unit, strides = strides_in_units(q, k, v, o)
    launch(
        forward_kernel, (triton.cdiv(n_q, blocks.block_m) * b * h,), q, k, v, o, L,
        *strides, h, h // h_k, n_q, n_k, offset, scale, softcap,
        BLOCK_M=blocks.block_m, BLOCK_N=blocks.block_n, num_warps=blocks.num_warps, num_stages=blocks.num_stages,
        UNIT=unit, **constants,
    )  # fmt: skip
    return o, L

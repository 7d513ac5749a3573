"""The two loop orders of flash attention in Triton, and the form between them, on [H, N, d]: the kernels of lecture 06.

Each program walks a range of the queries of one head. V1 has its outer loop over K/V and keeps O, l and m in HBM; V2 has it
over Q and keeps them on chip. How many programs share a head (``split``) is the caller's choice for both, so
that loop order and parallelism can be varied one at a time.
"""

import math

import torch

from course_lib import checks
from course_lib.kernels import tl, triton
from course_lib.kernels.launching import (
    LARGEST_D,
    MOST_PROGRAMS,
    PRECISIONS,
    check_block,
    check_launch,
    check_length,
    check_tiles,
    launch,
    warps,
)


@triton.jit
def _scores(q, k, rows, keys, n, scale, CAUSAL: tl.constexpr, PRECISION: tl.constexpr):
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # [BLOCK_M, BLOCK_N]
    seen = keys[None, :] < n
    if CAUSAL:
        seen = seen & (keys[None, :] <= rows[:, None])
    return tl.where(seen, s, -float("inf"))


@triton.jit
def _v1_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, l_ptr, m_ptr, n, rows_each, scale, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * n
    first = tl.program_id(0) * rows_each
    last = tl.minimum(first + rows_each, n)
    dims = tl.arange(0, BLOCK_D)
    end = last if CAUSAL else n
    for start_n in range(0, end, BLOCK_N):  # FlashAttention, Algorithm 1, line 5
        keys = start_n + tl.arange(0, BLOCK_N)
        k_at = (head + keys[:, None]) * D + dims[None, :]
        k_mask = (keys[:, None] < n) & (dims[None, :] < D)
        k = tl.load(k_ptr + k_at, mask=k_mask, other=0.0)  # line 6: [BLOCK_N, BLOCK_D]
        v = tl.load(v_ptr + k_at, mask=k_mask, other=0.0)
        begin = tl.maximum(first, start_n // BLOCK_M * BLOCK_M) if CAUSAL else first
        for start_m in range(begin, last, BLOCK_M):  # line 7
            rows = start_m + tl.arange(0, BLOCK_M)
            q_at = (head + rows[:, None]) * D + dims[None, :]
            q_mask = (rows[:, None] < n) & (dims[None, :] < D)
            q = tl.load(q_ptr + q_at, mask=q_mask, other=0.0)  # line 8: [BLOCK_M, BLOCK_D]
            acc = tl.load(o_ptr + q_at, mask=q_mask, other=0.0)
            l = tl.load(l_ptr + head + rows, mask=rows < n, other=0.0)  # [BLOCK_M]
            m = tl.load(m_ptr + head + rows, mask=rows < n, other=-float("inf"))
            s = _scores(q, k, rows, keys, n, scale, CAUSAL, PRECISION)  # line 9: [BLOCK_M, BLOCK_N]
            m_pair = tl.max(s, 1)  # line 10
            shift = tl.where(m_pair > -float("inf"), m_pair, 0.0)  # a row may see none of these keys
            p = tl.exp(s - shift[:, None])
            m_new = tl.maximum(m, m_pair)  # line 11
            old, fresh = l * tl.exp(m - m_new), tl.exp(m_pair - m_new)
            l = old + tl.sum(p, 1) * fresh
            pv = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
            inverse = 1 / l
            acc = (acc * old[:, None] + pv * fresh[:, None]) * inverse[:, None]
            tl.store(o_ptr + q_at, acc, mask=q_mask)  # line 12
            tl.store(l_ptr + head + rows, l, mask=rows < n)  # line 13
            tl.store(m_ptr + head + rows, m_new, mask=rows < n)
        tl.debug_barrier()  # what one thread stored, another may load for the next block of keys


@triton.jit
def _running_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n, rows_each, scale, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * n
    first = tl.program_id(0) * rows_each
    last = tl.minimum(first + rows_each, n)
    dims = tl.arange(0, BLOCK_D)
    for start_m in range(first, last, BLOCK_M):
        rows = start_m + tl.arange(0, BLOCK_M)
        q_at = (head + rows[:, None]) * D + dims[None, :]
        q_mask = (rows[:, None] < n) & (dims[None, :] < D)
        q = tl.load(q_ptr + q_at, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_D]
        acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
        m = tl.full([BLOCK_M], -float("inf"), tl.float32)
        l = tl.zeros([BLOCK_M], tl.float32)
        end = tl.minimum(start_m + BLOCK_M, n) if CAUSAL else n
        for start_n in range(0, end, BLOCK_N):
            keys = start_n + tl.arange(0, BLOCK_N)
            k_at = (head + keys[:, None]) * D + dims[None, :]
            k_mask = (keys[:, None] < n) & (dims[None, :] < D)
            k = tl.load(k_ptr + k_at, mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_D]
            v = tl.load(v_ptr + k_at, mask=k_mask, other=0.0)
            s = _scores(q, k, rows, keys, n, scale, CAUSAL, PRECISION)  # [BLOCK_M, BLOCK_N]
            m_new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - m_new[:, None])
            correction = tl.exp(m - m_new)
            l_new = l * correction + tl.sum(p, 1)
            pv = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
            inverse = 1 / l_new
            acc = acc * (correction * l * inverse)[:, None] + pv * inverse[:, None]
            m, l = m_new, l_new
        tl.store(o_ptr + q_at, acc.to(o_ptr.dtype.element_ty), mask=q_mask)


@triton.jit
def _v2_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, L_ptr, n, rows_each, scale, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * n
    first = tl.program_id(0) * rows_each
    last = tl.minimum(first + rows_each, n)
    dims = tl.arange(0, BLOCK_D)
    for start_m in range(first, last, BLOCK_M):  # FlashAttention-2, Algorithm 1, line 3
        rows = start_m + tl.arange(0, BLOCK_M)
        q_at = (head + rows[:, None]) * D + dims[None, :]
        q_mask = (rows[:, None] < n) & (dims[None, :] < D)
        q = tl.load(q_ptr + q_at, mask=q_mask, other=0.0)  # line 4: [BLOCK_M, BLOCK_D]
        acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # line 5
        m = tl.full([BLOCK_M], -float("inf"), tl.float32)
        l = tl.zeros([BLOCK_M], tl.float32)
        end = tl.minimum(start_m + BLOCK_M, n) if CAUSAL else n
        for start_n in range(0, end, BLOCK_N):  # line 6
            keys = start_n + tl.arange(0, BLOCK_N)
            k_at = (head + keys[:, None]) * D + dims[None, :]
            k_mask = (keys[:, None] < n) & (dims[None, :] < D)
            k = tl.load(k_ptr + k_at, mask=k_mask, other=0.0)  # line 7: [BLOCK_N, BLOCK_D]
            v = tl.load(v_ptr + k_at, mask=k_mask, other=0.0)
            s = _scores(q, k, rows, keys, n, scale, CAUSAL, PRECISION)  # line 8: [BLOCK_M, BLOCK_N]
            m_new = tl.maximum(m, tl.max(s, 1))  # line 9
            p = tl.exp(s - m_new[:, None])
            correction = tl.exp(m - m_new)
            l = l * correction + tl.sum(p, 1)
            acc = acc * correction[:, None]  # line 10
            m = m_new
            acc += tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
        inverse = 1 / l
        acc = acc * inverse[:, None]  # line 12
        tl.store(o_ptr + q_at, acc.to(o_ptr.dtype.element_ty), mask=q_mask)  # line 14
        tl.store(L_ptr + head + rows, m + tl.log(l), mask=rows < n)  # lines 13, 15


def flash_v1(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    causal: bool = False,
    split: int | None = 1,
    input_precision: str = "ieee",
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention by FlashAttention's Algorithm 1 as printed: outer loop over K/V, O, l and m read and written in HBM for each pair.

    q, k, v [H, N, d], contiguous -> [H, N, d]; float32 or float16 (bfloat16 on a GPU), any N >= 1, d up to 256; ``causal``
    lets query i see the keys up to i. block_m and block_n are powers of two of at least 16. ``split`` programs share the
    queries of each head (None: one for each block of queries). ``num_stages`` is how many iterations of a loop
    software pipelining may have in flight; 1 turns it off. O accumulates in float32; filling it with zeros first
    and converting it to q's dtype at the end are separate launches. Raises TypeError or ValueError before any launch.
    """
    grid, rows_each, constants = _prepare(q, k, v, block_m, block_n, causal, split, input_precision, num_stages)
    h, n, d = q.shape
    o = torch.zeros(h, n, d, dtype=torch.float32, device=q.device)  # line 2
    l, m = torch.zeros(h, n, device=q.device), torch.full((h, n), -math.inf, device=q.device)
    launch(_v1_kernel, grid, q, k, v, o, l, m, n, rows_each, 1 / math.sqrt(d), **constants)
    return o.to(q.dtype)


def flash_running(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    causal: bool = False,
    split: int | None = None,
    input_precision: str = "ieee",
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention with V2's loops, but O normalised after every block of keys. Arguments, result, errors: see ``flash_v1``."""
    grid, rows_each, constants = _prepare(q, k, v, block_m, block_n, causal, split, input_precision, num_stages)
    o = torch.empty_like(q)
    launch(_running_kernel, grid, q, k, v, o, q.shape[1], rows_each, 1 / math.sqrt(q.shape[2]), **constants)
    return o


def flash_v2(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    causal: bool = False,
    split: int | None = None,
    input_precision: str = "ieee",
    num_stages: int = 3,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by FlashAttention-2's Algorithm 1: outer loop over Q, O on chip. Arguments and errors: see ``flash_v1``.

    -> (o [H, N, d] in q's dtype, L [H, N] in float32), L = m + log l, the log-sum-exp of each row of scores.
    """
    grid, rows_each, constants = _prepare(q, k, v, block_m, block_n, causal, split, input_precision, num_stages)
    h, n, d = q.shape
    o, L = torch.empty_like(q), torch.empty(h, n, device=q.device)
    launch(_v2_kernel, grid, q, k, v, o, L, n, rows_each, 1 / math.sqrt(d), **constants)
    return o, L


def _prepare(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int,
    block_n: int,
    causal: bool,
    split: int | None,
    input_precision: str,
    num_stages: int,
) -> tuple[tuple[int, int], int, dict[str, int | str | bool]]:
    """Check the arguments; return (grid, queries for each program, the kernel's constants)."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.float_tensor(name, x, ndim=3, look_inside=False)
    checks.same_dtype_and_device(q=q, k=k, v=v)
    checks.same_shape(q=q, k=k, v=v)
    check_length("q", q.shape[1])
    check_launch(q=q, k=k, v=v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not x.is_contiguous():
            raise ValueError(
                f"{name} has strides {list(x.stride())}; this kernel needs them contiguous: pass {name}.contiguous()"
            )
    h, n, d = q.shape
    if h > MOST_PROGRAMS:
        raise ValueError(f"q has {h:,} heads; this kernel takes at most {MOST_PROGRAMS:,}: pass them in parts")
    if d > LARGEST_D:
        raise ValueError(f"the head dimension is {d}; this kernel takes at most {LARGEST_D}")
    check_block("block_m", block_m, smallest=16)
    check_block("block_n", block_n, smallest=16)
    checks.one_of("input_precision", input_precision, PRECISIONS)
    checks.causal_mask(causal)
    blocks = triton.cdiv(n, block_m)
    each = 1 if split is None else triton.cdiv(blocks, checks.positive_int("split", split))
    block_d = max(16, triton.next_power_of_2(d))
    check_tiles(block_m=block_m, block_n=block_n, d=block_d)
    constants = {
        "D": d,
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_D": block_d,
        "CAUSAL": causal,
        "PRECISION": input_precision,
        "num_stages": checks.positive_int("num_stages", num_stages),
        "num_warps": warps(q.dtype, input_precision, block_m, block_n, block_d),
    }
    return (triton.cdiv(blocks, each), h), each * block_m, constants

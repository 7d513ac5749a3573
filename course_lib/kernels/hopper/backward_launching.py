"""The backward kernel's launch, and what is done before and after it: L and delta for each query, dQ in q's dtype."""

import math
from typing import Any, NamedTuple

import torch

from course_lib import runtime
from course_lib.kernels import gl, tl, triton
from course_lib.kernels.hopper.backward import backward_kernel
from course_lib.kernels.hopper.launching import _cdiv, at_once, call_refusal, descriptor, rows_aligned
from course_lib.kernels.launching import launch
from course_lib.kernels.portable.rows import SHAPES, _rows
from course_lib.kernels.portable.tiles import strides_in_units


class BackwardTiling(NamedTuple):
    """Queries a block, buffers for blocks of queries, and whether S starts from -L / scale."""

    block_m: int
    buffers: int
    folded: bool


BACKWARD_TILINGS = {64: BackwardTiling(128, 2, False), 128: BackwardTiling(64, 2, True)}  # for D <= 64 and D <= 128
_L2_BYTES = (
    20e6  # of the 60 MB of an H200, what Q, dO and dQ in fp32 of a group of heads may take: chosen in short runs
)


@triton.jit(do_not_specialize=SHAPES)
def before_kernel(
    o_ptr, do_ptr, L_ptr, dL_ptr, L_out_ptr, delta_ptr, dq_ptr, counter_ptr, o_b, o_h, o_n, do_b, do_h, do_n, heads, n_q,
    L_factor, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, UNIT: tl.constexpr,
    OF_L: tl.constexpr,
):  # fmt: skip
    """64 queries: L · L_factor and -delta = dL - rowsum(dO ∘ O), as the kernel wants them; dQ = 0, counter = 0.

    Beyond the last query, and where a query saw no key (L = -inf), L is +inf and delta 0: P and dS will be 0.
    """
    if tl.program_id(0) == 0:
        tl.store(counter_ptr, 0)
    blocks = tl.cdiv(n_q, BLOCK_M) * (BLOCK_M // 64)
    start, head = tl.program_id(0) % blocks * 64, (tl.program_id(0) // blocks).to(tl.int64)
    b, h = head // heads, head % heads
    o = _rows(o_ptr + (b * o_b + h * o_h) * UNIT, start, 64, n_q, o_n * UNIT, D, BLOCK_D, True).to(tl.float32)
    do = _rows(do_ptr + (b * do_b + h * do_h) * UNIT, start, 64, n_q, do_n * UNIT, D, BLOCK_D, True).to(tl.float32)
    rows = start + tl.arange(0, 64)
    L = tl.load(L_ptr + head * n_q + rows, mask=rows < n_q, other=-float("inf"))
    seen = -float("inf") != L
    delta = tl.sum(o * do, 1)
    if OF_L:
        delta -= tl.load(dL_ptr + head * n_q + rows, mask=seen, other=0.0)
    to = head * (blocks * 64) + rows
    tl.store(L_out_ptr + to, tl.where(seen, L, float("inf")) * L_factor)
    tl.store(delta_ptr + to, tl.where(seen, -delta, 0.0))
    zeros = to[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    tl.store(dq_ptr + zeros, tl.zeros([64, BLOCK_D], tl.float32))


@triton.jit(do_not_specialize=SHAPES)
def after_kernel(
    dq_acc_ptr, dq_ptr, n_q, scale, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr
):  # fmt: skip
    """What one consumer added to dQ of a block of queries, from the order of its registers to rows, scaled, in q's dtype."""
    COLS: tl.constexpr = BLOCK_M * BLOCK_D // 128
    steps = tl.cdiv(n_q, BLOCK_M)
    block, me = tl.program_id(0) // 2, tl.program_id(0) % 2
    x = tl.load(dq_acc_ptr + tl.program_id(0).to(tl.int64) * (64 * COLS) + tl.arange(0, 64 * COLS)) * scale
    x = x.to(dq_ptr.dtype.element_ty)
    x = x.reshape([COLS // 8, 4, 8, 4, 2, 2]).permute((1, 4, 2, 0, 3, 5)).reshape([64, COLS])
    rows, cols = block % steps * BLOCK_M + tl.arange(0, 64), tl.arange(0, COLS)
    if COLS == BLOCK_D:
        rows += me * 64
    else:
        cols += me * COLS
    at = ((block // steps).to(tl.int64) * n_q + rows)[:, None] * D + cols[None, :]
    tl.store(dq_ptr + at, x, mask=(rows < n_q)[:, None] & (cols < D)[None, :])


def backward_refusal(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, softcap: float, deterministic: bool
) -> str:
    """Why the portable kernels serve this backward pass; '' if ``launch_backward`` does."""
    if deterministic:
        return "it adds to dq in any order"
    if why := call_refusal(q, k, v, scale, softcap):
        return why
    shortest = min(q.shape[2], k.shape[2])
    if q.shape[3] <= 64 and shortest < 128:  # up to 20 % slower there, in short runs on an H200
        return f"{shortest} queries or keys are few for its blocks of 128"
    return ""


def launch_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, do: torch.Tensor,
    dL: torch.Tensor | None, causal: bool, offset: int, scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv) for q, k and v that ``refusal`` lets pass, none empty; scale > 0.

    o [B, H, Nq, D] and L [B, H, Nq] are what the forward pass gave, do and dL the gradients of them; ``dL`` None: nothing was
    made of L. dq is added up in any order: two calls may differ by roundings; dk and dv are the same bits.
    """
    n_q, n_k = q.shape[2], k.shape[2]
    if not rows_aligned(do) or do.stride(2) >= 2**24:  # so that offsets within a block fit 32 bits
        do = torch.empty_like(do, memory_format=torch.contiguous_format).copy_(do)
    offset = max(-n_q, min(offset, n_k)) if causal else n_k  # from n_k on, every query sees all keys
    L_out, delta, dq_acc, counter = launch_before(o, L, do, dL, scale)
    dk, dv = launch_matmuls(q, k, v, do, L_out, delta, dq_acc, counter, offset, scale)
    return launch_after(dq_acc, q, scale), dk, dv


def _tiling(d: int) -> tuple[int, BackwardTiling]:
    return (64, BACKWARD_TILINGS[64]) if d <= 64 else (128, BACKWARD_TILINGS[128])


def launch_before(
    o: torch.Tensor, L: torch.Tensor, do: torch.Tensor, dL: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(L, -delta, accumulator of dQ, counter of tiles), as ``launch_matmuls`` takes them, each head padded to whole blocks."""
    (b, h, n_q, d), (block_d, tiling) = o.shape, _tiling(o.shape[3])
    rows = b * h * _cdiv(n_q, tiling.block_m) * tiling.block_m
    L_out, delta = (o.new_empty(rows, dtype=torch.float32) for _ in range(2))
    dq_acc, counter = o.new_empty(rows, block_d, dtype=torch.float32), o.new_empty(1, dtype=torch.int32)
    L_factor = -1 / scale if tiling.folded else math.log2(math.e)
    unit, strides = strides_in_units(o, do)
    launch(
        before_kernel, (rows // 64,), o, do, L, L if dL is None else dL.contiguous(), L_out, delta, dq_acc, counter, *strides, h,
        n_q, L_factor, D=d, BLOCK_D=block_d, BLOCK_M=tiling.block_m, UNIT=unit, OF_L=dL is not None, num_warps=4,
    )  # fmt: skip
    return L_out, delta, dq_acc, counter


def launch_after(dq_acc: torch.Tensor, q: torch.Tensor, scale: float) -> torch.Tensor:
    """dq like q, from the accumulator that ``launch_matmuls`` has made."""
    dq, (block_d, tiling) = torch.empty_like(q, memory_format=torch.contiguous_format), _tiling(q.shape[3])
    launch(
        after_kernel, (2 * dq_acc.shape[0] // tiling.block_m,), dq_acc, dq, q.shape[2], scale,
        D=q.shape[3], BLOCK_D=block_d, BLOCK_M=tiling.block_m, num_warps=4,
    )  # fmt: skip
    return dq


def launch_matmuls(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, L: torch.Tensor, delta: torch.Tensor,
    dq_acc: torch.Tensor, counter: torch.Tensor, offset: int, scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(dk, dv), and dQ added to ``dq_acc``: the kernel between before and after, for what before has written."""
    (b, h, n_q, d), (h_k, n_k) = q.shape, k.shape[1:3]
    heads, group, (block_d, tiling) = b * h_k, h // h_k, _tiling(d)
    dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (k, v))
    programs = min(_cdiv(n_k, 128) * heads, runtime.multiprocessors(q.device))
    together = at_once(heads, int(_L2_BYTES / (n_q * block_d * 8 * group)))
    launch(
        backward_kernel, (programs,), descriptor(q, tiling.block_m, block_d), _numbers(L, tiling.block_m),
        descriptor(do, tiling.block_m, block_d), _numbers(delta, tiling.block_m),
        *(descriptor(x, 64, block_d) for x in (k, v, dk, dv)), _numbers(dq_acc.view(-1, 32), 128), dq_acc, counter, heads, h_k,
        group, together, n_q, n_k, offset, scale * math.log2(math.e), scale, BLOCK_D=block_d, BLOCK_M=tiling.block_m,
        BUFFERS=tiling.buffers, FOLDED=tiling.folded, GROUPED=group > 1, num_warps=4,
    )  # fmt: skip
    return dk, dv


def _numbers(x: torch.Tensor, block: int) -> Any:
    """Blocks of rows of a vector or a matrix in fp32 for TMA."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    shape = [block, *x.shape[1:]]
    return TensorDescriptor(
        x, list(x.shape), list(x.stride()), shape, gl.NVMMASharedLayout.get_default_for(shape, gl.float32)
    )

"""``attention``: the drop-in at the end of the road. Called like torch's scaled_dot_product_attention, and trainable.

o = attention(q, k, v, causal=True)                     # q [B, H, Nq, D], k and v [B, Hk, Nk, D]
o, L = attention(q, k, v, return_lse=True)              # L [B, H, Nq], the log-sum-exp of each row of scores
"""

import math
from typing import Any, NamedTuple

import torch

from course_lib import checks, runtime
from course_lib.kernels import LARGEST_D, check_launch, hopper, launch, triton, warps
from course_lib.kernels.training import delta_kernel, forward_kernel, key_value_gradient_kernel, query_gradient_kernel


class Blocks(NamedTuple):
    """Block sizes and launch options of one kernel."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    causal_offset: int = 0,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale · q kᵀ) v without S or P in memory, with gradients for q, k, v (and through L).

    q [B, H, Nq, D], k and v [B, Hk, Nk, D] -> [B, H, Nq, D] in q's dtype: float32 or float16 (bfloat16 on a GPU), any
    strides with a contiguous last dimension, D up to 256. H is a multiple of Hk: consecutive heads of q share one of k and v.
    ``scale`` is 1/√D unless given. ``softcap`` replaces a score x by softcap · tanh(x / softcap). ``causal`` lets query i see
    the keys j <= i + causal_offset; 0 aligns the first query with the first key, as torch's is_causal does, Nk - Nq the last
    with the last. A query that sees no key gets 0, L = -inf and no gradient. float32 is multiplied in TF32 if
    torch's own products are (torch.backends.cuda.matmul.fp32_precision). L is in float32. Raises TypeError or ValueError before any launch.
    """
    _check(q, k, v, causal, scale, softcap, causal_offset)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    offset = causal_offset if causal else 0
    o, L = _forward(q, k, v, causal, offset, scale, 0.0 if softcap is None else float(softcap))
    return (o, L) if return_lse else o


def _check(q: Any, k: Any, v: Any, causal: Any, scale: float | None, softcap: float | None, causal_offset: Any) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; pass a torch.Tensor")
        if x.dim() != 4:
            raise ValueError(f"{name} has shape {list(x.shape)}; pass [batch, heads, length, head size]")
        if not x.is_floating_point():
            raise TypeError(f"{name} has dtype {x.dtype}; pass floating-point numbers, for example {name}.half()")
    checks.same_kind(q=q, k=k, v=v)
    if k.shape != v.shape:
        raise ValueError(f"k has shape {list(k.shape)} but v has {list(v.shape)}; pass tensors of one shape")
    if q.shape[0] != k.shape[0]:
        raise ValueError(f"q has batch size {q.shape[0]} but k and v have {k.shape[0]}; they must be equal")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"q has head size {q.shape[3]} but k and v have {k.shape[3]}; they must be equal")
    if not 1 <= q.shape[3] <= LARGEST_D:
        raise ValueError(f"the head size is {q.shape[3]}; pass 1 to {LARGEST_D}")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"q has {q.shape[1]} heads, k and v have {k.shape[1]}; q's must be a multiple of theirs")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.stride(2) >= 2**24:
            raise ValueError(f"{name} has strides {list(x.stride())}; rows lie too far apart: pass {name}.contiguous()")
    checks.causal_mask(causal, causal_offset)
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale is {scale}; pass a finite number, or None for 1/√D")
    if softcap is not None and not 0 < softcap < math.inf:
        raise ValueError(f"softcap is {softcap}; pass a positive number, or None for none")
    if not q.is_meta and not torch.compiler.is_compiling():
        check_launch(q=q, k=k, v=v)


# --- the operators: opaque to torch.compile, so that a model with attention() is one graph ---


def launch_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int, scale: float, softcap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, L) for arguments that ``attention`` has checked; a ``softcap`` of 0 is none."""
    if _portable_because(q, k, v, causal, scale, softcap):
        return launch_portable(q, k, v, causal, offset, scale, softcap)
    n_q, n_k, d = q.shape[2], k.shape[2], q.shape[3]
    o, L = _outputs(q)
    offset = max(-n_q, min(offset, n_k))  # beyond these nothing changes, and the kernels' sums do not overflow
    rung, tiling = hopper.best(d, causal, n_k)
    hopper.launch_specialised(q, k, v, o, L, causal, offset, scale, tiling, rung)
    return o, L


def _outputs(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)


def launch_portable(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int, scale: float, softcap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``launch_forward``, always by the kernel that runs on every GPU and in the interpreter."""
    check_launch(q=q, k=k, v=v)
    (b, h, n_q), (h_k, n_k) = q.shape[:3], k.shape[1:3]
    o, L = _outputs(q)
    if o.numel() == 0:
        return o, L
    offset = max(-n_q, min(offset, n_k))
    blocks, constants = _blocks("forward", q, causal), _constants(q, causal, softcap)
    unit, strides = _strides(q, k, v, o)
    launch(
        forward_kernel, (triton.cdiv(n_q, blocks.block_m) * b * h,), q, k, v, o, L,
        *strides, h, h // h_k, n_q, n_k, offset, scale, softcap,
        BLOCK_M=blocks.block_m, BLOCK_N=blocks.block_n, num_warps=blocks.num_warps, num_stages=blocks.num_stages,
        UNIT=unit, **constants,
    )  # fmt: skip
    return o, L


_forward = torch.library.custom_op("course::attention_forward", launch_forward, mutates_args=())


@_forward.register_fake
def _(q, k, v, causal, offset, scale, softcap):  # type: ignore[no-untyped-def]
    L = q.new_empty(q.shape[:3], dtype=torch.float32)
    return torch.empty_like(q, memory_format=torch.contiguous_format), L


def launch_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, do: torch.Tensor, dL: torch.Tensor,
    causal: bool, offset: int, scale: float, softcap: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv): three kernels, for D, for dK and dV, for dQ."""
    do, dL = (x if x.stride(-1) == 1 else x.contiguous() for x in (do, dL.contiguous()))
    (b, h, n_q, d), (_, h_k, n_k, _) = q.shape, k.shape
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    offset = max(-n_q, min(offset, n_k))
    delta, constants = torch.empty_like(L), _constants(q, causal, softcap)
    unit, strides = _strides(o, do)
    launch(
        delta_kernel, (triton.cdiv(n_q, 64) * b * h,), o, do, dL, delta, *strides, h, n_q,
        D=d, BLOCK_M=64, BLOCK_D=constants["BLOCK_D"], UNIT=unit,
    )  # fmt: skip
    numbers = [h // h_k, n_q, n_k, offset, scale, softcap]
    unit, strides = _strides(q, k, v, do, dk, dv)
    x = _blocks("key value gradient", q, causal)
    launch(
        key_value_gradient_kernel, (triton.cdiv(n_k, x.block_n) * b * h_k,), q, k, v, do, L, delta, dk, dv,
        *strides, h_k, *numbers,
        BLOCK_M=x.block_m, BLOCK_N=x.block_n, num_warps=x.num_warps, num_stages=x.num_stages,
        UNIT=unit, **constants,
    )  # fmt: skip
    unit, strides = _strides(q, k, v, do, dq)
    x = _blocks("query gradient", q, causal)
    launch(
        query_gradient_kernel, (triton.cdiv(n_q, x.block_m) * b * h,), q, k, v, do, L, delta, dq,
        *strides, h, *numbers,
        BLOCK_M=x.block_m, BLOCK_N=x.block_n, num_warps=x.num_warps, num_stages=x.num_stages,
        UNIT=unit, **constants,
    )  # fmt: skip
    return dq, dk, dv


_backward = torch.library.custom_op("course::attention_backward", launch_backward, mutates_args=())


@_backward.register_fake
def _(q, k, v, o, L, do, dL, causal, offset, scale, softcap):  # type: ignore[no-untyped-def]
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, *options = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = options


def _gradient(ctx: Any, do: torch.Tensor, dL: torch.Tensor) -> tuple[Any, ...]:
    return (*_backward(*ctx.saved_tensors, do, dL, *ctx.options), None, None, None, None)


_forward.register_autograd(_gradient, setup_context=_setup)


# --- which kernel, with which tiles ---


def kernel_choice(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
) -> str:
    """Which forward kernel ``attention`` takes for these arguments, in a sentence; raises as ``attention`` does."""
    _check(q, k, v, causal, scale, softcap, 0)
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    why = _portable_because(q, k, v, causal, scale, softcap or 0.0)
    if why:
        x = _blocks("forward", q, causal)
        tiles = f"{x.block_m}×{x.block_n} blocks, {x.num_warps} warps, {x.num_stages} stages"
        return f"portable (Triton): {tiles}; not Hopper's kernel: {why}"
    rung, tiling = hopper.best(q.shape[3], causal, k.shape[2])
    tiles = f"{tiling.consumers} warpgroups with 64 queries each, {tiling.block_n} keys a block, {tiling.stages} slots"
    return f"{rung.name} (Gluon, Hopper): {tiles}"


def _portable_because(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, softcap: float
) -> str:
    """Why the portable kernel serves this call; '' if Hopper's does."""
    if softcap:
        return "it has no softcap"
    if not q.numel() or not k.numel():
        return "there is nothing to multiply"
    if scale < 1e-30:  # in fp32 the kernel's scale would be 0, or a denormal number
        return "it needs a positive scale"
    return hopper.refusal(q, k, v) or hopper.too_small(q, causal, k.shape[2])


def _strides(*tensors: torch.Tensor) -> tuple[int, list[int]]:
    """(UNIT, the three outer strides of each tensor in units of UNIT elements): 16 bytes where all are multiples of it."""
    strides = [stride for x in tensors for stride in x.stride()[:3]]
    unit = 16 // tensors[0].element_size()
    unit = 1 if any(stride % unit for stride in strides) else unit
    return unit, [stride // unit for stride in strides]


def _constants(q: torch.Tensor, causal: bool, softcap: float) -> dict[str, Any]:
    d = q.shape[3]
    matmul = torch.backends.cuda.matmul
    # torch refuses to answer about the old name of the setting once the new one has been used.
    tf32 = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return {
        "D": d,
        "BLOCK_D": max(16, triton.next_power_of_2(d)),
        "CAUSAL": causal,
        "SOFTCAP": softcap > 0,
        "PRECISION": "tf32" if q.dtype == torch.float32 and tf32 else "ieee",
    }


# (kernel, largest head size, causal): blocks for halves on sm_90. The fastest of a sweep on an H200 in bf16, N = 1k and 4k.
_HALVES = {
    ("forward", 64, False): Blocks(128, 64, 8, 3),
    ("forward", 64, True): Blocks(64, 64, 4, 3),
    ("forward", 128, False): Blocks(64, 64, 4, 3),
    ("forward", 128, True): Blocks(64, 64, 4, 3),
    ("key value gradient", 64, False): Blocks(64, 64, 4, 2),
    ("key value gradient", 64, True): Blocks(32, 64, 4, 3),
    ("key value gradient", 128, False): Blocks(64, 64, 4, 2),
    ("key value gradient", 128, True): Blocks(64, 128, 8, 3),
    ("query gradient", 64, False): Blocks(128, 64, 8, 3),
    ("query gradient", 64, True): Blocks(64, 64, 4, 3),
    ("query gradient", 128, False): Blocks(128, 64, 8, 3),
    ("query gradient", 128, True): Blocks(128, 64, 8, 3),
}


def _blocks(kernel: str, q: torch.Tensor, causal: bool) -> Blocks:
    """Block sizes for this kernel, head size, dtype and device; small ones where shared memory or registers are few."""
    block_d = max(16, triton.next_power_of_2(q.shape[3]))
    if q.dtype == torch.float32 or block_d > 128:
        block = 32 if block_d <= 64 else 16
        return Blocks(block, block, warps(q.dtype, "ieee", block, block, block_d), 1)
    if runtime.lane() != "GPU":  # the interpreter pays for each block, not for its size
        return Blocks(64, 64, 4, 1)
    if runtime.architecture(q.device) // 10 not in (9, 10):  # others have less shared memory
        return Blocks(64, 64 if block_d <= 64 else 32, 4, 2)
    return _HALVES[kernel, 64 if block_d <= 64 else 128, causal]

"""``attention``: the drop-in at the end of the road. Called like torch's scaled_dot_product_attention, and trainable.

o = attention(q, k, v, causal=True)                     # q [B, H, Nq, D], k and v [B, Hk, Nk, D]
o, L = attention(q, k, v, return_lse=True)              # L [B, H, Nq], the log-sum-exp of each row of scores
"""

import math
from typing import Any

import torch

from course_lib import checks
from course_lib.kernels import hopper, portable
from course_lib.kernels.launching import LARGEST_D, check_launch


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
    deterministic: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale · q kᵀ) v without S or P in memory, with gradients for q, k, v (and through L).

    q [B, H, Nq, D], k and v [B, Hk, Nk, D] -> [B, H, Nq, D] in q's dtype: float32 or float16 (bfloat16 on a GPU), any
    strides with a contiguous last dimension, D up to 256. H is a multiple of Hk: consecutive heads of q share one of k and v.
    ``scale`` is 1/√D unless given. ``softcap`` replaces a score x by softcap · tanh(x / softcap). ``causal`` lets query i see
    the keys j <= i + causal_offset; 0 aligns the first query with the first key, as torch's is_causal does, Nk - Nq the last
    with the last. A query that sees no key gets 0, L = -inf and no gradient. float32 is multiplied in TF32 if
    torch's own products are (torch.backends.cuda.matmul.fp32_precision). L is in float32. On a Hopper GPU q's gradient is
    added up in any order, so that two calls may differ by roundings, unless ``deterministic``, or torch's
    use_deterministic_algorithms, is set. Raises TypeError or ValueError before any launch.
    """
    _check(q, k, v, causal, scale, softcap, causal_offset)
    if not isinstance(deterministic, bool):
        raise TypeError(f"deterministic is {deterministic!r}; pass True or False")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    offset = causal_offset if causal else 0
    o, L = _forward(q, k, v, causal, offset, scale, 0.0 if softcap is None else float(softcap), deterministic)
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
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int, scale: float, softcap: float,
    deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(o, L) for arguments that ``attention`` has checked; a ``softcap`` of 0 is none. ``deterministic`` is for the backward."""
    if _portable_because(q, k, v, causal, scale, softcap):
        return portable.launch_forward(q, k, v, causal, offset, scale, softcap)
    n_q, n_k, d = q.shape[2], k.shape[2], q.shape[3]
    o, L = _outputs(q)
    offset = max(-n_q, min(offset, n_k))  # beyond these nothing changes, and the kernels' sums do not overflow
    rung, tiling = hopper.best(d, causal, n_k)
    hopper.launch_specialised(q, k, v, o, L, causal, offset, scale, tiling, rung)
    return o, L


def _outputs(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3], dtype=torch.float32)


_forward = torch.library.custom_op("course::attention_forward", launch_forward, mutates_args=())


@_forward.register_fake
def _(q, k, v, causal, offset, scale, softcap, deterministic=False):  # type: ignore[no-untyped-def]
    return _outputs(q)


def launch_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, do: torch.Tensor, dL: torch.Tensor,
    causal: bool, offset: int, scale: float, softcap: float, deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv) for what ``launch_forward`` has taken and given, and the gradients of o and L."""
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()
    if hopper.backward_refusal(q, k, v, scale, softcap, deterministic):
        return portable.launch_backward(q, k, v, o, L, do, dL, causal, offset, scale, softcap)
    return hopper.launch_backward(q, k, v, o, L, do, dL, causal, offset, scale)


_backward = torch.library.custom_op("course::attention_backward", launch_backward, mutates_args=())


@_backward.register_fake
def _(q, k, v, o, L, do, dL, causal, offset, scale, softcap, deterministic=False):  # type: ignore[no-untyped-def]
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, *options = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = options


def _gradient(ctx: Any, do: torch.Tensor, dL: torch.Tensor) -> tuple[Any, ...]:
    return (*_backward(*ctx.saved_tensors, do, dL, *ctx.options), None, None, None, None, None)


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
        x = portable.blocks_of("forward", q, causal)
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

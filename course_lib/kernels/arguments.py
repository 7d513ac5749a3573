"""The arguments of ``attention`` and ``decode``: what is refused before any launch, and what the rest mean to the kernels."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch._C import _functorch as functorch
from torch.autograd import forward_ad

from course_lib import checks, runtime
from course_lib.kernels.launching import LARGEST_D, check_length, check_memory
from course_lib.kernels.portable import FARTHEST_ROWS

LARGEST_SCALE = 2.0**64
Launcher = TypeVar("Launcher", bound=Callable[..., tuple[torch.Tensor, ...]])
Options = tuple[bool, int, float, float]  # causal, offset, scale, softcap (0: none)


def autocast_dtype(x: Any) -> torch.dtype | None:
    """The dtype in which torch's own attention takes x: that of autocast where it is on for x's device, else None. float64 stays."""
    if not isinstance(x, torch.Tensor) or x.device.type not in ("cpu", "cuda") or x.dtype == torch.float64:
        return None
    if not torch.is_autocast_enabled(x.device.type) or not x.is_floating_point():
        return None
    return torch.get_autocast_dtype(x.device.type)


def autocast(*tensors: Any) -> Sequence[Any]:
    """These as torch's own attention takes them where autocast is on; what is no tensor is refused later."""
    if not (torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")):
        return tensors
    kinds = map(autocast_dtype, tensors)
    return [x if kind is None else x.to(kind) for x, kind in zip(tensors, kinds, strict=True)]


def attention_options(q: Any, k: Any, v: Any, causal: Any, scale: Any, softcap: Any, causal_offset: Any) -> Options:
    """What good arguments mean to the kernels; TypeError or ValueError for others."""
    check_heads(q=q, k=k, v=v)
    offset = checks.causal_mask(causal, causal_offset)
    scale = scale_of_scores(scale, q.shape[3])
    # A softcap beyond what float32 holds, or too small beside the scale, does what the bounds do.
    if softcap is not None and (softcap := checks.number("softcap", softcap, least=0)):
        softcap = min(max(softcap, 1e-30 * max(1.0, abs(scale))), 1e38)
    return causal, offset, scale, softcap or 0.0


def check_heads(paged: bool = False, **tensors: Any) -> None:
    """Raise unless these are q [B, H, Nq, D], k and v [B, Hk, N, D], or pages [P, Hk, page, D], that the kernels can take here."""
    for name, x in tensors.items():
        checks.dense(name, x)
        if x.dim() != 4:
            wanted = "[pages, heads, page, head size]" if paged and name != "q" else "[batch, heads, length, head size]"
            raise ValueError(f"{name} has shape {list(x.shape)}; pass {wanted}")
        if not x.is_floating_point():
            raise TypeError(f"{name} has dtype {x.dtype}; pass floating-point numbers, for example {name}.half()")
    q, k, v = tensors.values()
    checks.grouped_heads(q, k, v, tuple(tensors), paged)
    if not 1 <= q.shape[3] <= LARGEST_D:
        raise ValueError(f"the head size is {q.shape[3]}; pass 1 to {LARGEST_D}")
    for name, x in tensors.items():
        check_length(name, x.shape[2])
        if x.shape[2] > 1 and x.stride(2) >= FARTHEST_ROWS:
            raise ValueError(f"{name} has strides {list(x.stride())}; rows lie too far apart: pass {name}.contiguous()")
    if not torch.compiler.is_compiling():
        check_differentiation(**tensors)
        if not q.is_meta:
            check_memory(**tensors)


def scale_of_scores(scale: Any, d: int) -> float:
    """``scale``, or 1/√d for None; TypeError or ValueError for what is no number, and for one beyond which scores overflow."""
    if scale is None:
        return 1 / math.sqrt(d)
    if abs(number := checks.number("scale", scale)) > LARGEST_SCALE:
        raise ValueError(f"scale is {checks.shown(scale)}; pass at most 2^64 in magnitude, or None for 1/√D")
    return number


def check_differentiation(**tensors: torch.Tensor) -> None:
    """TypeError for derivatives other than torch.autograd's backwards: forward mode, and torch.func's grad, vjp and jvp."""
    for name, x in tensors.items():
        refused = forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None
        while not refused and functorch.is_functorch_wrapped_tensor(x):
            refused, x = functorch.is_gradtrackingtensor(x), functorch.get_unwrapped(x)
        if refused:
            raise TypeError(
                f"{name} is being differentiated by torch.func or in forward mode (jvp), and attention has gradients for "
                f"torch.autograd only; pass {name} with requires_grad and call backward() or torch.autograd.grad"
            )


def in_float32(launcher: Launcher) -> Launcher:
    """``launcher`` with bfloat16 computed in float32 in the interpreter, and what it returns of [B, H, N, D] rounded to it at the end."""

    @functools.wraps(launcher)
    def launch_widened(*args: Any, **options: Any) -> Any:
        if args[0].dtype != torch.bfloat16 or runtime.mode() != "interpreter":
            return launcher(*args, **options)
        wide = [x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x for x in args]
        return tuple(x.bfloat16() if x.dim() == 4 else x for x in launcher(*wide, **options))

    return launch_widened  # type: ignore[return-value]

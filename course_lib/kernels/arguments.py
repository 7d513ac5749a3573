"""The arguments of ``attention``: what is refused before any launch, and what the rest mean to the kernels."""

import math
import sys
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch.autograd import forward_ad

from course_lib import checks
from course_lib.kernels.launching import LARGEST_D, check_launch, check_length
from course_lib.kernels.portable import FARTHEST_ROWS

LARGEST_SCALE = 2.0**64
Options = tuple[bool, int, float, float]  # causal, offset, scale, softcap (0: none)


def attention_options(
    q: Any, k: Any, v: Any, causal: Any, scale: float | None, softcap: float | None, causal_offset: Any
) -> Options:
    """What good arguments mean to the kernels; TypeError or ValueError for others."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.dense(name, x)
        if x.dim() != 4:
            raise ValueError(f"{name} has shape {list(x.shape)}; pass [batch, heads, length, head size]")
        if not x.is_floating_point():
            raise TypeError(f"{name} has dtype {x.dtype}; pass floating-point numbers, for example {name}.half()")
    checks.same_dtype_and_device(q=q, k=k, v=v)
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
        check_length(name, x.shape[2])
        if x.shape[2] > 1 and x.stride(2) >= FARTHEST_ROWS:
            raise ValueError(f"{name} has strides {list(x.stride())}; rows lie too far apart: pass {name}.contiguous()")
    checks.causal_mask(causal, causal_offset)
    for name, number in (("scale", scale), ("softcap", softcap)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise TypeError(f"{name} is {checks.shown(number)}; pass a number, or None")
    if scale is not None and not abs(scale) <= LARGEST_SCALE:
        raise ValueError(
            f"scale is {checks.shown(scale)}; pass at most 2^64 in magnitude, beyond which scores overflow, or None for 1/√D"
        )
    if softcap is not None and not 0 < softcap <= sys.float_info.max:
        raise ValueError(f"softcap is {checks.shown(softcap)}; pass a positive number, or None for none")
    if not torch.compiler.is_compiling():
        check_differentiation(q=q, k=k, v=v)
        if not q.is_meta:
            check_launch(q=q, k=k, v=v)
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    # A softcap beyond what float32 holds, or too small beside the scale, does what the bounds do.
    softcap = 0.0 if softcap is None else min(max(float(softcap), 1e-30 * max(1.0, abs(scale))), 1e38)
    return causal, causal_offset if causal else 0, scale, softcap


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

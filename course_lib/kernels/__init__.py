"""Triton kernels, each with a launcher that checks its arguments; the lane is chosen before triton is imported.

Kernel modules take ``tl`` and ``triton`` from here. Where Triton has no wheels (macOS, Windows) they still import, and
a launcher raises KernelsUnavailableError, which says what to do.
"""

import importlib
from typing import Any

import torch

from course_lib import runtime


class _Missing:
    """Stands in for triton where it is not installed: lets kernels be defined, never run."""

    def __getattr__(self, name: str) -> "_Missing":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> "_Missing":
        return self


if runtime.lane() == "no kernels":
    triton: Any = _Missing()
    tl: Any = _Missing()
else:
    triton = importlib.import_module("triton")
    tl = importlib.import_module("triton.language")


def check_launch(**tensors: torch.Tensor) -> None:
    """Raise, before any launch, for what a kernel cannot take on this lane.

    That is: no Triton, a wrong device, a broken last stride, an unknown dtype, bfloat16 in the interpreter.
    """
    runtime.require_kernels()
    for name, x in tensors.items():
        if x.device.type != runtime.device().type:
            raise ValueError(
                f"{name} is on {x.device}, but kernels run on {runtime.device()} here; pass {name}.to({str(runtime.device())!r})"
            )
        if x.stride(-1) != 1:
            raise ValueError(
                f"{name} has strides {list(x.stride())}; its last dimension must be contiguous: pass {name}.contiguous()"
            )
        if x.dtype == torch.bfloat16 and runtime.lane() == "interpreter":
            raise TypeError(
                f"{name} is bfloat16, whose arithmetic Triton's interpreter gets wrong without a word; pass {name}.float() or {name}.half()"
            )
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise TypeError(f"{name} is {x.dtype}; kernels take float32, float16 and (on a GPU) bfloat16")


def check_block(name: str, value: Any, smallest: int = 1) -> int:
    """Return ``value`` if it is a power of two of at least ``smallest``, as a Triton block must be; else raise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); pass a power of two, for example 64")
    if value < smallest or value & (value - 1):
        raise ValueError(f"{name} is {value}; pass a power of two of at least {smallest}, for example 64")
    return value

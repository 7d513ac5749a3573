"""Triton kernels, each with a launcher that checks its arguments (``launching``); the mode is chosen before triton is imported.

Kernel modules take ``tl`` and ``triton``, and Gluon's names, from here. Where Triton has no wheels (macOS, Windows) they still import, and
a launcher raises KernelsUnavailableError, which says what to do.
"""

import importlib
import math
from typing import Any

from course_lib import runtime


class _Missing:
    """Stands in for triton where it is not installed: lets kernels be defined, never run."""

    def __getattr__(self, name: str) -> "_Missing":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> "_Missing":
        return self

    def __or__(self, other: Any) -> "_Missing":
        return self


def _load(module: str) -> Any:
    return _Missing() if runtime.mode() == "no kernels" else importlib.import_module(module)


triton, tl = _load("triton"), _load("triton.language")
# Gluon, Triton's dialect in which layouts, shared memory, barriers and the warps' work are written out: compiled only.
gluon, gl = _load("triton.experimental.gluon"), _load("triton.experimental.gluon.language")
_hopper = _load("triton.experimental.gluon.language.nvidia.hopper")
mbarrier, tma, fence_async_shared = _hopper.mbarrier, _hopper.tma, _hopper.fence_async_shared
warpgroup_mma, warpgroup_mma_wait = _hopper.warpgroup_mma, _hopper.warpgroup_mma_wait


def _async_atomic_add() -> Any:
    """TMA adds a block in shared memory to one in memory; of Triton 3.6 and 3.7 Gluon has the operation, but no public name."""
    if hasattr(tma, "async_atomic_add"):
        return tma.async_atomic_add
    from triton._C.libtriton import ir

    def async_atomic_add(tensor_desc: Any, coord: Any, src: Any, _semantic: Any = None) -> None:
        coord = _semantic._convert_to_ir_values(coord, require_i64=False)
        _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, tensor_desc.handle, coord, src.handle)

    return gl._core.builtin(async_atomic_add)


async_atomic_add = _async_atomic_add()
LOG2E = tl.constexpr(math.log2(math.e))
aggregate = tl.core._aggregate  # the public name is still missing in 3.6 to 3.7

if runtime.mode() == "interpreter":
    from course_lib.kernels.interpreter import speed_up

    speed_up()

"""Lecture 12: the rotation of rows in d log2 d additions."""

import contextlib
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, Self

import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
The row 3, 1 becomes $(3 + 1)/\sqrt 2$, $(3 - 1)/\sqrt 2$. Do this for each row of `x` [N, d], with d a power of two. First multiply number
$j$ of each row by `sign[j]`, +1 or −1. Then come $\log_2 d$ stages: neighbours, numbers two apart, four apart, … Of a pair $a$, $b$ with
$a$ on the left, $(a + b)/\sqrt 2$ takes the place of $a$, $(a - b)/\sqrt 2$ that of $b$. So $x$ is multiplied by an $M$ with
$M M^\top = 1$. Use no matrix of d × d: $d \log_2 d$ additions for each row are enough, and the check counts. `x` and `sign` [d] are
float32; return [N, d].
"""

STUB = '''
def hadamard_rotation(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """x [N, d] times diag(sign) · Hadamard / sqrt(d), stage by stage; d a power of two."""
    ...
'''


def _shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    strided = x.layout == y.layout == torch.strided
    return strided and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


class TooMuchWorkError(Exception):
    """More numbers were computed than the stages need."""


class _Counted(TorchFunctionMode):
    """Counts the numbers in new tensors, and the lines run; stops beyond 16 for each addition, or at a tensor of the size of 16 x.

    What NumPy and Python hold is looked at in the end, at its largest: 64 bytes for each addition are allowed.
    """

    def __init__(self, function: Any, n: int, d: int) -> None:
        super().__init__()
        self.page = getattr(function, "__globals__", None)
        self.d, self.stages, self.done, self.lines = d, d.bit_length() - 1, 0, 0
        self.limit, self.largest = 16 * n * d * self.stages, 16 * n * d

    def __enter__(self) -> Self:
        tracemalloc.start()
        self.before = sys.gettrace()
        sys.settrace(self._line)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self.before)
        super().__exit__(*error)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if held > 4 * self.limit and error == (None, None, None):
            self._stop()

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Called for each line: of a page without tensors each is taken for a number."""
        if frame.f_globals is not self.page:
            return None
        self.lines += 1
        if self.lines > self.limit:
            self._stop()
        return self._line

    def _stop(self) -> NoReturn:
        additions = self.d * self.stages
        raise TooMuchWorkError(
            f"for a row of {self.d:,}, whose stages have {additions:,} additions, more than {16 * additions:,} numbers were "
            f"computed or held; a matrix has {self.d**2:,}"
        )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            size = result.numel()
            if size < self.d or not any(_shares(result, y) for y in args if isinstance(y, torch.Tensor)):
                self.done += size  # of short pieces views count, too: to look takes longer
            if self.done > self.limit or size > self.largest:
                self._stop()
        return result


def run(function: Callable[..., Any], case: Case) -> Any:
    x, sign = (y.clone() for y in case.args)
    with _Counted(function, *x.shape) if case.options.get("counted") else contextlib.nullcontext():
        return function(x, sign)


EXERCISE = Exercise(
    name="hadamard_rotation",
    lecture="12",
    title="a rotation in d log₂ d additions",
    level=2,
    minutes=15,
    asked=ASKED,
    stub=STUB,
    run=run,
    answers=("course_lib.model.quantize.rotate", "course_lib.model.quantize.hadamard"),
    hints=(
        "Write one stage first, for numbers `half` apart: `x.unflatten(1, (-1, 2, half))` has the a's at [:, :, 0] and the b's at "
        "[:, :, 1].",
        "torch.stack([a + b, a − b], dim=-2).flatten(1) puts both back in their places. The stages have half = 1, 2, 4, … below d.",
        "x = x * sign and half = 1; while half < d: one stage, divided by √2, and half *= 2. For d = 1 the loop is not entered.",
    ),
)

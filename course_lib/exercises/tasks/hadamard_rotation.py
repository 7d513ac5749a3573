"""Lecture 11: the rotation of rows in d log2 d additions."""

import contextlib
from collections.abc import Callable
from typing import Any

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


LONG = 512  # from here on work is counted: the matrix of a shorter row is hardly larger than what the stages make


class TooMuchWorkError(Exception):
    """More numbers were computed than the stages need."""


class _Counted(TorchFunctionMode):
    """Counts the numbers in new tensors; stops beyond 16 for each addition, or at a tensor of the size of 16 x."""

    def __init__(self, n: int, d: int) -> None:
        super().__init__()
        self.d, self.stages, self.done = d, d.bit_length() - 1, 0
        self.limit, self.largest = 16 * n * d * self.stages, 16 * n * d

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            memory = result.untyped_storage().data_ptr()
            if all(memory != y.untyped_storage().data_ptr() for y in args if isinstance(y, torch.Tensor)):
                self.done += result.numel()
            if self.done > self.limit or result.numel() > self.largest:
                raise TooMuchWorkError(
                    f"{max(self.done, result.numel()):,} numbers were computed for a row of {self.d}; "
                    f"{self.stages} stages have {self.d * self.stages:,} additions, a matrix has {self.d**2:,} numbers"
                )
        return result


def run(function: Callable[..., Any], case: Case) -> Any:
    x, sign = (y.clone() for y in case.args)
    with _Counted(*x.shape) if x.shape[1] >= LONG else contextlib.nullcontext():
        return function(x, sign)


EXERCISE = Exercise(
    name="hadamard_rotation",
    lecture="11",
    title="a rotation in d log₂ d additions",
    level=2,
    minutes=15,
    asked=ASKED,
    stub=STUB,
    run=run,
    answers=("course_lib.quantize.rotate", "course_lib.quantize.hadamard"),
    hints=(
        "Write one stage first, for numbers `half` apart: `x.unflatten(1, (-1, 2, half))` has the a's at [:, :, 0] and the b's at "
        "[:, :, 1].",
        "torch.stack([a + b, a − b], dim=-2).flatten(1) puts both back in their places. The stages have half = 1, 2, 4, … below d.",
        "x = x * sign and half = 1; while half < d: one stage, divided by √2, and half *= 2. For d = 1 the loop is not entered.",
    ),
)

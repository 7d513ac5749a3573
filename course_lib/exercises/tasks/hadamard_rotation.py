"""Lecture 12: the rotation of rows in d log2 d additions."""

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
$M M^\top = 1$. Use no matrix of d × d: $d \log_2 d$ additions for each row are enough. `x` and `sign` [d] are
float32; return [N, d].
"""

STUB = '''
def hadamard_rotation(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """x [N, d] times diag(sign) · Hadamard / sqrt(d), stage by stage; d a power of two."""
    ...
'''


class TooMuchWorkError(Exception):
    """A tensor holds more numbers than the stages need."""


class _NoMatrix(TorchFunctionMode):
    """Refuses a new tensor of 16 times the size of x, as a matrix of d × d is."""

    def __init__(self, n: int, d: int) -> None:
        super().__init__()
        self.n, self.d = n, d

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.numel() > 16 * self.n * self.d:
            raise TooMuchWorkError(
                f"x has {self.n * self.d:,} numbers, and a tensor of more than 16 times as many was made; a matrix has {self.d**2:,}"
            )
        return result


def run(function: Callable[..., Any], case: Case) -> Any:
    x, sign = (y.clone() for y in case.args)
    with _NoMatrix(*x.shape) if case.options.get("counted") else contextlib.nullcontext():
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
    answers=(
        "course_lib.model.quantize.rotate",
        "course_lib.model.quantize.hadamard",
        "course_lib.model.quantize.butterflies",
    ),
    hints=(
        "Write one stage first, for numbers `half` apart: `x.unflatten(1, (-1, 2, half))` has the a's at [:, :, 0] and the b's at "
        "[:, :, 1].",
        "torch.stack([a + b, a − b], dim=-2).flatten(1) puts both back in their places. The stages have half = 1, 2, 4, … below d.",
        "The stages differ in `half` alone, which doubles until it reaches d. Where does the division by √2 belong, and what "
        "happens for d = 1?",
    ),
)

"""Lecture 11: the weights of a row by powers of two, with one factor for the scale and log2 e."""

from collections.abc import Callable
from typing import Any
from unittest import mock

from torch.overrides import TorchFunctionMode

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
Raw scores 0, 2, 4 with a head size of $d$ = 4: scaled by $1/\sqrt{d}$ they are 0, 1, 2, the weights 0.090, 0.245,
0.665, and $L$ = 2.408. Compute that as a kernel does, with powers of two only: multiply each score by *one* factor
that holds $1/\sqrt{d}$ and $\log_2 e$. `s`: the raw scores of one query, [N], float32, not scaled. `d`: the head size.
Return the weights [N], which sum to 1, and $L = \ln \sum_j e^{s_j / \sqrt{d}}$, a float in natural units. `torch.exp2`,
other powers of 2 and logarithms are allowed; `torch.exp`, `math.exp`, softmax and logsumexp are refused.
"""

STUB = '''
def exp2_scale(s: torch.Tensor, d: int) -> tuple[torch.Tensor, float]:
    """(weights [N], L) of raw scores s [N], float32, for head size d."""
    ...
'''

REFUSED = ("exp", "expm1", "softmax", "log_softmax", "logsumexp")


def _no_exp(*x: Any) -> Any:
    raise RuntimeError("a natural exponential was called; use torch.exp2 for every power")


class PowersOfTwoOnly(TorchFunctionMode):
    """Refuses torch's natural exponential and what is made of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "").removeprefix("special_").rstrip("_") in REFUSED:
            _no_exp()
        return func(*args, **(kwargs or {}))


def run(function: Callable[..., Any], case: Case) -> Any:
    with mock.patch("math.exp", _no_exp), mock.patch("numpy.exp", _no_exp), PowersOfTwoOnly():
        return function(*case.args)


EXERCISE = Exercise(
    name="exp2_scale",
    lecture="11",
    title="softmax by powers of two",
    level=2,
    minutes=10,
    asked=ASKED,
    stub=STUB,
    run=run,
    tolerance=1e-4,
    parts=("weights", "L"),
    hints=(
        "e^x = 2^(x · log2 e). With y = s · factor the weights are 2^(y − m) / ℓ, where m is the maximum of y.",
        "ℓ = Σ 2^(y − m) is the same number as with natural powers. Only m has changed its unit, by log2 e.",
        "factor = math.log2(math.e) / math.sqrt(d). L = m · ln 2 + ln ℓ, or (m + log2 ℓ) · ln 2.",
    ),
)

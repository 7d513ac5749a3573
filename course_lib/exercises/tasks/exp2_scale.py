"""Lecture 11: the weights of a row by powers of two, with a penalty by distance."""

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
Raw scores 0, 2, 4 with a head size of $d$ = 4: scaled by $1/\sqrt{d}$ they are 0, 1, 2. *ALiBi* takes off a penalty that grows with the
distance: the query is the newest token, at the last key, so with a slope of 0.5 the keys lose 1, 0.5 and 0, and have $-1$, 0.5, 2. That
gives the weights 0.039, 0.175, 0.786, and $L$ = 2.241. Compute it as a kernel does, with powers of two only.
`s`: the raw scores of one query, [N], float32, neither scaled nor penalised. `d`: the head size. `slope`: 0 or more. Return the
weights [N], which sum to 1, and $L = \ln \sum_j e^{x_j}$ of the penalised scores $x_j$, a float in natural units. `torch.exp2`, other
powers of 2 and logarithms are allowed; `torch.exp`, `math.exp`, powers of `math.e`, softmax and logsumexp are refused.
"""

STUB = '''
def exp2_scale(s: torch.Tensor, d: int, slope: float) -> tuple[torch.Tensor, float]:
    """(weights [N], L) of raw scores s [N], float32, for head size d, with ALiBi's penalty of slope per token of distance."""
    ...
'''

REFUSED = ("exp", "expm1", "softmax", "softmin", "log_softmax", "logsumexp", "logaddexp", "sigmoid")
POWERS = {"pow": 0, "__pow__": 0, "float_power": 0, "__rpow__": 1}  # which argument is the base


def _no_exp(*x: Any) -> Any:
    raise RuntimeError("a natural exponential was called; use torch.exp2 for every power")


class PowersOfTwoOnly(TorchFunctionMode):
    """Refuses torch's natural exponential and what is made of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name.removeprefix("special_").rstrip("_") in REFUSED:
            _no_exp()
        if name in POWERS and len(args) == 2 and _is_e(args[POWERS[name]]):
            _no_exp()
        return func(*args, **(kwargs or {}))


def _is_e(base: Any) -> bool:
    if isinstance(base, torch.Tensor) and base.numel() == 1:
        base = base.item()
    return isinstance(base, float) and math.isclose(base, math.e, rel_tol=1e-6)


class _Base(float):
    """Euler's number, of which no power is taken."""

    def __pow__(self, *x: Any) -> Any:
        _no_exp()


def run(function: Callable[..., Any], case: Case) -> Any:
    with (
        mock.patch.multiple("math", exp=_no_exp, e=_Base(math.e)),
        mock.patch.multiple("numpy", exp=_no_exp, e=_Base(math.e)),
        PowersOfTwoOnly(),
    ):
        return function(*case.args)


EXERCISE = Exercise(
    name="exp2_scale",
    lecture="11",
    title="ALiBi by powers of two",
    level=2,
    minutes=12,
    asked=ASKED,
    stub=STUB,
    run=run,
    tolerance=1e-4,
    parts=("weights", "L"),
    hints=(
        "e^x = 2^(x · log2 e). What is x here, the whole exponent, and which parts of it come to be multiplied by what?",
        "The score's factor holds 1/√d and log2 e; the penalty never met 1/√d. Key N − 1 is the query's own. With y the exponent of 2, the "
        "weights are 2^(y − m) / ℓ, where m is the maximum of y.",
        "ℓ = Σ 2^(y − m) is the same number as with natural powers, but m has changed its unit by log2 e. In which unit is L asked for?",
    ),
)

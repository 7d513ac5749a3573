"""Lecture 09: the weights of a row by powers of two, with one factor for the scale and log2 e."""

import math
import operator
from collections.abc import Callable
from typing import Any, NoReturn
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
Raw scores 0, 2, 4 with a head size of $d$ = 4: scaled by $1/\sqrt{d}$ they are 0, 1, 2, the weights 0.090, 0.245,
0.665, and $L$ = 2.408. Compute that as a kernel does, with powers of two only: multiply each score by *one* factor
that holds $1/\sqrt{d}$ and $\log_2 e$. `s`: the raw scores of one query, [N], float32, not scaled. `d`: the head size.
Return the weights [N], which sum to 1, and $L = \ln \sum_j e^{s_j / \sqrt{d}}$, a float in natural units. `torch.exp2`,
other powers of 2 and logarithms are allowed; `torch.exp`, `math.exp`, powers of `math.e`, softmax and logsumexp are
refused.
"""

STUB = '''
def exp2_scale(s: torch.Tensor, d: int) -> tuple[torch.Tensor, float]:
    """(weights [N], L) of raw scores s [N], float32, for head size d."""
    ...
'''

REFUSED = {
    "exp",
    "expm1",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "logsigmoid",
    "softplus",
    "logaddexp",
    "logsumexp",
    "logcumsumexp",
}
REFUSED |= {"softmax", "softmin", "log_softmax"}
POWERS = ("pow", "__pow__", "__rpow__", "float_power")


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"{name} was called; use torch.exp2 for every power")


def _no_exp(*x: Any) -> NoReturn:
    _refuse("exp, sinh or cosh")


class Base(float):
    """math.e, of which no power is taken."""

    def __pow__(self, exponent: Any, modulo: Any = None) -> Any:
        _refuse("a power of math.e")


def _power(base: Any, exponent: Any) -> Any:
    return np.asarray(base) ** exponent if np.all(np.asarray(base) == 2) else _refuse("a power of another base than 2")


class PowersOfTwoOnly(TorchFunctionMode):
    """Refuses the natural exponential and what is made of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "").removeprefix("special_")
        name = name if name.endswith("__") else name.rstrip("_")
        if name in REFUSED:
            _refuse(name)
        if name in POWERS and len(args) == 2:
            base, exponent = args[::-1] if name == "__rpow__" else args
            if isinstance(exponent, torch.Tensor) and not torch.all(torch.as_tensor(base) == 2):
                _refuse("a power of another base than 2")
        return func(*args, **(kwargs or {}))


def run(function: Callable[..., Any], case: Case) -> Any:
    plain: dict[str, Any] = dict.fromkeys(("exp", "expm1", "sinh", "cosh"), _no_exp)
    changed = {id(getattr(module, name)): _no_exp for module in (math, np) for name in plain} | {
        id(math.e): Base(math.e)
    }
    own = getattr(function, "__globals__", {})  # also what was imported by name
    here = {name: changed[id(value)] for name, value in own.items() if id(value) in changed}
    with (
        mock.patch.multiple(math, **plain, pow=operator.pow, e=Base(math.e)),
        mock.patch.multiple(np, **plain, power=_power, e=Base(math.e)),
        mock.patch.dict(own, here),
        PowersOfTwoOnly(),
    ):
        return function(*case.args)


EXERCISE = Exercise(
    name="exp2_scale",
    lecture="09",
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

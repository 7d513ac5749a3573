"""Lecture 09: a softcap and its gradient."""

from collections.abc import Callable
from typing import Any, NoReturn
from unittest import mock

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
A softcap of $c$ = 50 turns a score of 50 into 38.1 and passes 0.42 of its gradient on; of a score of 200 it makes 50.0
and passes on 0.001. Write both directions. `x`: scores, float32, any shape. `cap`: $c$, above 0. `dy`: the gradient
with respect to $y$, shaped like `x`. Return $y = c \tanh(x / c)$ and `dx`, the gradient with respect to `x`. Write
the slope yourself: autograd is off. `x` may be a thousand times as large as $c$.
"""

STUB = '''
def softcap_with_gradient(x: torch.Tensor, cap: float, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, dx) for scores x and the gradient dy of y, all of one shape, float32."""
    ...
'''


def _off(*x: Any, **options: Any) -> NoReturn:
    raise RuntimeError("autograd is off: write the slope yourself")


def run(function: Callable[..., Any], case: Case) -> Any:
    forward = mock.patch("torch.autograd.forward_ad.make_dual", _off)
    backward = mock.patch.multiple("torch.autograd", grad=_off, backward=_off)  # in a thread there are no hooks
    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(_off, _off), forward, backward:
        return function(*case.args)


EXERCISE = Exercise(
    name="softcap_with_gradient",
    lecture="09",
    title="a softcap, forward and backward",
    level=1,
    minutes=4,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("y", "dx"),
    hints=(
        "The derivative of tanh(u) is 1 − tanh²(u). Here u = x / c, and c stands outside: two more factors.",
        "The one from inside is 1 / c, the one from outside is c. What is left of them?",
        "1 / c and c cancel, so of the chain rule only the slope of tanh is left, and dy. One tanh serves both results.",
    ),
)

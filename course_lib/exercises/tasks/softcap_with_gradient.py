"""Lecture 09: a softcap and its gradient."""

from unittest import mock

import torch

from course_lib.exercises.exercise import Case, Exercise


def run(function, case):
    """With autograd off, forward and backward."""
    forward = mock.patch("torch.autograd.forward_ad.make_dual", off)
    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(off, off), forward:
        return function(*case.args)


def off(*x, **options):
    raise RuntimeError("autograd is off: write the slope yourself")


EXERCISE = Exercise(
    lecture="09",
    title="a softcap, forward and backward",
    run=run,
    parts=("y", "dx"),
    hints=(
        "The derivative of tanh(u) is 1 − tanh²(u). Here u = x / c, and c stands outside: two more factors.",
        "The one from inside is 1 / c, the one from outside is c. What is left of them?",
        "1 / c and c cancel, so of the chain rule only the slope of tanh is left, and dy. One tanh serves both results.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def softcap_with_gradient(x: torch.Tensor, cap: float, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, dx) for scores x and the gradient dy of y, all of one shape, float32."""
    t = torch.tanh(x / cap)
    return cap * t, dy * (1 - t * t)
'''
WHY = """
The c before tanh and the 1 / c inside it cancel, so the slope at 0 is 1 whatever c is: small scores and their
gradients pass unchanged. Forward and backward share one tanh. A backward kernel computes it anew from x, as it does
all of S, and saves nothing for it.
"""


def cases(draw):
    yield Case("5, 50 and 200 with a cap of 50", (torch.tensor([5.0, 50.0, 200.0]), 50.0, torch.ones(3)))
    yield Case("a gradient other than 1", (torch.tensor([0.0, 10.0, -10.0]), 20.0, torch.tensor([2.0, -3.0, 0.5])))
    yield Case("a cap below 1", (torch.tensor([0.1, 0.5, -0.7]), 0.5, torch.ones(3)))
    yield Case("scores far beyond the cap", (torch.tensor([0.0, 2e4, -2e4]), 20.0, torch.ones(3)))
    yield Case("a cap far beyond the scores", (torch.tensor([3.0, -0.5, 0.25]), 1e6, torch.ones(3)))
    yield Case("two heads of 3 × 4 scores", (torch.randn(2, 3, 4) * 40, 30.0, torch.randn(2, 3, 4)))
    yield Case("a block of scores", (torch.randn(5, 7) * 40, draw.uniform(10, 60), torch.randn(5, 7)))


def expected(x, cap, dy):
    """In float64, from powers e^(-2|x|/c), which cannot overflow."""
    power = torch.exp(-2 * x.double().abs() / cap)
    y = torch.sign(x) * cap * (1 - power) / (1 + power)
    return y.float(), (dy * 4 * power / (1 + power) ** 2).float()


TANH, DX = "torch.tanh(x / cap)", "dy * (1 - t * t)"
WRONG = {
    "if the slope is 1 − y²: y is c times the tanh that has to be squared": (DX, "dy * (1 - (cap * t) ** 2)"),
    "if the slope is 1 − tanh²(x): x has to be divided by c there, too": (DX, "dy * (1 - torch.tanh(x) ** 2)"),
    "if the chain rule stops half-way: the 1 / c of x / c is missing, and c stays in the slope": (DX, f"cap * {DX}"),
    "if dx is the slope alone: it has to be multiplied by dy": (DX, "1 - t * t"),
    "if tanh is made of e^(2x/c): that overflows, and ∞ / ∞ is no number":
        (TANH, "(torch.exp(2 * x / cap) - 1) / (torch.exp(2 * x / cap) + 1)"),
    "if tanh is made of e^(2x/c): near 0 that is a difference of numbers near 1, and c multiplies its error":
        (TANH, "1 - 2 / (torch.exp(2 * x / cap) + 1)"),
}  # fmt: skip

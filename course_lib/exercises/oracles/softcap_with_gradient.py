"""Lecture 09: what softcap_with_gradient is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("5, 50 and 200 with a cap of 50", (torch.tensor([5.0, 50.0, 200.0]), 50.0, torch.ones(3)))
    yield Case("scores below 0", (torch.tensor([-5.0, -30.0, -60.0]), 50.0, torch.ones(3)))
    yield Case("a gradient other than 1", (torch.tensor([0.0, 10.0, -10.0]), 20.0, torch.tensor([2.0, -3.0, 0.5])))
    yield Case("a cap below 1", (torch.tensor([0.1, 0.5, -0.7]), 0.5, torch.ones(3)))
    yield Case("scores far beyond the cap", (torch.tensor([0.0, 2e4, -2e4]), 20.0, torch.ones(3)))
    yield Case("a cap far beyond the scores", (torch.tensor([3.0, -0.5, 0.25]), 1e6, torch.ones(3)))
    yield Case("a cap of 0.001", (torch.tensor([2e-4, -1e-3, 3e-3]), 1e-3, torch.ones(3)))
    yield Case("a single number", (torch.tensor(-20.0), 30.0, torch.tensor(0.5)))
    yield Case("two heads of 3 × 4 scores", (torch.randn(2, 3, 4) * 40, 30.0, torch.randn(2, 3, 4)))
    yield Case("a block of scores", (torch.randn(5, 7) * 40, 30.0, torch.randn(5, 7)))


def expected(x: torch.Tensor, cap: float, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64, from powers e^(-2|x|/c), which cannot overflow."""
    power = torch.exp(-2 * x.double().abs() / cap)
    y = torch.sign(x) * cap * (1 - power) / (1 + power)
    return y.float(), (dy * 4 * power / (1 + power) ** 2).float()


def _softcap(x, cap, dy, bug):
    u = x if bug == "no division" else x / cap
    power = torch.exp(2 * u)
    t = {"overflow": (power - 1) / (power + 1), "cancels": 1 - 2 / (power + 1)}.get(bug, torch.tanh(u))
    slope = {
        "c stays": cap * (1 - t * t),
        "no square": 1 - t,
        "of y": 1 - (cap * t) ** 2,
        "1 / c stays": (1 - t * t) / cap,
        "square of the difference": (1 - t) ** 2,
        "slope of y": 1 - torch.tanh(cap * t) ** 2,
        "slope of x": 1 - torch.tanh(x) ** 2,
    }.get(bug, 1 - t * t)
    if bug == "clamp":
        return x.clamp(-cap, cap), dy * (x.abs() < cap)
    if bug == "clamp for tanh":
        t = u.clamp(-1, 1)
        slope = 1 - t * t
    if bug == "clamp of y alone":
        return x.clamp(-cap, cap), dy * slope
    return t if bug == "tanh alone" else cap * t, slope if bug == "no dy" else dy * slope


WRONG = variants(
    _softcap,
    {
        "if the slope is 1 − y²: y is c times the tanh that has to be squared": "of y",
        "if the slope is 1 − tanh²(x): x has to be divided by c there, too": "slope of x",
        "if the chain rule stops half-way: the 1 / c of x / c is missing, and c stays in the slope": "c stays",
        "if the slope is divided by c: the c outside and the 1 / c inside cancel": "1 / c stays",
        "if the slope is (1 − tanh)²: it is 1 − tanh²": "square of the difference",
        "if x is not divided by c: y is c · tanh(x / c)": "no division",
        "if the slope is 1 − tanh²(y): it is taken at x / c": "slope of y",
        "if y is cut off at ±c, with the slope of the tanh: a softcap bends y, too": "clamp of y alone",
        "if y is the tanh alone: c stands outside": "tanh alone",
        "if the slope is 1 − tanh without the square: below 0 it is more than 1": "no square",
        "if dx is the slope alone: it has to be multiplied by dy": "no dy",
        "with a clamp in place of the tanh, and 1 − t² as if t were one: a softcap bends y": "clamp for tanh",
        "with a clamp: it is straight up to c, and its slope jumps from 1 to 0": "clamp",
        "if tanh is made of e^(2x/c): that overflows, and ∞ / ∞ is no number": "overflow",
        "if tanh is made of e^(2x/c): near 0 that is a difference of numbers near 1, and c multiplies its error": "cancels",
    },
)

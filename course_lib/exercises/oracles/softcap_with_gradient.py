"""Lecture 08: what softcap_with_gradient is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("5, 50 and 200 with a cap of 50", (torch.tensor([5.0, 50.0, 200.0]), 50.0, torch.ones(3)))
    yield Case("scores below 0", (torch.tensor([-5.0, -30.0, -60.0]), 50.0, torch.ones(3)))
    yield Case("a gradient other than 1", (torch.tensor([0.0, 10.0, -10.0]), 20.0, torch.tensor([2.0, -3.0, 0.5])))
    yield Case("a cap below 1", (torch.tensor([0.1, 0.5, -0.7]), 0.5, torch.ones(3)))
    yield Case("scores far beyond the cap", (torch.tensor([0.0, 2e4, -2e4]), 20.0, torch.ones(3)))
    yield Case("a block of scores", (torch.randn(5, 7) * 40, 30.0, torch.randn(5, 7)))


def expected(x: torch.Tensor, cap: float, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64, from powers e^(-2|x|/c), which cannot overflow."""
    power = torch.exp(-2 * x.double().abs() / cap)
    y = torch.sign(x) * cap * (1 - power) / (1 + power)
    return y.float(), (dy * 4 * power / (1 + power) ** 2).float()


def not_multiplied_by_c(x, cap, dy):
    t = torch.tanh(x / cap)
    return t, dy * (1 - t**2)


def outer_factor_forgotten(x, cap, dy):
    t = torch.tanh(x / cap)
    return t, dy * (1 - t**2) / cap


def not_divided_by_c(x, cap, dy):
    t = torch.tanh(x)
    return cap * t, dy * (1 - t**2)


def not_divided_by_c_and_its_slope(x, cap, dy):
    t = torch.tanh(x)
    return cap * t, dy * cap * (1 - t**2)


def slope_of_the_capped(x, cap, dy):
    y = cap * torch.tanh(x / cap)
    return y, dy * (1 - torch.tanh(y / cap) ** 2)


def slope_from_y(x, cap, dy):
    y = cap * torch.tanh(x / cap)
    return y, dy * (1 - y**2)


def slope_without_division(x, cap, dy):
    return cap * torch.tanh(x / cap), dy * (1 - torch.tanh(x) ** 2)


def outer_factor_only(x, cap, dy):
    t = torch.tanh(x / cap)
    return cap * t, dy * cap * (1 - t**2)


def inner_factor_only(x, cap, dy):
    t = torch.tanh(x / cap)
    return cap * t, dy * (1 - t**2) / cap


def square_forgotten(x, cap, dy):
    t = torch.tanh(x / cap)
    return cap * t, dy * (1 - t)


def clamped(x, cap, dy):
    return x.clamp(-cap, cap), dy * (x.abs() < cap)


def overflowing_powers(x, cap, dy):
    power = torch.exp(2 * x / cap)
    t = (power - 1) / (power + 1)
    return cap * t, dy * (1 - t**2)


def slope_alone(x, cap, dy):
    t = torch.tanh(x / cap)
    return cap * t, 1 - t**2


WRONG = {
    "if y is tanh(x / c) without the c before it: it stays within ±1": not_multiplied_by_c,
    "if the c before tanh is forgotten in both directions: y stays within ±1": outer_factor_forgotten,
    "if x is not divided by c before tanh: the cap is reached at scores of 2 or 3": not_divided_by_c,
    "if x is not divided by c before tanh, and the slope is that of c tanh(x)": not_divided_by_c_and_its_slope,
    "if the slope is taken at the capped score y instead of x: tanh is then applied twice": slope_of_the_capped,
    "if the slope is 1 − y²: y is c times the tanh that has to be squared": slope_from_y,
    "if the slope is 1 − tanh²(x): x has to be divided by c there, too": slope_without_division,
    "if the chain rule stops half-way: the 1 / c of x / c is missing, and c stays in the slope": outer_factor_only,
    "if the slope lacks the c before tanh: at 0 it is then 1 / c instead of 1": inner_factor_only,
    "if the slope is 1 − tanh without the square: below 0 it is more than 1": square_forgotten,
    "with a clamp: it is straight up to c, and its slope jumps from 1 to 0": clamped,
    "if tanh is made of e^(2x/c): that overflows, and ∞ / ∞ is no number": overflowing_powers,
    "if dx is the slope alone: it has to be multiplied by dy": slope_alone,
}

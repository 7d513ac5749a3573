"""Lecture 08: what exp2_scale is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("0, 2, 4 with d = 4", (torch.tensor([0.0, 2.0, 4.0]), 4))
    yield Case("one key", (torch.tensor([3.0]), 16))
    yield Case("five equal scores", (torch.full((5,), 8.0), 64))
    yield Case("scores below 0", (torch.tensor([-3.0, -1.0, -2.0]), 2))
    yield Case("d = 1: no scale", (torch.tensor([1.0, -1.0, 0.5]), 1))
    yield Case("scores in the thousands", (torch.tensor([1990.0, 2000.0, 1995.0]), 64))
    yield Case("all scores far below 0", (torch.tensor([-2000.0, -1990.0, -2010.0]), 64))
    yield Case("a row of 100", (torch.randn(100) * 10, 48))


def expected(s: torch.Tensor, d: int) -> tuple[torch.Tensor, float]:
    scaled = s.double() / math.sqrt(d)
    return torch.softmax(scaled, 0).float(), float(torch.logsumexp(scaled, 0))


def _row(y: torch.Tensor) -> tuple[torch.Tensor, float, float]:
    """Weights, maximum and sum of exponents y in units of log2."""
    m = float(y.max())
    p = torch.exp2(y - m)
    l = float(p.sum())
    return p / l, m, l


def left_in_log2(s, d):
    p, m, l = _row(s * (math.log2(math.e) / math.sqrt(d)))
    return p, m + math.log2(l)


def maximum_in_log2(s, d):
    p, m, l = _row(s * (math.log2(math.e) / math.sqrt(d)))
    return p, m + math.log(l)


def sum_in_log2(s, d):
    p, m, l = _row(s * (math.log2(math.e) / math.sqrt(d)))
    return p, m * math.log(2) + math.log2(l)


def raw_maximum_in_l(s, d):
    p, _, l = _row(s * (math.log2(math.e) / math.sqrt(d)))
    return p, float(s.max()) + math.log(l)


def maximum_dropped(s, d):
    p, _, l = _row(s * (math.log2(math.e) / math.sqrt(d)))
    return p, math.log(l)


def factor_without_log2_e(s, d):
    p, m, l = _row(s / math.sqrt(d))
    return p, m + math.log(l)


def natural_factor_forgotten(s, d):
    p, m, l = _row(s / math.sqrt(d))
    return p, (m + math.log2(l)) * math.log(2)


def upside_down(s, d):
    p, m, l = _row(s * (math.log(2) / math.sqrt(d)))
    return p, (m + math.log2(l)) * math.log(2)


def no_root(s, d):
    p, m, l = _row(s * (math.log2(math.e) / d))
    return p, (m + math.log2(l)) * math.log(2)


def maximum_before_the_factor(s, d):
    p = torch.exp2(s * (math.log2(math.e) / math.sqrt(d)) - s.max())
    l = p.sum()
    return p / l, float((s.max() + torch.log2(l)) * math.log(2))


def no_maximum(s, d):
    p = torch.exp2(s * (math.log2(math.e) / math.sqrt(d)))
    return p / p.sum(), float(torch.log(p.sum()))


def not_normalised(s, d):
    p, m, l = _row(s * (math.log2(math.e) / math.sqrt(d)))
    return p * l, (m + math.log2(l)) * math.log(2)


WRONG = {
    "if L is left in units of log2: multiply m + log2 ℓ by ln 2": left_in_log2,
    "if L is m + ln ℓ: the maximum is then still in units of log2": maximum_in_log2,
    "if L is m · ln 2 + log2 ℓ: the sum's logarithm is then still in units of log2": sum_in_log2,
    "if L takes the maximum of the raw scores: they are not scaled": raw_maximum_in_l,
    "if L is ln ℓ alone: ℓ was measured from the maximum, which has to be added": maximum_dropped,
    "if log2 e is missing in the factor: 2^x then stands where e^x should": factor_without_log2_e,
    "if log2 e is missing in the factor, though L is converted with ln 2": natural_factor_forgotten,
    "if the factor holds ln 2 instead of log2 e, its inverse": upside_down,
    "if the scale is 1 / d instead of 1 / √d": no_root,
    "if the maximum of the raw scores is subtracted from the scaled ones": maximum_before_the_factor,
    "without subtracting the maximum: large scores overflow": no_maximum,
    "if the weights are not divided by their sum": not_normalised,
}

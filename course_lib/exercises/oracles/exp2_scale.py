"""Lecture 11: what exp2_scale is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("0, 2, 4 with d = 4", (torch.tensor([0.0, 2.0, 4.0]), 4))
    yield Case("one key", (torch.tensor([3.0]), 16))
    yield Case("five equal scores", (torch.full((5,), 8.0), 64))
    yield Case("scores below 0", (torch.tensor([-3.0, -1.0, -2.0]), 2))
    yield Case("d = 1: no scale", (torch.tensor([1.0, -1.0, 0.5]), 1))
    yield Case("scores in the thousands", (torch.tensor([1990.0, 2000.0, 1995.0]), 64))
    yield Case("all scores far below 0", (torch.tensor([-2000.0, -1990.0, -2010.0]), 64))
    yield Case("scores from −100,000 to 100,000", (torch.tensor([-1e5, 0.0, 1e5]), 64))
    yield Case("scores of −1e30 and below", (torch.tensor([-1e30, -2e30]), 64))
    yield Case("a row of 100", (torch.randn(100) * 10, 48))


def expected(s: torch.Tensor, d: int) -> tuple[torch.Tensor, float]:
    scaled = s.double() / math.sqrt(d)
    return torch.softmax(scaled, 0).float(), float(torch.logsumexp(scaled, 0))


def _row(s, d, bug):
    """With L built from m, in units of log2 if nothing is wrong, and ℓ."""
    factor = 1.0 if bug in ("no log2 e", "no log2 e, ln 2") else math.log2(math.e)
    y = s * (factor / (d if bug == "no root" else math.sqrt(d)))
    m = 0.0 if bug == "no maximum" else float(y.max())
    p = torch.exp2(y - m)
    l = float(p.sum())
    logs = {
        "no ln 2": m + math.log2(l),
        "m + ln": m + math.log(l),
        "inverse for L": (m + math.log2(l)) * math.log2(math.e),
        "no m": math.log(l),
        "no log2 e": m + math.log(l),
    } if 0 < l < math.inf else {}  # fmt: skip
    return p / l, logs.get(bug, m * math.log(2) + (math.log(l) if l else -math.inf))


WRONG = variants(
    _row,
    {
        "if L is left in units of log2: multiply m + log2 ℓ by ln 2": "no ln 2",
        "if L is converted with log2 e instead of ln 2, its inverse": "inverse for L",
        "if L is m + ln ℓ: the maximum is then still in units of log2": "m + ln",
        "if L is ln ℓ alone: ℓ was measured from the maximum, which has to be added": "no m",
        "if log2 e is missing in the factor: 2^x then stands where e^x should": "no log2 e",
        "if log2 e is missing in the factor, though L is converted with ln 2": "no log2 e, ln 2",
        "if the scale is 1 / d instead of 1 / √d": "no root",
        "without subtracting the maximum: large scores overflow": "no maximum",
    },
)

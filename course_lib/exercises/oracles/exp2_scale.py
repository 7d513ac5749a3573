"""Lecture 11: what exp2_scale is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("0, 2, 4 with d = 4 and a slope of 0.5", (torch.tensor([0.0, 2.0, 4.0]), 4, 0.5))
    yield Case("one key", (torch.tensor([3.0]), 16, 0.25))
    yield Case("five equal scores: the near keys weigh more", (torch.full((5,), 8.0), 64, 0.5))
    yield Case("no slope", (torch.tensor([-3.0, -1.0, -2.0]), 2, 0.0))
    yield Case("d = 1: no scale", (torch.tensor([1.0, -1.0, 0.5]), 1, 0.125))
    yield Case("scores in the thousands", (torch.tensor([1990.0, 2000.0, 1995.0]), 64, 0.5))
    yield Case("all scores far below 0", (torch.tensor([-2000.0, -1990.0, -2010.0]), 64, 1.0))
    yield Case("a steep slope", (torch.tensor([8.0, 4.0, 0.0, 4.0]), 16, 40.0))
    yield Case("scores from −100,000 to 100,000", (torch.tensor([-1e5, 0.0, 1e5]), 64, 0.5))
    yield Case("scores of −1e30 and below", (torch.tensor([-1e30, -2e30]), 64, 0.5))
    yield Case("the largest score far away, behind its penalty", (torch.tensor([1000.0, 0.0, 0.0]), 1, 1000.0))
    yield Case("a row of 100", (torch.randn(100) * 10, 48, 2.0**-5))


def expected(s: torch.Tensor, d: int, slope: float) -> tuple[torch.Tensor, float]:
    """By natural powers, in float64."""
    distance = torch.tensor([float(len(s) - 1 - j) for j in range(len(s))], dtype=torch.float64)
    x = s.double() / math.sqrt(d) - slope * distance
    return torch.softmax(x, 0).float(), float(torch.logsumexp(x, 0))


def _row(s, d, slope, bug):
    """With L built from m, in units of log2 if nothing is wrong, and ℓ."""
    factor = {"no log2 e": 1.0, "no log2 e before": 1.0, "divided": math.log(2)}.get(bug, math.log2(math.e))
    distance = torch.arange(len(s)).flip(0)
    if bug in ("from the first key", "off by one"):
        distance = torch.arange(len(s)) if bug == "from the first key" else distance + 1
    penalty = slope * distance * {"slope in base e": 1.0, "slope scaled": factor / math.sqrt(d)}.get(bug, factor)
    scaled = s * (factor / {"no root": d, "no scale": 1}.get(bug, math.sqrt(d)))
    y = scaled + {"sign": penalty, "no penalty": torch.zeros(len(s))}.get(bug, -penalty)
    m = {"no maximum": 0.0, "maximum first": float(scaled.max())}.get(bug, float(y.max()))
    p = torch.exp2(y - m)
    l = float(p.sum())
    logs = {
        "no ln 2": m + math.log2(l),
        "m + ln": m + math.log(l),
        "inverse for L": (m + math.log2(l)) * math.log2(math.e),
        "no m": math.log(l),
        "no log2 e": m + math.log(l),
        "L is m": m * math.log(2),
        "base 10": (m + math.log2(l)) * math.log10(2),
    } if 0 < l < math.inf else {}  # fmt: skip
    return p if bug == "undivided" else p / l, logs.get(bug, m * math.log(2) + (math.log(l) if l else -math.inf))


WRONG = variants(
    _row,
    {
        "if L is left in units of log2: multiply m + log2 ℓ by ln 2": "no ln 2",
        "if L is converted with log2 e instead of ln 2, its inverse": "inverse for L",
        "if L is m + ln ℓ: the maximum is then still in units of log2": "m + ln",
        "if L is ln ℓ alone: ℓ was measured from the maximum, which has to be added": "no m",
        "if log2 e is missing: 2^x then stands where e^x should": "no log2 e",
        "if log2 e is missing before the power, and L is brought back from base 2 all the same": "no log2 e before",
        "if the scores are divided by log2 e: 2^(x · log2 e) is e^x": "divided",
        "if the penalty is not brought to base 2: it takes log2 e, as the scores do": "slope in base e",
        "if the penalty is scaled by 1 / √d, too: it is taken off a score that is scaled already": "slope scaled",
        "if the distance is counted from the first key: the query is at the last one": "from the first key",
        "if the last key has a distance of 1: it is the query's own; the weights stay, and L does not": "off by one",
        "if the penalty is added: far keys lose, they do not gain": "sign",
        "if the scale is 1 / d instead of 1 / √d": "no root",
        "if there is no scale: the raw scores are divided by √d": "no scale",
        "if the maximum is taken before the penalty: it may belong to a key that the penalty takes away": "maximum first",
        "if there is no penalty": "no penalty",
        "if L is the maximum alone: it lacks ln ℓ": "L is m",
        "if the weights are not divided by ℓ": "undivided",
        "if L is a logarithm of base 10: math.log and torch.log are natural": "base 10",
        "without subtracting the maximum: large scores overflow": "no maximum",
    },
)

"""Lecture 02: what online_update is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("3, 2, 5, 1 as the first block", (-math.inf, 0.0, torch.tensor([3.0, 2.0, 5.0, 1.0])))
    yield Case("5, 1 after 3, 2", (3.0, 1 + math.exp(-1), torch.tensor([5.0, 1.0])))
    yield Case("a block below the maximum so far", (5.0, 1.5, torch.tensor([3.0, 2.0])))
    yield Case("all scores far below 0", (-math.inf, 0.0, torch.tensor([-1000.0, -1001.0])))
    yield Case("scores in the hundreds", (90.0, 2.0, torch.tensor([200.0, 300.0])))
    yield Case("a block of one score", (0.0, 1.0, torch.tensor([0.0])))
    yield Case("a long block", (1.0, 3.0, torch.randn(1000) * 10))


def expected(m: float, l: float, x: torch.Tensor) -> tuple[float, float]:
    """From the definition: the old scores stand for one of size m + ln l."""
    scores = x.double()
    if l > 0:
        scores = torch.cat([torch.tensor([m + math.log(l)], dtype=torch.float64), scores])
    new = max(m, float(x.max()))
    return new, float(torch.exp(scores - new).sum())


def m_starts_at_zero(m, l, x):
    new = max(0.0 if m == -math.inf else m, float(x.max()))
    return new, l * (math.exp(m - new) if l else 0.0) + float(torch.exp(x - new).sum())


def old_sum_kept(m, l, x):
    new = max(m, float(x.max()))
    return new, l + float(torch.exp(x - new).sum())


def no_maximum(m, l, x):
    return max(m, float(x.max())), l * (1.0 if l else 0.0) + float(torch.exp(x).sum())


def block_maximum(m, l, x):
    new = float(x.max())
    return new, l * (math.exp(m - new) if l else 0.0) + float(torch.exp(x - new).sum())


def rescaled_upside_down(m, l, x):
    new = max(m, float(x.max()))
    return new, l * (math.exp(min(new - m, 700)) if l else 0.0) + float(torch.exp(x - new).sum())


def upside_down_from_the_start(m, l, x):
    new = max(m, float(x.max()))
    return new, l * math.exp(new - m) + float(torch.exp(x - new).sum())


def new_from_the_old_maximum(m, l, x):
    new = max(m, float(x.max()))
    return new, l * math.exp(m - new) + float(torch.exp(x - m).sum())


def sum_first(m, l, x):
    new = max(m, float(x.max()))
    return l * math.exp(m - new) + float(torch.exp(x - new).sum()), new


def old_sum_dropped(m, l, x):
    new = max(m, float(x.max()))
    return new, float(torch.exp(x - new).sum())


WRONG = {
    "if m starts at 0 instead of −∞: all scores far below 0 then vanish": m_starts_at_zero,
    "if the old ℓ is not rescaled to the new maximum, or m is overwritten before the factor is taken": old_sum_kept,
    "without subtracting the maximum: large scores overflow": no_maximum,
    "if the maximum is that of the block alone: it may fall": block_maximum,
    "if the old ℓ is rescaled by exp(m_new − m), upside down: the first block makes that 0 · ∞": upside_down_from_the_start,
    "if the old ℓ is rescaled by exp(m_new − m), upside down": rescaled_upside_down,
    "if the new scores are measured from the old m: exp(x − m) is infinite in the first block": new_from_the_old_maximum,
    "if ℓ is returned first: return (m, ℓ)": sum_first,
    "if the old ℓ is dropped: each block is then normalised by its own sum": old_sum_dropped,
}

"""Lecture 05: what rescale_accumulator is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    by_hand = torch.tensor([[10.0], [20.0], [30.0], [40.0]])
    old = 1 + math.exp(-1), torch.tensor([10 + 20 * math.exp(-1)])
    yield Case("3, 2 as the first block", (-math.inf, 0.0, torch.zeros(1), torch.tensor([3.0, 2.0]), by_hand[:2]))
    yield Case("5, 1 after 3, 2", (3.0, *old, torch.tensor([5.0, 1.0]), by_hand[2:]))
    yield Case(
        "a block below the maximum so far", (5.0, 1.5, torch.randn(3), torch.tensor([3.0, 2.0]), torch.randn(2, 3))
    )
    yield Case("a block of one score", (0.0, 1.0, torch.randn(2), torch.tensor([1.0]), torch.randn(1, 2)))
    yield Case(
        "all scores far below 0, first block",
        (-math.inf, 0.0, torch.zeros(2), torch.tensor([-1000.0, -1001.0]), torch.randn(2, 2)),
    )
    yield Case("a late spike", (1.0, 4.0, torch.randn(3), torch.tensor([0.0, 300.0]), torch.randn(2, 3)))
    yield Case("a block far below the spike", (300.0, 1.0, torch.randn(3), torch.randn(4), torch.randn(4, 3)))
    yield Case(
        "a long block of large scores", (12.0, 3.0, torch.randn(8) * 3, torch.randn(100) * 10, torch.randn(100, 8))
    )


def expected(
    m: float, l: float, acc: torch.Tensor, x: torch.Tensor, V: torch.Tensor
) -> tuple[float, float, torch.Tensor]:
    """From the definition: the old keys stand for one with score m + ln l and value acc / l."""
    scores, values = x.double(), V.double()
    if l > 0:
        scores = torch.cat([scores, torch.tensor([m + math.log(l)], dtype=torch.float64)])
        values = torch.cat([values, acc.double()[None] / l])
    new = max(m, float(x.max()))
    weights = torch.exp(scores - new)
    return new, float(weights.sum()), (weights[:, None] * values).sum(0).float()


def acc_kept(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p = torch.exp(x - new)
    return new, l * math.exp(m - new) + float(p.sum()), acc + p @ V


def sum_kept(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p = torch.exp(x - new)
    return new, l + float(p.sum()), acc * math.exp(m - new) + p @ V


def maximum_overwritten(m, l, acc, x, V):
    m = max(m, float(x.max()))
    p = torch.exp(x - m)
    return m, l + float(p.sum()), acc + p @ V


def new_part_corrected(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(m - new)
    return new, l * factor + float(p.sum()), (acc + p @ V) * factor


def all_corrected(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(m - new)
    return new, (l + float(p.sum())) * factor, (acc + p @ V) * factor


def divided(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(m - new)
    total = l * factor + float(p.sum())
    return new, total, (acc * factor + p @ V) / total


def kept_as_average(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(m - new)
    total = l * factor + float(p.sum())
    return new, total, (acc * l * factor + p @ V) / total


def m_starts_at_zero(m, l, acc, x, V):
    m = max(m, 0.0)
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(m - new)
    return new, l * factor + float(p.sum()), acc * factor + p @ V


def no_maximum(m, l, acc, x, V):
    p = torch.exp(x)
    return max(m, float(x.max())), l + float(p.sum()), acc + p @ V


def old_maximum(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - m), math.exp(m - new)
    return new, l * factor + float(p.sum()), acc * factor + p @ V


def block_maximum(m, l, acc, x, V):
    new = float(x.max())
    p, factor = torch.exp(x - new), math.exp(m - new)
    return new, l * factor + float(p.sum()), acc * factor + p @ V


def upside_down(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(new - m)
    return new, l * factor + float(p.sum()), acc * factor + p @ V


def local_softmax(m, l, acc, x, V):
    new = max(m, float(x.max()))
    p, factor = torch.exp(x - new), math.exp(m - new)
    p = p / p.sum()
    return new, l * factor + float(p.sum()), acc * factor + p @ V


WRONG = {
    "if acc is not rescaled to the new maximum: the old values count too much": acc_kept,
    "if l is not rescaled to the new maximum, only acc is": sum_kept,
    "if neither l nor acc is rescaled, or m is overwritten before the factor is taken: exp(m − m_new) is then always 1": (
        maximum_overwritten
    ),
    "if the new values are added to acc first and then rescaled with the old ones": new_part_corrected,
    "if l and acc are rescaled after the new block is added: its weights are measured from the new maximum": all_corrected,
    "if acc is divided by l in each step: it is divided once, after the last block": divided,
    "if acc is taken for an average and kept as one: here it is the sum, not yet divided by l": kept_as_average,
    "if m starts at 0 instead of −∞: all scores far below 0 then vanish": m_starts_at_zero,
    "without subtracting the maximum: large scores overflow": no_maximum,
    "if the new weights are measured from the old m: exp(x − m) is infinite in the first block": old_maximum,
    "if the maximum is that of the block alone: it may fall, and after a spike acc overflows": block_maximum,
    "if l and acc are rescaled by exp(m_new − m), upside down": upside_down,
    "if the block's weights are divided by their own sum, as in Lite": local_softmax,
}

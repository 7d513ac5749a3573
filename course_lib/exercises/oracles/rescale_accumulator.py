"""Lecture 05: what rescale_accumulator is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


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
        "200, 0, 0, 0", (-math.inf, 0.0, torch.zeros(2), torch.tensor([200.0, 0.0, 0.0, 0.0]), torch.randn(4, 2))
    )
    for sign in (1, -1):
        scores = torch.tensor([10000.0, 9999.0, 0.0]) * sign
        yield Case(
            f"scores of {10000 * sign:,} after scores near 0", (1.0, 2.0, torch.randn(2), scores, torch.randn(3, 2))
        )
    yield Case(
        "scores at the lower end of fp32", (-math.inf, 0.0, torch.zeros(2), torch.full((2,), -3e38), torch.randn(2, 2))
    )
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


def _rescale(m, l, acc, x, V, bug):
    own = float(x.max())
    if bug in ("m from 0", "finite m"):
        m = max(m, 0.0 if bug == "m from 0" else -1e9)
    new = own if bug == "block maximum" else max(m, own)
    p = torch.exp(x - (own if bug == "own maximum" else new))
    if bug == "lite":
        p = p / p.sum()
    factor = 1.0 if bug == "overwritten" else math.exp(m - new)
    total = l * (1.0 if bug == "l kept" else factor) + float(p.sum())
    acc = acc * (1.0 if bug == "acc kept" else factor) + p @ V
    return new, total, acc / total if bug == "divided" else acc


WRONG = variants(
    _rescale,
    {
        "if acc is not rescaled to the new maximum: the old values count too much": "acc kept",
        "if l is not rescaled to the new maximum, only acc is": "l kept",
        "if neither l nor acc is rescaled, or m is overwritten before the factor is taken: exp(m − m_new) is then always 1": "overwritten",
        "if acc is divided by l in each step: it is divided once, after the last block": "divided",
        "if m starts at 0 instead of −∞: all scores far below 0 then vanish": "m from 0",
        "if m starts at a number such as −10⁹ instead of −∞: scores may lie below it": "finite m",
        "if the new weights are measured from the block's own maximum, and m is the larger one": "own maximum",
        "if the maximum is that of the block alone: it may fall, and after a spike acc overflows": "block maximum",
        "if the block's weights are divided by their own sum, as in Lite": "lite",
    },
)

"""Lecture 02: what online_update is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("3, 2, 5, 1 as the first block", (-math.inf, 0.0, torch.tensor([3.0, 2.0, 5.0, 1.0])))
    yield Case("5, 1 after 3, 2", (3.0, 1 + math.exp(-1), torch.tensor([5.0, 1.0])))
    yield Case("a block below the maximum so far", (5.0, 1.5, torch.tensor([3.0, 2.0])))
    yield Case("all scores far below 0", (-math.inf, 0.0, torch.tensor([-1001.0, -1000.0, -1002.0])))
    yield Case("scores in the hundreds", (90.0, 2.0, torch.tensor([200.0, 300.0])))
    yield Case("200, 0, 0, 0 as the first block", (-math.inf, 0.0, torch.tensor([200.0, 0.0, 0.0, 0.0])))
    yield Case("scores of 10,000 after scores near 0", (1.0, 2.0, torch.tensor([10000.0, 9999.0, 0.0])))
    yield Case("scores of −10,000 after scores near 0", (1.0, 2.0, torch.tensor([-10000.0, -9999.0])))
    yield Case("scores at the lower end of fp32", (-math.inf, 0.0, torch.tensor([-3e38, -3e38])))
    yield Case("a block of one score", (0.0, 1.0, torch.tensor([0.0])))
    yield Case("a long block", (1.0, 3.0, torch.randn(1000) * 10))


def expected(m: float, l: float, x: torch.Tensor) -> tuple[float, float]:
    """From the definition: the old scores stand for one of size m + ln l."""
    scores = x.double()
    if l > 0:
        scores = torch.cat([torch.tensor([m + math.log(l)], dtype=torch.float64), scores])
    new = max(m, float(x.max()))
    return new, float(torch.exp(scores - new).sum())


def _update(m, l, x, bug):
    if bug == "m from 0" or bug == "finite m":
        m = max(m, 0.0 if bug == "m from 0" else -1e9)
    new = float(x.max()) if bug == "block maximum" else max(m, float(x.max()))
    factor = math.exp(m - new) if bug != "block maximum" or l else 0.0
    if bug in ("old sum kept", "no maximum"):
        factor = 1.0
    elif bug == "inverse":
        factor = math.exp(new - m)
    elif bug == "inverse, first block apart":
        factor = math.exp(new - m) if l else 0.0
    old = dict.fromkeys(("old maximum", "all from the old maximum"), m)
    origin = {"no maximum": 0.0, "new from 0": 0.0, "own maximum": float(x.max()), **old}.get(bug, new)
    if bug == "by L":
        L = torch.logsumexp(torch.cat([torch.tensor([m + math.log(l) if l else -math.inf]), x]).double(), 0)
        return new, float(torch.exp(L - new))
    added = float(torch.exp(x - origin).sum())
    if bug in ("both rescaled", "all from the old maximum"):
        return new, (l + added) * factor
    if bug == "mean":
        added /= len(x)
    if bug == "m kept":
        return m, l * factor + added
    return new, added if bug == "old sum dropped" else l * factor + added


WRONG = variants(
    _update,
    {
        "if m starts at 0 instead of −∞: all scores far below 0 then vanish": "m from 0",
        "if m starts at a number such as −10⁹ instead of −∞: scores may lie below it": "finite m",
        "if the old ℓ is not rescaled to the new maximum, or m is overwritten before the factor is taken": "old sum kept",
        "if the factor of the old ℓ is upside down: it is e^(m − m_new), at most 1": "inverse",
        "if the factor of the old ℓ is upside down but for the first block: it is e^(m − m_new), at most 1": "inverse, first block apart",
        "without subtracting the maximum: large scores overflow": "no maximum",
        "if the maximum is that of the block alone: it may fall": "block maximum",
        "if the new scores are measured from their own maximum, and m is the larger one": "own maximum",
        "if the new scores are measured from the old m: exp(x − m) is infinite in the first block": "old maximum",
        "if all is measured from the old m and then rescaled: exp(x − m) is infinite in the first block": "all from the old maximum",
        "if ℓ is made of L = m + ln ℓ: where scores are large, L has no digits left for it": "by L",
        "if the new terms are rescaled like the old ℓ: they are measured from the new maximum already": "both rescaled",
        "if the mean of the new terms is added: it is their sum": "mean",
        "if the old maximum comes back": "m kept",
        "if no maximum is subtracted from the new scores: ℓ is measured from the new one": "new from 0",
        "if the old ℓ is dropped: each block is then normalised by its own sum": "old sum dropped",
    },
)

"""Lecture 15: what fused_row is checked by."""

import math
from collections.abc import Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def _lists(*tensors: torch.Tensor) -> tuple[list[Any], ...]:
    return tuple(x.tolist() for x in tensors)


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    by_hand = [[2.0, 0, 0, 0], [4.0, 0, 0, 0], [0.0] * 4]
    yield Case("three keys by hand", ([1.0, 0.0, 0.0, 0.0], by_hand, [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]))
    yield Case("one key: its value comes back", ([3.0, -1.0], [[0.5, 2.0]], [[7.0, 8.0, 9.0]]))
    q, k, v = torch.randn(9), torch.randn(6, 9), torch.randn(6, 4)
    by_score = k[(k @ q).argsort(descending=True)]
    yield Case("the largest score first", _lists(q, by_score, v))
    yield Case("scores that rise", _lists(q, by_score.flip(0), v))
    yield Case("scores 0, 0 and −3", ([3.0], [[0.0], [0.0], [-1.0]], [[1.0], [3.0], [5.0]]))
    yield Case("values wider than keys", _lists(torch.randn(3), torch.randn(5, 3), torch.randn(5, 7)))
    yield Case("scores from −2000 to 1000", ([1.0], [[-2000.0], [1000.0]], [[1.0, 0.0], [0.0, 1.0]]))
    far = -q / (q @ q) * torch.arange(6000.0, 6006.0)[:, None]
    yield Case("all scores far below 0", _lists(q, far, v))
    yield Case("scores in the thousands", _lists(q, -far, v))
    spike = 3000 * q / (q @ q)
    yield Case("scores of −1e300 and below", ([1.0], [[-2e300], [-1e300], [-3e300]], [[1.0], [2.0], [3.0]]))
    yield Case("a late spike", _lists(q, torch.cat([k, spike[None]]), torch.randn(7, 4)))
    yield Case(
        "an early spike", ([2.0] * 4, [[250.0] * 4, [0.0] * 4, [0.25] * 4], [[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    )
    yield Case("37 keys, scores times ten", _lists(torch.randn(8) * 10, torch.randn(37, 8), torch.randn(37, 8)))


def expected(q: list[float], k: list[list[float]], v: list[list[float]]) -> tuple[torch.Tensor, str]:
    query, keys, rows = (torch.tensor(x, dtype=torch.float64) for x in (q, k, v))
    return torch.softmax(keys @ query / math.sqrt(len(q)), 0) @ rows, ""


def _fused_row(q, k, v, bug):
    d = {"no root": len(q) ** 2, "no scale": 1, "width of V": len(v[0])}.get(bug, len(q))
    if bug == "weights kept":
        scores = [sum(a * b for a, b in zip(q, key)) / math.sqrt(d) for key in k]
        weights = [math.exp(s - max(scores)) for s in scores]
        return [sum(w * x for w, x in zip(weights, column)) / sum(weights) for column in zip(*v)]
    m = {"0": 0.0, "-1e9": -1e9}.get(bug, -math.inf)
    if bug == "two passes":
        m = max(sum(a * b for a, b in zip(q, key)) / math.sqrt(d) for key in k)
    l, o = 0.0, [0.0] * len(v[0])
    for j, (key, value) in enumerate(zip(k, v)):
        if bug == "last key" and j == len(k) - 1:
            break
        x = sum(a * b for a, b in zip(q, key)) / math.sqrt(d)
        new = {"last": x, "no maximum": 0.0}.get(bug, max(m, x))
        m = 0.0 if bug == "no maximum" else m
        correction, weight = math.exp((new if bug == "updated first" else m) - new), math.exp(x - new)
        if bug == "inverse":
            correction = math.exp(min(new - m, 700.0)) if l else 0.0
        l = l * (1.0 if bug == "sum" else correction) + weight
        o = [y * (1.0 if bug == "output" else correction) + weight * z for y, z in zip(o, value)]
        o, m = [y / l for y in o] if bug == "each time" else o, new
    return o if bug in ("each time", "undivided") else [y / (len(k) if bug == "by N" else l) for y in o]


WRONG = variants(
    _fused_row,
    {
        "if the sum ℓ is not rescaled when the maximum grows": "sum",
        "if the output so far is not rescaled when the maximum grows, as ℓ is": "output",
        "if the maximum is updated before the factor is computed: that is then e^0 = 1": "updated first",
        "if the maximum starts at 0 instead of −∞: all scores far below 0 then vanish": "0",
        "if the maximum starts at some number instead of −∞: where all scores are below it they vanish": "-1e9",
        "if the last score stands in place of the maximum: after a large one the others overflow": "last",
        "if the scale is 1 / d instead of 1 / √d": "no root",
        "if there is no scale: scores are divided by √d": "no scale",
        "if d is taken for the width of V: it is that of q and K": "width of V",
        "without subtracting the maximum: large scores overflow": "no maximum",
        "if the correction is upside down: it is e^(m − m_new), at most 1": "inverse",
        "if the last key is left out": "last key",
        "if the output is not divided by ℓ": "undivided",
        "if the output is divided by the number of keys: the weights add up to ℓ": "by N",
        "if the output is divided by ℓ after each key: the next one is then added to an average": "each time",
        "with one pass for the maximum and another for the sums: it reads every key twice": "two passes",
        "if all keys are read before the first value (copied, or all weights first): N rows or weights are then kept": "weights kept",
    },
)

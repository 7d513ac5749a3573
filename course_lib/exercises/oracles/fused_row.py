"""Lecture 09: what fused_row is checked by."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.tasks.fused_row import AS_ASKED


def _lists(*tensors: torch.Tensor) -> tuple[list[Any], ...]:
    return tuple(x.tolist() for x in tensors)


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("two keys by hand", ([1.0, 0.0, 0.0, 0.0], [[2.0, 0, 0, 0], [4.0, 0, 0, 0]], [[1.0, 0.0], [0.0, 1.0]]))
    yield Case("one key: its value comes back", ([3.0, -1.0], [[0.5, 2.0]], [[7.0, 8.0, 9.0]]))
    q, k, v = torch.randn(9), torch.randn(6, 9), torch.randn(6, 4)
    by_score = k[(k @ q).argsort(descending=True)]
    yield Case("the largest score first", _lists(q, by_score, v))
    yield Case("scores that rise", _lists(q, by_score.flip(0), v))
    yield Case("values wider than keys", _lists(torch.randn(3), torch.randn(5, 3), torch.randn(5, 7)))
    far = -q / (q @ q) * torch.arange(6000.0, 6006.0)[:, None]
    yield Case("all scores far below 0", _lists(q, far, v))
    yield Case("scores in the thousands", _lists(q, -far, v))
    spike = 3000 * q / (q @ q)
    yield Case("a late spike", _lists(q, torch.cat([k, spike[None]]), torch.randn(7, 4)))
    yield Case(
        "an early spike", ([2.0] * 4, [[250.0] * 4, [0.0] * 4, [0.25] * 4], [[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    )
    yield Case("37 keys, scores times ten", _lists(torch.randn(8) * 10, torch.randn(37, 8), torch.randn(37, 8)))


def expected(q: list[float], k: list[list[float]], v: list[list[float]]) -> tuple[torch.Tensor, str]:
    query, keys, rows = (torch.tensor(x, dtype=torch.float64) for x in (q, k, v))
    return torch.softmax(keys @ query / math.sqrt(len(q)), 0) @ rows, AS_ASKED


def _online(
    q: list[float], k: Any, v: Any, *, m: float = -math.inf, maximum: bool = True, scale: float | None = None,
    sum_kept: bool = False, output_kept: bool = False, divide: bool = False, undivided: bool = False, turns: int = 1,
    reference: Callable[[float, float], float] = max,
) -> list[float]:  # fmt: skip
    scale, l, o = 1 / math.sqrt(len(q)) if scale is None else scale, 0.0, [0.0] * len(v[0])
    for key, value in zip(k, v):
        for _ in range(turns):
            x = sum(a * b for a, b in zip(q, key)) * scale
        new = reference(m, x) if maximum else 0.0
        correction, weight = math.exp(m - new) if maximum else 1.0, math.exp(x - new)
        l = (l if sum_kept else l * correction) + weight
        o = [(y if output_kept else y * correction) + weight * z for y, z in zip(o, value)]
        o, m = [y / l for y in o] if divide else o, new
    return o if divide or undivided else [y / l for y in o]


def sum_not_rescaled(q, k, v):
    return _online(q, k, v, sum_kept=True)


def output_not_rescaled(q, k, v):
    return _online(q, k, v, output_kept=True)


def maximum_starts_at_zero(q, k, v):
    return _online(q, k, v, m=0.0)


def no_maximum(q, k, v):
    return _online(q, k, v, maximum=False)


def last_score_for_the_maximum(q, k, v):
    return _online(q, k, v, reference=lambda m, x: x)


def first_score_for_the_maximum(q, k, v):
    return _online(q, k, v, reference=lambda m, x: x if m == -math.inf else m)


def not_divided(q, k, v):
    return _online(q, k, v, undivided=True)


def scale_without_the_root(q, k, v):
    return _online(q, k, v, scale=1 / len(q))


def key_twice(q, k, v):
    return _online(q, k, v, turns=2)


def value_first(q, k, v):
    pairs = [(list(value), list(key)) for key, value in zip(k, v)]
    return _online(q, [key for _, key in pairs], [value for value, _ in pairs])


def no_scale(q, k, v):
    return _online(q, k, v, scale=1.0)


def scale_of_values(q, k, v):
    return _online(q, k, v, scale=1 / math.sqrt(len(v[0])))


def divided_each_time(q, k, v):
    return _online(q, k, v, divide=True)


def cut_to_the_keys_width(q, k, v):
    return _online(q, k, [row[: len(q)] for row in v])


def two_passes(q, k, v):
    scale = 1 / math.sqrt(len(q))
    m = max(sum(a * b for a, b in zip(q, key)) * scale for key in k)
    return _online(q, k, v, m=m)


def weights_kept(q, k, v):
    scores = [sum(a * b for a, b in zip(q, key)) / math.sqrt(len(q)) for key in k]
    weights = [math.exp(s - max(scores)) for s in scores]
    return [sum(w * x for w, x in zip(weights, column)) / sum(weights) for column in zip(*v)]


WRONG = {
    "if the sum ℓ is not rescaled when the maximum grows": sum_not_rescaled,
    "if the output so far is not rescaled when the maximum grows, as ℓ is": output_not_rescaled,
    "if the maximum starts at 0 instead of −∞: all scores far below 0 then vanish": maximum_starts_at_zero,
    "without subtracting a maximum: large scores overflow, and far below 0 all vanish": no_maximum,
    "if the last score stands in place of the maximum: after a large one the others overflow": last_score_for_the_maximum,
    "if the first score stands in place of the maximum: a later one may be far above it": first_score_for_the_maximum,
    "without the scale 1 / √d": no_scale,
    "if the scale is 1 / d instead of 1 / √d": scale_without_the_root,
    "without the division by ℓ at the end": not_divided,
    "if the scale is taken from the width of the values: d is that of the keys": scale_of_values,
    "if the output is divided by ℓ after each key: the next one is then added to an average": divided_each_time,
    "if the output is as wide as the keys: it has a number for each column of v": cut_to_the_keys_width,
    "with one pass for the maximum and another for the sums: it reads every key twice": two_passes,
    "if a key is read twice in its own turn: keep its score (PyTorch, too, reads a list more than once)": key_twice,
    "if keys are read far ahead of their values (copied, or all weights first): N rows or weights are then kept": weights_kept,
    "if a value is read before its key": value_first,
}

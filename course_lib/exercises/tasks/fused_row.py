"""Lecture 09: attention of one query in pure Python that reads every key and value once."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
For one query and $N$ = 256 keys, rung 2 keeps 256 scores and 256 weights. Write it as a fused kernel would: read key
0, value 0, key 1, value 1, and so on, each number once, and keep only a maximum, a sum and one row of output. `q` is a
list of $d$ floats, `k` a list of $N$ rows of $d$, `v` a list of $N$ rows of $e$; $e$ may differ from $d$. Return
$\text{softmax}(q K^\top / \sqrt{d})\, V$ as a list of $e$ floats. Plain Python only, and no list of scores. The check
sees how often each number of `k` and `v` is read, and in which order; it cannot see what you keep. (There `k`, `v`
and their rows can be indexed, sliced and looped over like lists.)
"""

STUB = '''
def fused_row(q: list[float], k: list[list[float]], v: list[list[float]]) -> list[float]:
    """softmax(q Kᵀ / √d) V for one query q [d], keys k [N][d] and values v [N][e], as a list of e floats."""
    ...
'''

AS_ASKED = "each number once: key 0, value 0, key 1, value 1, …"


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


class Reads:
    """What was read: which numbers, the rows in the order in which they were begun, and the first number read again."""

    def __init__(self, keys: int) -> None:
        self.keys, self.again = keys, ""
        self.numbers: set[tuple[str, int, int]] = set()
        self.begun: dict[tuple[int, str], int] = {}

    def note(self, name: str, row: int, column: int) -> None:
        if (name, row, column) in self.numbers and not self.again:
            last = max(at for at, of in self.begun if of == name)
            when = "after the last one" if last == self.keys - 1 else "after a later one"
            self.again = f"{name}[{row}] again, {'in its own turn' if last == row else when}"
        self.numbers.add((name, row, column))
        self.begun.setdefault((row, name), len(self.begun))

    def __str__(self) -> str:
        if self.again:
            return self.again
        after = [
            self.begun[row, "v"] - at for (row, of), at in self.begun.items() if of == "k" and (row, "v") in self.begun
        ]
        if min(after, default=1) < 1:
            return "each number once, but a value before its key"
        if max(after, default=1) > 1:
            return f"each number once, but a value {max(after)} rows after its key"
        return AS_ASKED if list(self.begun) == sorted(self.begun) else "each number once, but the keys in another order"


class Row(Sequence[float]):
    """A row of k or v whose numbers are counted when they are read."""

    def __init__(self, name: str, row: int, numbers: Sequence[float], columns: range, reads: Reads):
        self.name, self.row, self.numbers, self.columns, self.reads = name, row, numbers, columns, reads

    def __len__(self) -> int:
        return len(self.columns)

    def __array__(self, *how: Any, **more: Any) -> Any:
        raise TypeError("plain Python only: no NumPy")

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Row(self.name, self.row, self.numbers, self.columns[at], self.reads)
        if not -len(self) <= at < len(self):
            raise IndexError(f"number {at} of row {self.row} of {self.name}, which has {len(self)}")
        column = self.columns[at]
        self.reads.note(self.name, self.row, column)
        return self.numbers[column]


def run(function: Callable[..., Any], case: Case) -> Any:
    q, k, v = case.args
    reads = Reads(len(k))
    watched = (
        [Row(name, j, row, range(len(row)), reads) for j, row in enumerate(x)] for name, x in (("k", k), ("v", v))
    )
    found = function(list(q), *watched)
    if found is None:
        return None
    if not isinstance(found, list | tuple):
        raise TypeError(f"a {type(found).__name__} came back; return a list of {len(v[0])} floats")
    return torch.tensor([float(x) for x in found], dtype=torch.float64), str(reads)


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


EXERCISE = Exercise(
    name="fused_row",
    lecture="09",
    title="one query, each key and value read once",
    level=2,
    minutes=15,
    asked=ASKED,
    stub=STUB,
    cases=cases,
    expected=expected,
    run=run,
    parts=("output", "reads"),
    hints=(
        "Loop over zip(k, v) once. What do you need from the keys before, so that they need not be read again?",
        "Keep m, ℓ and o, a list of e zeros at first. When a score exceeds m, everything summed so far shrinks by one "
        "factor, the sum ℓ and each number of o alike.",
        "For each key: x = its score, new = max(m, x), c = exp(m − new), w = exp(x − new); then ℓ = ℓ · c + w, "
        "o[i] = o[i] · c + w · value[i], m = new. Start with m = −∞; divide o by ℓ after the last key.",
    ),
    wrong={
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
    },
)

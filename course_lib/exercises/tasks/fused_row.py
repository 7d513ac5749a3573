"""Lecture 15: attention of one query in pure Python that reads every key and value once."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
For one query and $N$ = 256 keys, plain Python keeps 256 scores and 256 weights. Write it as a fused kernel would: read key
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
        return "" if list(self.begun) == sorted(self.begun) else "each number once, but the keys in another order"


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


EXERCISE = Exercise(
    name="fused_row",
    lecture="15",
    title="one query, each key and value read once",
    level=2,
    minutes=12,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("output", "reads"),
    answers=("course_lib.ladder.python.attention_floats", "course_lib.ladder.python.attention_values"),
    hints=(
        "Loop over zip(k, v) once. What do you need from the keys before, so that they need not be read again?",
        "Keep m, ℓ and o, a list of e zeros at first. When a score exceeds m, everything summed so far shrinks by one "
        "factor, the sum ℓ and each number of o alike.",
        "A new maximum multiplies ℓ and each of the e sums by one factor, and then the new key adds to all of them. Which "
        "number must not be overwritten before the factor is taken? The division comes once.",
    ),
)

"""Lecture 15: attention of one query in pure Python that reads every key and value once."""

import math
from collections import Counter
from collections.abc import Sequence

import torch

from course_lib.exercises.exercise import Case, Exercise


class Row(Sequence):
    """A row of k or v that notes what is read of it."""

    def __init__(self, reads, row, name, numbers, columns=None):
        self.reads, self.row, self.name, self.numbers = reads, row, name, numbers
        self.columns = range(len(numbers)) if columns is None else columns

    def __len__(self):
        return len(self.columns)

    def __array__(self, *how, **more):
        raise TypeError("plain Python only: no NumPy")

    def __getitem__(self, at):
        if isinstance(at, slice):
            return Row(self.reads, self.row, self.name, self.numbers, self.columns[at])
        if not -len(self) <= at < len(self):
            raise IndexError(f"number {at} of row {self.row} of {self.name}, which has {len(self)}")
        column = self.columns[at]
        self.reads.append((self.row, self.name, column))
        return self.numbers[column]


def run(function, case):
    """The row, and in words what is read more than once or in another order; '' for nothing."""
    q, k, v = case.args
    reads: list[tuple[int, str, int]] = []
    found = function(list(q), *([Row(reads, j, name, row) for j, row in enumerate(x)] for name, x in zip("kv", (k, v))))
    if found is None:
        return None
    if not isinstance(found, list | tuple):
        raise TypeError(f"a {type(found).__name__} came back; return a list of {len(v[0])} floats")
    return torch.tensor([float(x) for x in found], dtype=torch.float64), wrong_order(reads)


def wrong_order(reads):
    begun = list(dict.fromkeys((row, name) for row, name, _ in reads))
    if len(set(reads)) < len(reads):
        (row, name, _), _ = Counter(reads).most_common(1)[0]
        return f"{name}[{row}] more than once"
    order = ", ".join(f"{name}[{row}]" for row, name in begun[:4])
    return "" if begun == sorted(begun) else f"each number once, but rows in another order: {order} …"


EXERCISE = Exercise(
    lecture="15",
    title="one query, each key and value read once",
    run=run,
    parts=("output", "reads"),
    forbidden=("ladder.python.attention_floats", "ladder.python.attention_values"),
    hints=(
        "Loop over zip(k, v) once. What do you need from the keys before, so that they need not be read again?",
        "Keep m, ℓ and o, a list of e zeros at first. When a score exceeds m, everything summed so far shrinks by one "
        "factor, the sum ℓ and each number of o alike.",
        "A new maximum multiplies ℓ and each of the e sums by one factor, and then the new key adds to all of them. Which "
        "number must not be overwritten before the factor is taken? The division comes once.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def fused_row(q: list[float], k: list[list[float]], v: list[list[float]]) -> list[float]:
    """softmax(q Kᵀ / √d) V for one query q [d], keys k [N][d] and values v [N][e], as a list of e floats."""
    m, l, o = -math.inf, 0.0, [0.0] * len(v[0])
    for key, value in zip(k, v):
        x = sum(a * b for a, b in zip(q, key)) / math.sqrt(len(q))
        new = max(m, x)
        correction, weight = math.exp(m - new), math.exp(x - new)
        l = l * correction + weight
        o = [y * correction + weight * z for y, z in zip(o, value)]
        m = new
    return [y / l for y in o]
'''
WHY = """
What is kept does not grow with N: m, ℓ and e sums. In Python it is a little slower than plain loops: it does e
multiplications more for each key, and nothing waits for memory. Fewer bytes are worth something where bytes are what a
run waits for.
"""


def cases(draw):
    def case(words, *tensors):
        return Case(words, tuple(x.tolist() for x in tensors))

    by_hand = [[2.0, 0, 0, 0], [4.0, 0, 0, 0], [0.0] * 4]
    yield Case("three keys by hand", ([1.0, 0.0, 0.0, 0.0], by_hand, [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]))
    q, k, v = torch.randn(9), torch.randn(6, 9), torch.randn(6, 4)
    yield case("the largest score first", q, k[(k @ q).argsort(descending=True)], v)
    yield Case("scores 0, 0 and −3", ([3.0], [[0.0], [0.0], [-1.0]], [[1.0], [3.0], [5.0]]))
    far = -q / (q @ q) * torch.arange(6000.0, 6006.0)[:, None]
    yield case("all scores far below 0", q, far, v)
    yield Case("scores of −1e300 and below", ([1.0], [[-2e300], [-1e300], [-3e300]], [[1.0], [2.0], [3.0]]))
    yield case("a late spike", q, torch.cat([k, 3000 * q[None] / (q @ q)]), torch.randn(7, 4))
    keys, d = draw.randint(1, 20), draw.randint(1, 9)
    yield case("any sizes", torch.randn(d), torch.randn(keys, d), torch.randn(keys, draw.randint(1, 9)))


def expected(q, k, v):
    query, keys, rows = (torch.tensor(x, dtype=torch.float64) for x in (q, k, v))
    return torch.softmax(keys @ query / math.sqrt(len(q)), 0) @ rows, ""


INF, MOST, SCORE = "-math.inf", "max(m, x)", "sum(a * b for a, b in zip(q, key)) / math.sqrt(len(q))"
WRONG = {
    "if the sum ℓ is not rescaled when the maximum grows": ("l * correction", "l"),
    "if the output so far is not rescaled when the maximum grows, as ℓ is": ("y * correction", "y"),
    "if the maximum is updated before the factor is computed: that is then e^0 = 1": ("new = max", "m = new = max"),
    "if the maximum starts at some number instead of −∞: where all scores are below it they vanish": (INF, "-1e9"),
    "without subtracting the maximum: large scores overflow": (INF, "0.0", MOST, "0.0"),
    "with one pass for the maximum and another for the sums: it reads every key twice": (INF, f"max({SCORE} for key in k)"),
}  # fmt: skip

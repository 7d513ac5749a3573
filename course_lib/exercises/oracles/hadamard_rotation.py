"""Lecture 12: what hadamard_rotation is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("d = 1: nothing to add", (torch.tensor([[5.0]]), torch.ones(1)))
    yield Case("a row of 3 and 1", (torch.tensor([[3.0, 1.0]]), torch.ones(2)))
    yield Case("a minus sign", (torch.tensor([[3.0, 1.0]]), torch.tensor([1.0, -1.0])))
    yield Case("d = 1: only the sign is left", (torch.tensor([[5.0]]), torch.tensor([-1.0])))
    yield Case("d = 4, two stages", (torch.tensor([[3.0, 2.0, 5.0, 1.0]]), torch.ones(4)))
    row = torch.tensor([[1.0, 2.0, 250.0, -3.0, 0.0, 2.0, -1.0, 4.0]])
    yield Case("an outlier of 250 among eight", (row, torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])))
    yield Case("all numbers 1: they become an outlier", (torch.ones(1, 16), torch.ones(16)))
    yield Case("five rows of 64", (torch.randn(5, 64), _signs(64)))
    yield Case("d = 1024, in d log2 d additions", (torch.randn(1, 1024), _signs(1024)), {"counted": True})


def _signs(d: int) -> torch.Tensor:
    return 1.0 - 2.0 * torch.randint(0, 2, (d,))


def expected(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """With matrices, in float64: number (i, j) is minus where i and j share an odd number of bits; the upper and the lower bits
    have one each, of about √d × √d.
    """
    n, d = x.shape
    low = 1 << d.bit_length() // 2
    upper, lower = (
        [[(-1.0) ** (i & j).bit_count() for j in range(size)] for i in range(size)] for size in (d // low, low)
    )
    grid = (x.double() * sign).reshape(n, d // low, low)
    rotated = torch.tensor(upper, dtype=torch.float64) @ grid @ torch.tensor(lower, dtype=torch.float64)
    return (rotated.reshape(n, d) / math.sqrt(d)).float()


def _rotation(x, sign, bug):
    if bug == "matrix":
        matrix = torch.ones(1, 1)
        while len(matrix) < x.shape[1]:
            matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
        return (x * sign) @ matrix / math.sqrt(x.shape[1])
    y, half = x if bug in ("signs after", "no signs") else x * sign, 2 if bug == "from two" else 1
    for stage in range(x.shape[1].bit_length() - 1 - (bug in ("one less", "from two")) if bug != "one stage" else 1):
        y = y * sign if bug == "signs each time" and stage else y
        pairs = y.unflatten(1, (-1, 2, half))
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        if bug == "overwritten":
            a = (a + b) / math.sqrt(2)
        both = [a * math.sqrt(2) if bug == "overwritten" else a + b, b - a if bug == "b - a" else a - b]
        both[1] = {"new sum": a, "b kept": b}.get(bug, both[1])
        if bug == "halves":
            both = [x.flatten(1) for x in both]
        y = torch.stack(both, dim={"side by side": -1, "halves": 1}.get(bug, -2)).flatten(1)
        y = y / {"no root": 1, "halved": 2, "at the end": 1}.get(bug, math.sqrt(2))
        half *= 1 if bug == "one distance" else 2
    y = y / {"at the end": math.sqrt(2)}.get(bug, 1)
    return y * sign if bug == "signs after" else y


WRONG = variants(
    _rotation,
    {
        "without the division by √2 in each stage: lengths grow by √d": "no root",
        "if the signs are applied after the stages: numbers of one sign then still add up to an outlier": "signs after",
        "if the signs are left out": "no signs",
        "if the signs are applied before each stage: once, before the first one, is enough": "signs each time",
        "if each stage divides by 2, or d divides at the end: a stage divides by √2, which keeps the length": "halved",
        "if √2 divides once at the end: each stage divides by it": "at the end",
        "if the difference is taken from the new a: both need the old one": "overwritten",
        "if all stages have the same distance: two such stages undo each other": "one distance",
        "if there is a stage too few: log₂ d of them mix all numbers of a row": "one less",
        "if the first stage is missing: it mixes numbers one apart": "from two",
        "if there is one stage only: then come numbers two apart, four apart, …": "one stage",
        "if the difference is taken from the new sum, which makes it a again: both need the old a": "new sum",
        "if b stays as it is: (a − b)/√2 takes its place": "b kept",
        "if all sums come first and all differences behind them: they belong in the places of a and b": "halves",
        "if sum and difference are put side by side: they belong in the places of a and b": "side by side",
        "if the difference is b − a: (a − b)/√2 takes the place of b": "b - a",
        "if you multiply with the matrix: right, but with d² multiplications a row instead of d log₂ d additions": "matrix",
    },
)

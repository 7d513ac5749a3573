"""Lecture 11: what hadamard_rotation is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("a row of 3 and 1", (torch.tensor([[3.0, 1.0]]), torch.ones(2)))
    yield Case("a minus sign", (torch.tensor([[3.0, 1.0]]), torch.tensor([1.0, -1.0])))
    yield Case("d = 1: only the sign is left", (torch.tensor([[5.0]]), torch.tensor([-1.0])))
    yield Case("d = 4, two stages", (torch.tensor([[3.0, 2.0, 5.0, 1.0]]), torch.ones(4)))
    row = torch.tensor([[1.0, 2.0, 250.0, -3.0, 0.0, 2.0, -1.0, 4.0]])
    yield Case("an outlier of 250 among eight", (row, torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])))
    yield Case("all numbers 1: they become an outlier", (torch.ones(1, 16), torch.ones(16)))
    yield Case("five rows of 64", (torch.randn(5, 64), _signs(64)))
    yield Case("d = 512, in d log2 d additions", (torch.randn(1, 512), _signs(512)))


def _signs(d: int) -> torch.Tensor:
    return 1.0 - 2.0 * torch.randint(0, 2, (d,))


def expected(x: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """With the matrix, in float64: its number (i, j) is minus where i and j share an odd number of bits."""
    d = x.shape[1]
    bits = torch.tensor([[(i & j).bit_count() for j in range(d)] for i in range(d)])
    matrix = sign.double()[:, None] * (1 - 2.0 * (bits % 2)).double() / math.sqrt(d)
    return (x.double() @ matrix).float()


ROOT = math.sqrt(2)


def _stages(x, step=2, last=1, paired=lambda a, b: (a + b, a - b), place=-2, size=ROOT):
    """The stages with one of their parts replaced: what a stage does with half, which stage is the last, pairs, places, size."""
    half = 1
    for _ in range(int(math.log2(x.shape[1])) + last - 1):
        pairs = x.unflatten(1, (-1, 2, half))
        x = torch.stack(paired(pairs[:, :, 0], pairs[:, :, 1]), dim=place).flatten(1) / size
        half *= step
    return x


def not_normalised(x, sign):
    return _stages(x * sign, size=1)


def divided_by_d(x, sign):
    return _stages(x * sign, size=2)


def signs_after(x, sign):
    return _stages(x) * sign


def no_signs(x, sign):
    return _stages(x)


def neighbours_only(x, sign):
    return _stages(x * sign, step=1)


def last_stage_missing(x, sign):
    return _stages(x * sign, last=0)


def side_by_side(x, sign):
    return _stages(x * sign, place=-1)


def b_minus_a(x, sign):
    return _stages(x * sign, paired=lambda a, b: (a + b, b - a))


def overwritten(x, sign):
    return _stages(x * sign, paired=lambda a, b: (a + b, a + b - b))


def overwritten_through_a_view(x, sign):
    return _stages(x * sign, paired=lambda a, b: (a + b, (a + b) / ROOT - b))


def mirrored(x, sign):
    x, half = x * sign, 1
    while half < x.shape[1]:
        pairs = x.unflatten(1, (-1, 2, half))
        a, b = pairs[:, :, 0], pairs[:, :, 1].flip(-1)
        x = torch.stack([a + b, (a - b).flip(-1)], dim=-2).flatten(1) / math.sqrt(2)
        half *= 2
    return x


def with_the_matrix(x, sign):
    matrix = torch.ones(1, 1)
    while len(matrix) < x.shape[1]:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return (x * sign) @ matrix / math.sqrt(x.shape[1])


WRONG = {
    "without the division by √2 in each stage: lengths grow by √d": not_normalised,
    "if each stage divides by 2, together by d: lengths shrink by √d": divided_by_d,
    "if the signs are applied after the stages: numbers of one sign then still add up to an outlier": signs_after,
    "if the signs are left out": no_signs,
    "if every stage mixes neighbours: two such stages undo each other": neighbours_only,
    "if the last stage is missing: the halves of a row are never mixed": last_stage_missing,
    "if sum and difference are put side by side: they belong in the places of a and b": side_by_side,
    "if the difference is b − a: (a − b)/√2 takes the place of b": b_minus_a,
    "if a is overwritten before the difference is taken: (a + b) − b is a again": overwritten,
    "if a is a view of x: the first assignment changes it, and the difference is taken from the new a": overwritten_through_a_view,
    "if the pairs are mirrored, the first of a group with the last: pairs are `half` apart": mirrored,
    "if you multiply with the matrix: right, but with d² multiplications a row instead of d log₂ d additions": with_the_matrix,
}

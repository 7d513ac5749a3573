"""Lecture 04: what break_it is checked by."""

import math
import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("16 queries, 64 keys, in blocks of 4", (4, 16, 64))
    yield Case("4 queries, 10 keys", (4, 4, 10))
    yield Case("3 queries, 5 keys", (4, 3, 5))
    yield Case("3 queries, 9 keys, in blocks of 8", (8, 3, 9))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for block in draw.sample((5, 6, 7, 12, 16, 24, 32), 4):
        yield Case("any blocks", (block, 3 + draw.randint(0, 2), block + 1 + draw.randint(0, 2)))


def expected(block: int, queries: int, keys: int) -> tuple[str, str]:
    """Nothing is wrong with the input, and no mistake gets by."""
    return "", ""


def _input(block, queries, keys, bug):
    """Rows of scores, which with this q are the columns of k; ``bug`` changes some of them."""
    if bug in ("randn", "full blocks"):
        generator = torch.Generator().manual_seed(1)
        m = block * max(1, keys // block) if bug == "full blocks" else min(keys, block + 1)
        return tuple(torch.randn(n, 8, generator=generator) for n in (min(queries, 3), m, m))
    last = {"late spike": (1.0, 150.0, -1.0), "growth": (60.0, -1.0, -150.0), "no fall": (1.0, 2.0, -150.0)}
    first = torch.arange(-block, 0) * 0.03
    rows = torch.tensor(last.get(bug, (1.0, -1.0, -150.0)))[:, None] - 0.03
    scores = torch.cat([first.expand(3, block), rows], 1) + {"near 0": 0.0, "above": 1500.0}.get(bug, -1500.0)
    scores[2] += 0 if bug == "together" else 300
    larger = {"one weight": 1e3, "overflow": 1e18}.get(bug, 1.0)
    q, k = math.sqrt(3) * torch.eye(3) * larger, scores.T * larger
    v = torch.full((block + 1, 1), 7.0) if bug == "equal values" else 1.0 + torch.arange(block + 1)[:, None]
    return q, k, v * (1.0 if bug == "small values" else 2e5)


WRONG = variants(
    _input,
    {
        "from torch.randn: no score is far from 0, and no row far from another": "randn",
        "if the keys fill their blocks: nothing is padded, so no mistake with the tail shows": "full blocks",
        "if the scores do not lie below −1,000: in their maximum a padded key, or a start at 0, is harmless": "near 0",
        "if all scores are large and positive: they overflow without a maximum, but a padded 0 is nothing beside them": "above",
        "if the maximum grows by a lot only: a kernel that leaves out small corrections gets by": "growth",
        "if no row falls a little at its last block: a block that lies below the maximum could be left out": "no fall",
        "if a spike comes late, but none early, or one too low for an overflow: the block's own maximum then does no harm": "late spike",
        "if all rows lie at the same height: they can share a maximum": "together",
        "if one key of each row has all the weight: mistakes in the other weights do not show": "one weight",
        "if scores overflow: beyond 3e38 fp32 has infinity, and no kernel is right": "overflow",
        "if all values are equal: any weights that add up to 1 give the same average": "equal values",
        "if the values are small: fp16 holds them": "small values",
    },
)

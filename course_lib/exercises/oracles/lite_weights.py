"""Lecture 04: what lite_weights is checked by."""

from collections.abc import Iterable

import numpy as np
import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("3, 2, 5, 1 in blocks of two", (torch.tensor([3.0, 2.0, 5.0, 1.0]), 2))
    yield Case("one key", (torch.tensor([7.0]), 4))
    yield Case("one block: the softmax of all scores", (torch.tensor([3.0, 2.0, 5.0, 1.0]), 4))
    yield Case("blocks of one key", (torch.tensor([3.0, 2.0, 5.0]), 1))
    yield Case("a ragged last block", (torch.randn(9), 4))
    yield Case("a block larger than N", (torch.randn(5), 16))
    yield Case("all scores far below 0", (torch.randn(8) - 1000, 4))
    yield Case("scores times a hundred", (torch.randn(12) * 100, 4))
    yield Case("200, 0, 0, 0", (torch.tensor([200.0, 0.0, 0.0, 0.0]), 4))
    large = torch.tensor([20000.0, 0.0, 10000.0, 15000.0, -30000.0, -20000.0, 0.0, -10000.0])
    yield Case("scores in the ten thousands", (large, 4))
    yield Case("scores in the ten thousands, the other way round", (large.flip(0), 4))
    yield Case("scores at the lower end of fp32, a ragged block", (torch.tensor([-1e38, -2e38, -3e38]), 2))
    yield Case("a late spike", (torch.cat([torch.randn(8), torch.tensor([0.0, 300.0])]), 4))


def expected(x: torch.Tensor, block_n: int) -> torch.Tensor:
    """Key by key: 1 / Σ exp(x_i − x_j) over the keys i of its own block."""
    scores = x.double().numpy()
    own = np.arange(len(scores)) // block_n
    with np.errstate(over="ignore"):
        weights = [1 / np.exp(scores[own == own[j]] - scores[j]).sum() for j in range(len(scores))]
    return torch.tensor(weights).float()


def _weights(x, block_n, bug):
    blocks = x.split(block_n)
    if bug == "number of blocks":
        blocks = x.chunk(block_n)
    elif bug == "one softmax":
        blocks = [x]
    elif bug in ("zeros", "large negative"):
        filled = torch.full((-len(x) % block_n,), 0.0 if bug == "zeros" else -1e9)
        blocks = torch.cat([x, filled]).split(block_n)
    origins = {"no maximum": lambda b: 0.0, "row": lambda b: x.max()}
    exponentials = [torch.exp(b - origins.get(bug, torch.max)(b)) for b in blocks]
    sums = [e.sum() for e in exponentials]
    if bug == "online":
        tops = [x[: start + block_n].max() for start in range(0, len(x), block_n)]
        exponentials = [torch.exp(b - top) for b, top in zip(blocks, tops)]
        sums = [torch.exp(x[: (i + 1) * block_n] - top).sum() for i, top in enumerate(tops)]
    if bug == "one sum":
        sums = [torch.stack(sums).sum()] * len(sums)
    elif bug == "sum so far":
        sums = list(torch.stack(sums).cumsum(0))
    elif bug == "undivided":
        sums = [torch.ones(())] * len(sums)
    elif bug == "average":
        sums = [s * len(sums) for s in sums]
    return torch.cat([e / s for e, s in zip(exponentials, sums)])[: len(x)]


WRONG = variants(
    _weights,
    {
        "from one softmax over all keys: that is attention, and Lite is not": "one softmax",
        "if each block has its own maximum, but one sum divides all": "one sum",
        "if the weights are divided by the number of blocks: Lite adds the averages, and their sum is no average": "average",
        "if a block is divided by the sum of all blocks so far: Lite divides each by its own": "sum so far",
        "if a block is divided by the ℓ of all keys so far, with their maximum: Lite takes each block's own": "online",
        "if a block is not divided by its sum": "undivided",
        "without subtracting the maximum of the block: large scores overflow, scores far below 0 give 0/0": "no maximum",
        "if every block subtracts the maximum of the whole row: a block far below it gives 0/0": "row",
        "if block_n is taken for the number of blocks: x.chunk(n) makes n blocks, x.split(n) makes blocks of n": "number of blocks",
        "if a ragged block is filled up with scores of 0: they take part of the weight": "zeros",
        "if a ragged block is filled up with scores such as −10⁹: real scores may lie below them, −∞ is below all": "large negative",
    },
)

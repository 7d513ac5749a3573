"""Lecture 04: what lite_weights is checked by."""

from collections.abc import Iterable

import numpy as np
import torch

from course_lib.exercises.base import Case


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
    yield Case("a late spike", (torch.cat([torch.randn(8), torch.tensor([0.0, 300.0])]), 4))


def expected(x: torch.Tensor, block_n: int) -> torch.Tensor:
    """Key by key: 1 / Σ exp(x_i − x_j) over the keys i of its own block."""
    scores = x.double().numpy()
    own = np.arange(len(scores)) // block_n
    with np.errstate(over="ignore"):
        weights = [1 / np.exp(scores[own == own[j]] - scores[j]).sum() for j in range(len(scores))]
    return torch.tensor(weights).float()


def one_softmax(x, block_n):
    return torch.softmax(x, 0)


def divided_by_blocks(x, block_n):
    blocks = x.split(block_n)
    return torch.cat([torch.softmax(b, 0) for b in blocks]) / len(blocks)


def not_divided(x, block_n):
    return torch.cat([torch.exp(b - b.max()) for b in x.split(block_n)])


def no_maximum(x, block_n):
    return torch.cat([torch.exp(b) / torch.exp(b).sum() for b in x.split(block_n)])


def maximum_of_the_row(x, block_n):
    e = torch.exp(x - x.max())
    return torch.cat([b / b.sum() for b in e.split(block_n)])


def number_of_blocks(x, block_n):
    return torch.cat([torch.softmax(b, 0) for b in x.chunk(block_n)])


def equal_blocks(x, block_n):
    return torch.cat([torch.softmax(b, 0) for b in x.chunk(-(-len(x) // block_n))])


def padded_with_zeros(x, block_n):
    padded = torch.cat([x, torch.zeros(-len(x) % block_n)])
    return torch.softmax(padded.view(-1, block_n), 1).flatten()[: len(x)]


def tail_left_out(x, block_n):
    weights = torch.zeros_like(x)
    for i in range(0, len(x) // block_n * block_n, block_n):
        weights[i : i + block_n] = torch.softmax(x[i : i + block_n], 0)
    return weights


WRONG = {
    "from one softmax over all keys: that is attention, and Lite is not": one_softmax,
    "if the weights are divided by the number of blocks, or by their sum, which is the same: Lite does not do that, and it would "
    "not make Lite right": divided_by_blocks,
    "if no block is divided by its sum": not_divided,
    "without subtracting the maximum of the block: large scores overflow, scores far below 0 give 0/0": no_maximum,
    "if every block subtracts the maximum of the whole row: a block far below it gives 0/0": maximum_of_the_row,
    "if block_n is taken for the number of blocks: x.chunk(n) makes n blocks, x.split(n) makes blocks of n": (
        number_of_blocks
    ),
    "if all blocks are made about equally long: Lite fills each block before it starts the next": equal_blocks,
    "if a ragged block is filled up with scores of 0: they take part of the weight": padded_with_zeros,
    "if a ragged last block is left out: its keys have weight, too": tail_left_out,
}

"""Lecture 04: the weights that Lite hands out, one softmax for each block of keys."""

import numpy as np
import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="04",
    title="the weights that Lite hands out",
    tolerance=5e-5,  # log-sum-exp in fp32 is as good an answer
    forbidden=("algorithms.attention.lite_attention",),
    hints=(
        "Find the line of the Lite kernel that divides. Over which keys does its sum run?",
        "Cut x into blocks of block_n scores. The weights of a block depend on no other block.",
        "x.split(block_n) gives the blocks, the last one shorter. What becomes of each of them, and how are they put side by "
        "side again?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def lite_weights(x: torch.Tensor, block_n: int) -> torch.Tensor:
    """The weights [N] that Lite gives to the values of N keys with scores x [N], float32."""
    return torch.cat([torch.softmax(block, 0) for block in x.split(block_n)])
'''
WHY = """
The weights are 0.731, 0.269, 0.982, 0.018. Each block hands out a weight of 1, so with T blocks all weights add up to T, here 2: Lite's
output is a sum of T averages. With one block it is the softmax. A key's weight depends on its own block alone: a score of 300 in the last
block leaves the weights of the first block as they were, where attention would take nearly everything from them.
"""


def cases(draw):
    yield Case("3, 2, 5, 1 in blocks of two", (torch.tensor([3.0, 2.0, 5.0, 1.0]), 2))
    yield Case("one key", (torch.tensor([7.0]), 4))
    yield Case("a ragged last block", (torch.randn(9), 4))
    yield Case("a block larger than N", (torch.randn(5), 16))
    yield Case("all scores far below 0", (torch.randn(8) - 1000, 4))
    large = torch.tensor([20000.0, 0.0, 10000.0, 15000.0, -30000.0, -20000.0, 0.0, -10000.0])
    yield Case("scores in the ten thousands", (large, 4))
    yield Case("scores at the lower end of fp32, a ragged block", (torch.tensor([-1e38, -2e38, -3e38]), 2))
    yield Case("a late spike", (torch.cat([torch.randn(8), torch.tensor([0.0, 300.0])]), 4))
    yield Case("any sizes", (torch.randn(draw.randint(1, 40)), draw.randint(1, 12)))


def expected(x, block_n):
    """Key by key: 1 / Σ exp(x_i − x_j) over the keys i of its own block."""
    scores = x.double().numpy()
    own = np.arange(len(scores)) // block_n
    with np.errstate(over="ignore"):
        weights = [1 / np.exp(scores[own == own[j]] - scores[j]).sum() for j in range(len(scores))]
    return torch.tensor(weights).float()


BLOCKS, SOFTMAX, END = "x.split(block_n)", "torch.softmax(block, 0)", "x.split(block_n)])"
WRONG = {
    "from one softmax over all keys: that is attention, and Lite is not": (BLOCKS, "[x]"),
    "if a block is not divided by its sum": (SOFTMAX, "torch.exp(block - block.max())"),
    "without subtracting the maximum of the block: large scores overflow, scores far below 0 give 0/0":
        (SOFTMAX, "torch.exp(block) / torch.exp(block).sum()"),
    "if block_n is taken for the number of blocks: x.chunk(n) makes n blocks, x.split(n) makes blocks of n": ("split", "chunk"),
    "if a ragged block is filled up with scores of 0: they take part of the weight":
        (END, "torch.nn.functional.pad(x, (0, -len(x) % block_n)).split(block_n)])[: len(x)]"),
}  # fmt: skip

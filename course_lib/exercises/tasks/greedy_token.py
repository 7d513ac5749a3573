"""Lecture 02: the largest score and its weight, in one pass."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
A language model ends in a score for each of its, say, 128,000 tokens. They come in blocks, and you want the token with the largest score
and its probability: the weight that the softmax over *all* scores gives it. The scores 3, 2 and then 5, 1 give token 2 and
$1 / 1.203 = 0.831$. `blocks` hands out tensors [n] of float32 scores, of any lengths. Once you ask for the next one, the one before is
gone: the check fills it with NaN, and you may keep a few numbers of it, but no copy. Tokens are counted from 0 over all blocks, and among
equal scores the first one wins. A token that is forbidden has the score −∞; whole blocks may be, but not all. Return the tuple
(token, probability), an int and a float.
"""

STUB = '''
def greedy_token(blocks) -> tuple[int, float]:
    """(token, probability) of the largest of all scores; blocks is an iterator of tensors [n], each there until the next."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> Any:
    return function(_passing(case.args[0]))


def _passing(blocks: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """One block after the other; each is NaN once the next is asked for."""
    for block in blocks:
        there = block.clone()
        yield there
        there.fill_(torch.nan)


EXERCISE = Exercise(
    name="greedy_token",
    lecture="02",
    title="the likeliest token in one pass",
    level=2,
    minutes=10,
    asked=ASKED,
    stub=STUB,
    run=run,
    tolerance=3e-4,  # a log-sum-exp in fp32 is as good an answer
    parts=("token", "probability"),
    hints=(
        "What is the weight of the largest score, if it is measured from itself? So which two numbers of the lecture do you need?",
        "Beside m and ℓ carry the token of m. It changes when a block's maximum exceeds m, and it counts from the first token of all: "
        "how many came before this block?",
        "Begin with m = −∞ and ℓ = 0. After a first block of −∞ alone m is still −∞; then exp(m − m_new) is the exponential of "
        "−∞ − (−∞). Such a block adds nothing to ℓ, but its tokens count.",
    ),
)

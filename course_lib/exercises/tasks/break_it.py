"""Lecture 04: an input on which wrong kernels show."""

from typing import Any

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import wrong_attention

ASKED = r"""
Flash attention as in lecture 02, with running $m$, $\ell$ and $O$ (`acc`), was broken in eighteen ways. Each of these kernels works in
blocks of `block` queries and `block` keys, the last of which may be ragged, and has one mistake:

- **keys**: no tail mask; tail in the maximum; tail at −1,000; last block moved back (until it is full); keys up to n_q; blocks below the
  maximum skipped; last queries left out;
- **maximum**: no maximum; maximum from 0; maximum of the block alone; one maximum for all rows;
- **rescaling**: acc not rescaled; l not rescaled; neither rescaled; growth below 4 not rescaled; Lite;
- **numbers**: no 1/√d; acc in fp16.

Return one input `(q, k, v)` that exposes all of them: float32, finite, `q` [n, d], `k` [m, d], `v` [m, e], with n ≤ `queries`, m ≤ `keys`,
and d and e up to 64 as you like. A kernel is exposed if its output is off by more than a thousandth of the largest right number, or is
not finite; the right kernel has to pass. `block` is at least 4. The check begins with 16 queries and 64 keys, and ends with 3 queries
and `block` + 1 keys.
"""

STUB = '''
def break_it(block: int, queries: int, keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(q [n, d], k [m, d], v [m, e]), n ≤ queries and m ≤ keys, on which every wrong kernel shows."""
    ...
'''


def examine(case: Case, result: Any) -> tuple[str, str]:
    """The kernels are run here, on the student's numbers, and not where the student's code is."""
    return wrong_attention.getting_by(result, *case.args)


EXERCISE = Exercise(
    name="break_it",
    lecture="04",
    title="break it",
    level=3,
    minutes=30,
    core=True,
    asked=ASKED,
    stub=STUB,
    examine=examine,
    parts=("the input", "these get by"),
    answers=("course_lib.exercises.harness.wrong_attention.getting_by",),
    hints=(
        "Start from torch.randn and a ragged number of keys, and run the check: it names the mistakes that get by. For each, ask which "
        "row of scores it needs.",
        "Every query has its own row of scores. If q is a multiple of the unit matrix, row i of the scores is column i of k but for a "
        "factor, so you can write each row down as you want it.",
        "Three rows are enough: in one the last key lies a little above the others, in one a little below, in one far below (more than "
        "90). What is left: all far below zero, rows far apart, and values of a size that fp16 does not hold.",
    ),
)

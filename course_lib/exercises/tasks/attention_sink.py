"""Lecture 05: an attention sink, taken into results that were computed without it."""

from typing import Any

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
An *attention sink* is a score without a value: a number that each head has learned, which takes part in the softmax and adds nothing to
the output. With the scores 3, 2, the values 10, 20 and a sink of 3 the sum is $1.368 + 1$, and the output $17.36 / 2.368 = 7.33$ instead
of 12.69. Your kernel knows nothing of sinks. For each head and query it has returned the finished average `O` [H, n, d] and `L` [H, n],
$L = m + \log \ell$ as in lecture 02. Take in the sinks of the heads, `sink` [H], without going back to the keys: return the tuple
(`O`, `L`) with the sink, all float32. A row without a key has $L = -\infty$ and $O = 0$; a sink of $-\infty$ is none.
"""

STUB = '''
def attention_sink(O: torch.Tensor, L: torch.Tensor, sink: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [H, n, d], L [H, n]) of an attention in which head h has also the score sink[h], without a value."""
    ...
'''


def run(function: Any, case: Case) -> Any:
    """On copies: an answer may work in place."""
    return function(*(x.clone() for x in case.args))


EXERCISE = Exercise(
    name="attention_sink",
    lecture="05",
    title="an attention sink",
    level=2,
    minutes=10,
    asked=ASKED,
    stub=STUB,
    run=run,
    tolerance=5e-5,
    parts=("O", "L"),
    answers=("course_lib.model.softmax.merge", "course_lib.parallel.blocks.merge", "course_lib.kernels.merging.merge"),
    hints=(
        "e^L is all the weight that a row has given out. What does it become with the sink, and which share of it is left to the values?",
        "The new L is the logarithm of e^L + e^sink, which may overflow on the way: measure both from the larger one, as in a merge. "
        "The values keep the share e^(L − L_new) of the weight.",
        "torch.logaddexp measures from the larger one by itself. A sink belongs to a head, so it needs a dimension for the queries. And "
        "where there is neither key nor sink, look at what L − L_new is.",
    ),
)

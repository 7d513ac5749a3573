"""Lecture 08: the results of pieces of many sequences, in any order, become one for each row."""

from collections.abc import Callable
from typing import Any

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
Sequences of different lengths are best cut into *pieces* of about the same length: a long one into many, a short one into one. The pieces
come back in any order. Piece $i$ is of row `owner[i]`, and hands over its finished average `O_p[i]` and, as many kernels do, its log-sum
in base **2**: `L_p[i]` $= \log_2 \sum_j e^{x_j}$ over its scores. By hand: scores 3, 2 with values 10, 20 gave 12.69 and 4.780; 5, 1 with
30, 40 gave 30.18 and 7.240; both together 27.49 and 7.481.

Return the tuple (`O` [n, d], `L` [n]) for the rows 0 to n − 1, each over all of its pieces, L in base 2 again; `O_p` [p, d] and `L_p` [p]
are float32, `owner` [p] is int64. A piece may have no key: then its $L$ is −∞, and what stands in its row of `O_p` was never written. For
a row without any key O is 0 and L is −∞.
"""

STUB = '''
def merge_pieces(O_p: torch.Tensor, L_p: torch.Tensor, owner: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [n, d], L [n], base 2) of n rows, from their pieces O_p [p, d] and L_p [p], base 2; piece i is of row owner[i]."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> Any:
    """On copies: an answer may work in place."""
    *tensors, n = case.args
    return function(*(x.clone() for x in tensors), n)


EXERCISE = Exercise(
    name="merge_pieces",
    lecture="08",
    title="merge pieces of many rows",
    level=2,
    minutes=17,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("O", "L"),
    tolerance=1e-3,  # of an L near −20,000 float32 keeps steps of 2⁻⁹, and all weights are 2^(L_p − L)
    answers=("course_lib.model.softmax.merge", "course_lib.parallel.blocks.merge", "course_lib.kernels.merging.merge"),
    hints=(
        "For one row it is the page's merge, with the shares 2^(L_p − L). So you need for each row the sum of 2^(L_p − m) over its "
        "pieces, and of these times O_p.",
        "A sum by rows: x.index_add(0, owner, y) adds y[i] to x[owner[i]], as often as a row has pieces, where x[owner] += y adds once. "
        "The largest by rows: x.scatter_reduce(0, owner, y, 'amax').",
        "Each row is measured from its own largest L, m[owner] for the pieces. Then look for ∞ and NaN: a row whose m is −∞, "
        "a piece whose weight is 0 and whose average is NaN, a sum of 0 by which you divide.",
    ),
)

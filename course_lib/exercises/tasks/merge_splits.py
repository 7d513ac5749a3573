"""Lecture 08: the results of many splits become one."""

from course_lib.exercises.base import Exercise

ASKED = r"""
Each of $s$ programs has attended to its own split of the keys. For each of $n$ rows it hands over its *finished* average $O_s$ and $L_s
= \log \sum_j e^{x_j}$ over its scores, a natural logarithm. By hand: scores 3, 2 with values 10, 20 gave $L$ = 3.313 and $O$ = 12.69;
5, 1 with 30, 40 gave 5.018 and 30.18; together 27.49.

Return the tuple (`O` [n, d], `L` [n]) over all keys from `O_s` [s, n, d] and `L_s` [s, n], all float32. A split may have no key for a
row: then its $L$ is −∞, and what stands in its row of `O_s` was never written. If no split has one, `O` is 0 and `L` is −∞.
"""

STUB = '''
def merge_splits(O_s: torch.Tensor, L_s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [n, d], L [n]) over the keys of all splits, from O_s [s, n, d] and L_s [s, n]."""
    ...
'''


EXERCISE = Exercise(
    name="merge_splits",
    lecture="08",
    title="merge the splits",
    level=2,
    minutes=12,
    asked=ASKED,
    stub=STUB,
    parts=("O", "L"),
    tolerance=2e-4,
    hints=(
        "Which share of all weight did a split see? O is the sum of the splits' averages, each times its share.",
        "With m the largest L_s of a row, w_s = exp(L_s − m) are the shares but for their sum, and L = m + log Σ w_s. "
        "Where m is −∞, −∞ − (−∞) is NaN: put 0 in its place.",
        "w = torch.exp(L_s − shift), O = (w[..., None] * O_s).sum(0) / w.sum(0)[:, None]. A weight of 0 does not make NaN vanish: "
        "put 0 in the place of O_s where L_s is −∞, and divide by 1 where the sum is 0.",
    ),
)

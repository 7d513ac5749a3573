"""Lecture 05: one step of the online softmax with the accumulator."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
After the scores 3, 2 with values 10, 20 the state is $m = 3$, $l = 1.368$, and the sum of weighted values is 17.36. Now 5, 1 arrive with
30, 40: $m$ becomes 5, and 17.36 has to shrink before the new values are added. In general $m$ is the maximum of the scores so far,
$l = \sum_j e^{x_j - m}$, and `acc` $= \sum_j e^{x_j - m} v_j$, a tensor [d], **not** divided by $l$. A block of $n$ scores `x` [n] with
values `V` [n, d] arrives. Return the new `(m, l, acc)`: two floats and a tensor [d]. All tensors are float32. Before the first block
$m = -\infty$, $l = 0$ and `acc` is zero.
"""

STUB = '''
def rescale_accumulator(
    m: float, l: float, acc: torch.Tensor, x: torch.Tensor, V: torch.Tensor
) -> tuple[float, float, torch.Tensor]:
    """(m, l, acc) after a block of scores x [n] and values V [n, d]; m and l as floats, acc [d]."""
    ...
'''


def run(function: Any, case: Case) -> Any:
    """The function may change its tensors: it gets copies."""
    return function(*(a.clone() if isinstance(a, torch.Tensor) else a for a in case.args))


EXERCISE = Exercise(
    name="rescale_accumulator",
    lecture="05",
    title="the online update with the accumulator",
    level=1,
    minutes=8,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("m", "l", "acc"),
    hints=(
        "m and l change as in the online softmax of lecture 02. acc is a sum with the same weights as l, each times a value.",
        "All that was summed from the old maximum shares one factor, exp(m − m_new): l and acc both need it, and what is new does not.",
        "p = exp(x − m_new) gives the new weights; acc_new = acc · exp(m − m_new) + p @ V. Keep the old m until the factor is taken.",
    ),
)

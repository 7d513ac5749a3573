"""Lecture 02: the online softmax's update by one block of scores."""

from course_lib.exercises.base import Exercise

ASKED = r"""
You have seen some scores; $m$ is their maximum and $\ell = \sum_j e^{x_j - m}$. Now a block `x` of new scores arrives. Return the new
maximum and the new $\ell$, and use each score of `x` once. Before the first block $m = -\infty$ and $\ell = 0$; scores may be as low as
$-3 \cdot 10^{38}$.
"""

STUB = '''
def online_update(m: float, l: float, x: torch.Tensor) -> tuple[float, float]:
    """(m, l) after a block of scores x [n], float32; m and l as floats."""
    ...
'''


EXERCISE = Exercise(
    name="online_update",
    lecture="02",
    title="one step of the online softmax",
    level=1,
    minutes=3,
    core=True,
    asked=ASKED,
    stub=STUB,
    parts=("m", "l"),
    answers=("course_lib.model.softmax.update", "course_lib.model.softmax.merge"),
    hints=(
        "The new maximum is the larger of the old one and the block's.",
        "The old ℓ was summed relative to the old m. By which factor must it be multiplied to be relative to the new one?",
        "One factor brings all of the old ℓ to the new maximum; the new scores are measured from it at once. exp(−∞) is 0: the "
        "first block needs no special case.",
    ),
)

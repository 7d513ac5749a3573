"""Lecture 04: the weights that Lite hands out, one softmax for each block of keys."""

from course_lib.exercises.base import Exercise

ASKED = r"""
Lite takes the scores 3, 2, 5, 1 in blocks of two, and gives the first two values the weights 0.731 and 0.269. Which weights do the other
two get, and what is the sum of all four? You have the scores `x` [N], float32, of one query, and `block_n`, the number of keys in a
block; the last block may be shorter. Return the weights [N], float32, that Lite gives to the $N$ values, so that `weights @ values` is
Lite's output for this query.
"""

STUB = '''
def lite_weights(x: torch.Tensor, block_n: int) -> torch.Tensor:
    """The weights [N] that Lite gives to the values of N keys with scores x [N], float32."""
    ...
'''


EXERCISE = Exercise(
    name="lite_weights",
    lecture="04",
    title="the weights that Lite hands out",
    level=1,
    minutes=3,
    asked=ASKED,
    stub=STUB,
    tolerance=5e-5,  # log-sum-exp in fp32 is as good an answer
    answers=("course_lib.algorithms.attention.lite_attention",),
    hints=(
        "Find the line of the Lite kernel that divides. Over which keys does its sum run?",
        "Cut x into blocks of block_n scores. The weights of a block depend on no other block.",
        "x.split(block_n) gives the blocks, the last one shorter. What becomes of each of them, and how are they put side by "
        "side again?",
    ),
)

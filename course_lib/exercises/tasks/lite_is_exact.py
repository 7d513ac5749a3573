"""Lecture 04: for which numbers of keys and which blocks Lite is attention."""

from course_lib.exercises.base import Exercise

ASKED = r"""
On 64 keys in blocks of 64, Lite is attention; on 64 keys in blocks of 32 it is not. You have `n_keys`, the number of keys, and `block_n`,
the number of keys in a block, both at least 1. Return `True` if Lite's output is that of attention (up to rounding) for **every** choice
of scores and values, otherwise `False`. One line is enough.
"""

STUB = '''
def lite_is_exact(n_keys: int, block_n: int) -> bool:
    """Whether Lite is attention for all inputs with n_keys keys in blocks of block_n."""
    ...
'''


EXERCISE = Exercise(
    name="lite_is_exact",
    lecture="04",
    title="when Lite is right",
    level=1,
    minutes=2,
    asked=ASKED,
    stub=STUB,
    hints=(
        "Let all values be 1. What is attention's output, whatever the scores? And Lite's?",
        "Lite's weights add up to the number of blocks. A block that is not full is a block, too.",
        "All keys have to be in one block, full or not: compare n_keys with block_n.",
    ),
)

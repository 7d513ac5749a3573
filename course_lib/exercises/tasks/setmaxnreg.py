"""Lecture 11: how many registers a consumer can have."""

from course_lib.exercises.base import Exercise

ASKED = r"""
An SM has 65,536 registers, 512 for each thread of one warpgroup of 128. Two consumers and a producer start with 168 per thread each; the
producer keeps 24, and `setmaxnreg` can give each consumer 240. In general `consumers` + 1 warpgroups start with equal parts, rounded down
to a multiple of 8, and share nothing but what they started with. The producer keeps `producer` registers per thread; the consumers all get
the same number: a multiple of 8, at most 256 (of these a thread's code can name 255, as lecture 03 said). Return the largest, as an int.
(Here it is never below 24.)
"""

STUB = '''
def setmaxnreg(consumers: int, producer: int) -> int:
    """Registers per thread of each consumer, if the producer keeps so many per thread."""
    ...
'''


EXERCISE = Exercise(
    name="setmaxnreg",
    lecture="11",
    title="who gets how many registers",
    level=2,
    minutes=8,
    asked=ASKED,
    stub=STUB,
    answers=("course_lib.model.registers.plan", "course_lib.model.registers.at_start"),
    hints=(
        "Count in registers per thread of a warpgroup: the SM has 512 of them. How many do consumers + 1 warpgroups own together "
        "after the start?",
        "A multiple of 8 is needed twice: for the parts at the start, and for what a consumer has in the end. What remains to be "
        "divided in between?",
        "Three steps: the equal parts at the start, in multiples of 8; what all warpgroups then own together, without what the "
        "producer keeps; the share of a consumer, in multiples of 8 again. Which number is the most that a thread can have?",
    ),
)

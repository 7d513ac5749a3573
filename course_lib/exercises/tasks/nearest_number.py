"""Lecture 09: the nearest number of a floating-point format."""

from course_lib.exercises.base import Exercise

ASKED = r"""
bf16 has 7 mantissa bits. From 256 to 512 its numbers are 2 apart, so 257 is a tie: it goes to 256, the neighbour whose
last bit is 0, as 259 goes to 260. Round `x`, a positive float, to the nearest number of a format with `mantissa` bits,
0 to 52, without the leading 1. Its smallest normal number is $2^{\text{lowest}}$ (`lowest` is −126 for bf16); below
that, down to 0, the numbers keep the distance that they have just above it. Ties go to the even neighbour, an even
multiple of that distance. The format has no largest number: nothing overflows. Return a float, exact to the last bit.
"""

STUB = '''
def nearest_number(x: float, mantissa: int, lowest: int) -> float:
    """The number nearest to x > 0 of a format with so many mantissa bits and the smallest normal number 2^lowest."""
    ...
'''


EXERCISE = Exercise(
    name="nearest_number",
    lecture="09",
    title="round to a format",
    level=2,
    minutes=15,
    asked=ASKED,
    stub=STUB,
    tolerance=0.0,
    answers=("course_lib.model.formats.rounded", "course_lib.model.formats.step_at"),
    hints=(
        "Around x the numbers of the format are multiples of a step, a power of two. What is it for 257 in bf16?",
        "With 2^e ≤ x < 2^(e+1) the step is 2^(e − mantissa). From 2^lowest down it stays what it is there. "
        "math.frexp(x) gives a fraction from 1/2 to 1 and a power: e is one less than that power.",
        "How many steps is x? Dividing by a power of two is exact, and Python's round() sends ties to the even whole number. What "
        "does not fall any more once x is below 2^lowest?",
    ),
)

"""Lecture 09: the nearest number of a floating-point format."""

import math
from fractions import Fraction

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="09",
    title="round to a format",
    tolerance=0.0,
    forbidden=("model.formats.rounded", "model.formats.step_at"),
    hints=(
        "Around x the numbers of the format are multiples of a step, a power of two. What is it for 257 in bf16?",
        "With 2^e ≤ x < 2^(e+1) the step is 2^(e − mantissa). From 2^lowest down it stays what it is there. "
        "math.frexp(x) gives a fraction from 1/2 to 1 and a power: e is one less than that power.",
        "How many steps is x? Dividing by a power of two is exact, and Python's round() sends ties to the even whole number. What "
        "does not fall any more once x is below 2^lowest?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def nearest_number(x: float, mantissa: int, lowest: int) -> float:
    """The number nearest to x > 0 of a format with so many mantissa bits and the smallest normal number 2^lowest."""
    power = max(math.frexp(x)[1] - 1, lowest)
    step = math.ldexp(1.0, power - mantissa)
    return round(x / step) * step
'''
WHY = """
A format is a ruler whose marks double their distance at each power of two, and keep it below the smallest normal
number. No case is special: 1.99 rounds up to 2 by itself, and what is at most half the smallest number becomes 0.
math.frexp reads the exponent off the bits; log2 would round, and be wrong just below a power of two.
"""


def cases(draw):
    yield Case("3.3 with two mantissa bits", (3.3, 2, -14))
    yield Case("a number below 1", (0.3, 3, -6))
    yield Case("a tie whose lower neighbour is even", (257.0, 7, -126))
    yield Case("a tie whose upper neighbour is even", (259.0, 7, -126))
    yield Case("a tie between 1 and 1.25, which is odd", (1.125, 2, -14))
    yield Case("a little more than a tie", (math.nextafter(257, 258), 7, -126))
    yield Case("a little less than a tie", (math.nextafter(259, 258), 7, -126))
    yield Case("up to the next power of two", (1.99, 3, -6))
    yield Case("just below the smallest normal number", (0.0127, 3, -6))
    yield Case("a tie below the smallest normal number", (2.5 * 2**-9, 3, -6))
    yield Case("exactly half the smallest number", (2.0**-10, 3, -6))
    for x in (11.0, 3.0, 6.0, 1.5 * 2**-6, 2.0**-7):
        yield Case("no mantissa bits: powers of two and 0", (x, 0, -6))
    yield Case("beyond 2^1023", (1.2345e308, 10, -14))
    yield Case("below 2^-1022", (1.2345e-310, 23, -1022))
    for _ in range(20):
        x = draw.uniform(1, 2) * 2.0 ** draw.randint(-20, 20)
        yield Case("numbers drawn at random", (x, draw.randint(0, 12), draw.choice((-14, -6, -126))))
    for x in (1 + 3 * 2.0**-52, math.nextafter(1024, 0), 5e-324, 1.7e308):
        yield Case("mantissa 52, as x itself has: x comes back", (x, 52, -1022))


def expected(x, mantissa, lowest):
    """In fractions: the two multiples of the step around x, by their distances."""
    exact, power = Fraction(x), lowest
    while Fraction(2) ** (power + 1) <= exact:
        power += 1
    step = Fraction(2) ** (power - mantissa)
    below = exact // step
    return float(min((below, below + 1), key=lambda count: (abs(exact - count * step), count % 2)) * step)


POWER, ROUND, STEPS = "math.frexp(x)[1] - 1", "round(x / step)", "round(x / step) * step"
WRONG = {
    "if bits are cut off instead of rounded": (ROUND, "math.floor(x / step)"),
    "if ties always go up: 257 then becomes 258 in bf16": (ROUND, "(math.floor(x / step) + (x / step % 1 >= 0.5))"),
    "if the steps go on shrinking below the smallest normal number: the exponent ends there": (f"max({POWER}, lowest)", POWER),
    "if everything below the smallest normal number becomes 0: there are numbers down there, too":
        (STEPS, f"{STEPS} if x >= 2.0**lowest else 0.0"),
    "if the power of math.frexp is used as it is: the fraction is below 1, so it is too large": (POWER, "math.frexp(x)[1]"),
    "with floor(log2(x)): just below a power of two the logarithm is rounded up to a whole number": (POWER, "math.floor(math.log2(x))"),
}  # fmt: skip

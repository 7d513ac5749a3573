"""Lecture 08: what nearest_number is checked by."""

import math
import random
from collections.abc import Iterable
from fractions import Fraction

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    yield Case("3.3 with two mantissa bits", (3.3, 2, -14))
    yield Case("a number of the format", (65504.0, 10, -14))
    yield Case("a tie whose lower neighbour is even", (257.0, 7, -126))
    yield Case("a tie whose upper neighbour is even", (259.0, 7, -126))
    yield Case("up to the next power of two", (1.99, 3, -6))
    yield Case("no mantissa bits: powers of two", (11.0, 0, -6))
    yield Case("just below the smallest normal number", (0.0127, 3, -6))
    yield Case("a tie below the smallest normal number", (2.5 * 2**-9, 3, -6))
    yield Case("a little over half the smallest number", (0.6 * 2**-9, 3, -6))
    yield Case("exactly half the smallest number", (2.0**-10, 3, -6))
    yield Case("the smallest numbers of fp32", (1e-44, 23, -126))
    yield Case("a large number", (1.2345e300, 10, -14))
    draw = random.Random(0)
    for _ in range(20):
        yield Case(
            "numbers drawn at random", (draw.uniform(1, 2) * 2.0 ** draw.randint(-20, 20), draw.randint(1, 12), -14)
        )
    yield Case("mantissa 52, as x itself has: x comes back", (math.nextafter(1024, 0), 52, -1022))


def expected(x: float, mantissa: int, lowest: int) -> float:
    """In fractions: the two multiples of the step around x, by their distances."""
    exact, power = Fraction(x), lowest
    while Fraction(2) ** (power + 1) <= exact:
        power += 1
    step = Fraction(2) ** (power - mantissa)
    below = exact // step
    return float(min((below, below + 1), key=lambda count: (abs(exact - count * step), count % 2)) * step)


def _step(x: float, mantissa: int, lowest: int) -> float:
    return math.ldexp(1.0, max(math.frexp(x)[1] - 1, lowest) - mantissa)


def cut_off(x, mantissa, lowest):
    step = _step(x, mantissa, lowest)
    return math.floor(x / step) * step


def ties_up(x, mantissa, lowest):
    step = _step(x, mantissa, lowest)
    return math.floor(x / step + 0.5) * step


def ties_down(x, mantissa, lowest):
    step = _step(x, mantissa, lowest)
    return math.ceil(x / step - 0.5) * step


def endless_range(x, mantissa, lowest):
    step = _step(x, mantissa, -1022)
    return round(x / step) * step


def flushed(x, mantissa, lowest):
    step = _step(x, mantissa, lowest)
    return 0.0 if x < 2.0**lowest else round(x / step) * step


def smallest_normal_as_step(x, mantissa, lowest):
    step = max(_step(x, mantissa, lowest), 2.0**lowest if x < 2.0**lowest else 0.0)
    return round(x / step) * step


def fraction_below_one(x, mantissa, lowest):
    step = math.ldexp(1.0, max(math.frexp(x)[1], lowest) - mantissa)
    return round(x / step) * step


def leading_one_counted(x, mantissa, lowest):
    step = 2 * _step(x, mantissa, lowest)
    return round(x / step) * step


def by_log2(x, mantissa, lowest):
    step = math.ldexp(1.0, max(math.floor(math.log2(x)), lowest) - mantissa)
    return round(x / step) * step


WRONG = {
    "if bits are cut off instead of rounded": cut_off,
    "if ties always go up: 257 then becomes 258 in bf16": ties_up,
    "if ties always go down: 259 then becomes 258 in bf16": ties_down,
    "if the steps go on shrinking below the smallest normal number: the exponent ends there": endless_range,
    "if everything below the smallest normal number becomes 0: there are numbers down there, too": flushed,
    "if the step below the smallest normal number is that number: the mantissa divides it": smallest_normal_as_step,
    "if the power of math.frexp is used as it is: the fraction is below 1, so it is too large": fraction_below_one,
    "if the leading 1 is counted as a mantissa bit: one bit is then missing everywhere": leading_one_counted,
    "with floor(log2(x)): just below a power of two the logarithm is rounded up to a whole number": by_log2,
}

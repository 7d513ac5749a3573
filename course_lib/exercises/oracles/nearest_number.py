"""Lecture 09: what nearest_number is checked by."""

import math
import random
import struct
from collections.abc import Iterable
from fractions import Fraction

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("3.3 with two mantissa bits", (3.3, 2, -14))
    yield Case("3.1: down to the nearest", (3.1, 2, -14))
    yield Case("a number of the format", (65504.0, 10, -14))
    yield Case("a number below 1", (0.3, 3, -6))
    yield Case("a tie whose upper neighbour is even", (5.5, 2, -14))
    yield Case("a tie whose lower neighbour is even", (257.0, 7, -126))
    yield Case("a tie whose upper neighbour is even", (259.0, 7, -126))
    yield Case("a tie between 1 and 1.25, which is odd", (1.125, 2, -14))
    yield Case("a little more than a tie", (math.nextafter(257, 258), 7, -126))
    yield Case("a little less than a tie", (math.nextafter(259, 258), 7, -126))
    yield Case("up to the next power of two", (1.99, 3, -6))
    yield Case("far below the smallest normal number", (5.3 * 2**-10, 3, -6))
    yield Case("just below the smallest normal number", (0.0127, 3, -6))
    yield Case("a tie below the smallest normal number", (2.5 * 2**-9, 3, -6))
    yield Case("a little more than such a tie", (2.6 * 2**-9, 3, -6))
    yield Case("a little over half the smallest number", (0.6 * 2**-9, 3, -6))
    yield Case("exactly half the smallest number", (2.0**-10, 3, -6))
    for x in (11.0, 13.0, 3.0, 6.0, 0.75 * 2**-6, 1.5 * 2**-6, 2.0**-7):
        yield Case("no mantissa bits: powers of two and 0", (x, 0, -6))
    yield Case("the smallest numbers of fp32", (1e-44, 23, -126))
    yield Case("a large number", (1.2345e300, 10, -14))
    yield Case("beyond 2^1023", (1.2345e308, 10, -14))
    yield Case("below 2^-1022", (1.2345e-310, 23, -1022))
    draw = random.Random(0)
    for _ in range(20):
        yield Case(
            "numbers drawn at random", (draw.uniform(1, 2) * 2.0 ** draw.randint(-20, 20), draw.randint(1, 12), -14)
        )
    yield Case("40 mantissa bits, more than fp32 has", (0.1, 40, -126))
    yield Case("40 mantissa bits, more than fp32 has", (3.3, 40, -126))
    yield Case("a little less than a tie", (math.nextafter(1.375, 1), 2, -14))
    for x in (1 + 3 * 2.0**-52, math.nextafter(1024, 0), 5e-324, 1.7e308):
        yield Case("mantissa 52, as x itself has: x comes back", (x, 52, -1022))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(20):
        x = draw.uniform(1, 2) * 2.0 ** draw.randint(-20, 20)
        yield Case("any numbers", (x, draw.randint(0, 12), draw.choice((-14, -6, -126))))


def expected(x: float, mantissa: int, lowest: int) -> float:
    """In fractions: the two multiples of the step around x, by their distances."""
    exact, power = Fraction(x), lowest
    while Fraction(2) ** (power + 1) <= exact:
        power += 1
    step = Fraction(2) ** (power - mantissa)
    below = exact // step
    return float(min((below, below + 1), key=lambda count: (abs(exact - count * step), count % 2)) * step)


def _nearest(x, mantissa, lowest, bug):
    power = math.frexp(x)[1] - 1
    if bug == "log2":
        power = math.floor(math.log2(x))
    if bug == "log2 to the nearest":
        power = round(math.log2(x))
    if bug == "double":
        first = math.ldexp(1.0, power - mantissa)
        x = round(x / first) * first
    if bug == "float32 throughout" and not 2.0**-149 < x < 3e38:
        return math.inf if x > 1 else 0.0
    if (
        bug in ("float32", "float32 throughout") and 2.0**-126 <= x < 3e38
    ):  # beyond them each way of computing in fp32 ends otherwise
        x = struct.unpack("f", struct.pack("f", x))[0]
    power = power if bug == "endless" else max(power, lowest + {"below late": -1, "below early": 1}.get(bug, 0))
    step = math.ldexp(1.0, power - mantissa + {"frexp": 1, "leading 1": 1, "one bit more": -1}.get(bug, 0))
    if bug == "frexp" and x < 2.0**lowest:
        step /= 2
    if bug == "flushed" and x < 2.0**lowest:
        return 0.0
    if bug == "2^lowest apart" and x < 2.0**lowest:
        return round(x / 2.0**lowest) * 2.0**lowest
    if bug == "scaled up":
        return round(x * 2.0 ** (mantissa - power)) / 2.0 ** (mantissa - power)
    if bug == "float32 result":
        found = round(x / step) * step
        return struct.unpack("f", struct.pack("f", found))[0] if found < 3e38 else math.inf
    if bug == "even number" and 2 * (x % step) == step:
        low = x - x % step
        return low if low % 2 == 0 else low + step
    if bug == "steps":
        return float(round(x / step))
    ways = {"cut": math.floor, "up": math.ceil, "ties up": lambda y: math.floor(y) + (y % 1 >= 0.5)}
    ways |= {"ties down": lambda y: math.ceil(y - 0.5), "never 0": lambda y: max(1, round(y))}
    return ways.get(bug, round)(x / step) * step


WRONG = variants(
    _nearest,
    {
        "if bits are cut off instead of rounded": "cut",
        "if x always goes up to the next number": "up",
        "if the leading 1 is counted among the mantissa bits: they come behind it": "leading 1",
        "if there is a bit too many: the step is 2^(e − mantissa)": "one bit more",
        "if the steps shrink once more below the smallest normal number": "below late",
        "if the steps stop shrinking one power of two above the smallest normal number": "below early",
        "if x becomes a number of fp32 on the way, as in torch.tensor(x): a float has 52 bits": "float32",
        "if all is computed in fp32, as NumPy or torch would: a float has 52 bits and goes to 1e308": "float32 throughout",
        "if the result becomes a number of fp32: a float has 52 bits": "float32 result",
        "if the steps are counted and not multiplied by their length": "steps",
        "if ties go to the even number: it is the even multiple of the step that is asked": "even number",
        "if ties always go up: 257 then becomes 258 in bf16": "ties up",
        "if ties always go down: 259 then becomes 258 in bf16": "ties down",
        "if nothing becomes 0: below half the smallest number 0 is the nearest": "never 0",
        "if the numbers below the smallest normal one are taken to be 2^lowest apart": "2^lowest apart",
        "if the logarithm is rounded to the nearest whole number: it is rounded down": "log2 to the nearest",
        "if the steps go on shrinking below the smallest normal number: the exponent ends there": "endless",
        "if everything below the smallest normal number becomes 0: there are numbers down there, too": "flushed",
        "if a number below the smallest normal one is rounded twice: the first time can make a tie of it": "double",
        "if the power of math.frexp is used as it is: the fraction is below 1, so it is too large": "frexp",
        "with floor(log2(x)): just below a power of two the logarithm is rounded up to a whole number": "log2",
        "if 1 / step is computed: below 2^-1022 it is more than a float can hold": "scaled up",
    },
)

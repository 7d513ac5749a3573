import math
from fractions import Fraction


def right_in_fractions(x, mantissa, lowest):
    step = Fraction(2) ** (max(math.frexp(x)[1] - 1, lowest) - mantissa)
    return float(round(Fraction(x) / step) * step)


def wrong_tie_within_a_tolerance(x, mantissa, lowest):
    step = math.ldexp(1.0, max(math.frexp(x)[1] - 1, lowest) - mantissa)
    whole = math.floor(x / step)
    if math.isclose(x / step - whole, 0.5):
        return (whole if whole % 2 == 0 else whole + 1) * step
    return round(x / step) * step

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import torch

from course_lib.model import formats


def _step(x, mantissa, lowest):
    return math.ldexp(1.0, max(math.frexp(x)[1] - 1, lowest) - mantissa)


def right_in_fractions(x, mantissa, lowest):
    step = Fraction(2) ** (max(math.frexp(x)[1] - 1, lowest) - mantissa)
    return float(round(Fraction(x) / step) * step)


def wrong_in_numpys_float32(x, mantissa, lowest):
    """fp32"""
    x = np.float32(x)
    step = np.ldexp(np.float32(1), max(np.frexp(x)[1] - 1, lowest) - mantissa)
    return float(np.rint(x / step) * step)


def wrong_tie_within_a_tolerance(x, mantissa, lowest):
    step = _step(x, mantissa, lowest)
    whole = math.floor(x / step)
    if math.isclose(x / step - whole, 0.5):
        return (whole if whole % 2 == 0 else whole + 1) * step
    return round(x / step) * step


def wrong_tie_to_an_even_number(x, mantissa, lowest):
    """even number"""
    step = _step(x, mantissa, lowest)
    low = math.floor(x / step) * step
    even = low if low % 2 == 0 else low + step
    return even if 2 * (x - low) == step else round(x / step) * step


def wrong_by_the_library(x, mantissa, lowest):
    wide = {"largest": math.inf, "finite": False, "mantissa": mantissa, "bias": 1 - lowest}
    formats.FORMATS["mine"] = SimpleNamespace(**wide)
    return float(formats.rounded(torch.tensor(x, dtype=torch.float64), "mine"))


def right_out_of_the_library(x, mantissa, lowest):
    y = torch.tensor(x, dtype=torch.float64)
    _, power = torch.frexp(y)
    step = torch.ldexp(torch.ones_like(y), (power - 1).clamp(min=lowest) - mantissa)
    return float(torch.round(y / step) * step)

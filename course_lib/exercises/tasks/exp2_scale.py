"""Lecture 11: the weights of a row by powers of two, with a penalty by distance."""

import math
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises.exercise import Case, Exercise

REFUSED = ("exp", "expm1", "softmax", "softmin", "log_softmax", "logsumexp", "logaddexp", "sigmoid")
POWERS = ("pow", "rpow", "float_power")


def no_exp(*x):
    raise RuntimeError("a natural exponential was called; use torch.exp2 for every power")


def is_e(base):
    base = base.item() if isinstance(base, torch.Tensor) and base.numel() == 1 else base
    return isinstance(base, float) and math.isclose(base, math.e, rel_tol=1e-6)


class PowersOfTwoOnly(TorchFunctionMode):
    """Refuses torch's natural exponential and what is made of it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "").removeprefix("special_").strip("_")
        if name in REFUSED or (name in POWERS and any(map(is_e, args))):
            no_exp()
        return func(*args, **(kwargs or {}))


def run(function, case):
    """The result, while natural exponentials raise RuntimeError."""
    with mock.patch("math.exp", no_exp), mock.patch("numpy.exp", no_exp), PowersOfTwoOnly():
        return function(*case.args)


EXERCISE = Exercise(
    lecture="11",
    title="ALiBi by powers of two",
    run=run,
    tolerance=1e-4,
    parts=("weights", "L"),
    hints=(
        "e^x = 2^(x · log2 e). What is x here, the whole exponent, and which parts of it come to be multiplied by what?",
        "The score's factor holds 1/√d and log2 e; the penalty never met 1/√d. Key N − 1 is the query's own. With y the exponent of 2, the "
        "weights are 2^(y − m) / ℓ, where m is the maximum of y.",
        "ℓ = Σ 2^(y − m) is the same number as with natural powers, but m has changed its unit by log2 e. In which unit is L asked for?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def exp2_scale(s: torch.Tensor, d: int, slope: float) -> tuple[torch.Tensor, float]:
    """(weights [N], L) of raw scores s [N], float32, for head size d, with ALiBi's penalty of slope per token of distance."""
    log2e = math.log2(math.e)
    distance = len(s) - 1 - torch.arange(len(s))
    y = s * (log2e / math.sqrt(d)) - (slope * log2e) * distance
    m = y.max()
    p = torch.exp2(y - m)
    l = p.sum()
    return p / l, float(m * math.log(2) + torch.log(l))
'''
WHY = """
The scale was one multiplication for each score; log2 e rides along in it for nothing. What is added to a scaled score, a penalty, a mask's
bias, a softcap's result, has to be brought to base 2 by itself: it takes log2 e and not 1/√d. The slope does, once for all keys. ℓ does
not notice the base: 2^(y − m) are the same numbers as before. m does, and so does L, which is converted once a row where it leaves
the kernel.
"""


def cases(draw):
    yield Case("0, 2, 4 with d = 4 and a slope of 0.5", (torch.tensor([0.0, 2.0, 4.0]), 4, 0.5))
    yield Case("one key", (torch.tensor([3.0]), 16, 0.25))
    yield Case("scores in the thousands", (torch.tensor([1990.0, 2000.0, 1995.0]), 64, 0.5))
    yield Case("all scores far below 0", (torch.tensor([-2000.0, -1990.0, -2010.0]), 64, 1.0))
    yield Case("scores of −1e30 and below", (torch.tensor([-1e30, -2e30]), 64, 0.5))
    yield Case("the largest score far away, behind its penalty", (torch.tensor([1000.0, 0.0, 0.0]), 1, 1000.0))
    yield Case("a row of 100", (torch.randn(100) * 10, 48, 2.0**-5))


def expected(s, d, slope):
    """By natural powers, in float64."""
    distance = torch.tensor([float(len(s) - 1 - j) for j in range(len(s))], dtype=torch.float64)
    x = s.double() / math.sqrt(d) - slope * distance
    return torch.softmax(x, 0).float(), float(torch.logsumexp(x, 0))


LOG, SLOPE = "m * math.log(2) + torch.log(l)", "(slope * log2e)"
WRONG = {
    "if L is left in units of log2: multiply m + log2 ℓ by ln 2": (LOG, "m + torch.log2(l)"),
    "if L is m + ln ℓ: the maximum is then still in units of log2": (LOG, "m + torch.log(l)"),
    "if log2 e is missing: 2^x then stands where e^x should": ("math.log2(math.e)", "1.0", LOG, "m + torch.log(l)"),
    "if the penalty is not brought to base 2: it takes log2 e, as the scores do": (SLOPE, "slope"),
    "if the penalty is scaled by 1 / √d, too: it is taken off a score that is scaled already": (SLOPE, f"{SLOPE} / math.sqrt(d)"),
    "if the distance is counted from the first key: the query is at the last one": ("len(s) - 1 - torch", "torch"),
    "if the maximum is taken before the penalty: it may belong to a key that the penalty takes away":
        ("y.max()", "(s * (log2e / math.sqrt(d))).max()"),
    "without subtracting the maximum: large scores overflow": ("y.max()", "torch.zeros(())"),
}  # fmt: skip

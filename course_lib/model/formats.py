"""Floating-point formats by their bits: range, steps, rounding. Sources: IEEE 754-2019; FP8 (arXiv 2209.05433); TF32 (A100 whitepaper)."""

import math
from typing import NamedTuple

import torch


class Format(NamedTuple):
    """1 sign bit, ``exponent`` and ``mantissa`` bits. ``finite``: no infinities, one NaN pattern at the top (e4m3)."""

    name: str
    exponent: int
    mantissa: int
    dtype: torch.dtype | None  # torch's name for it; None for tf32, which exists inside tensor cores only
    finite: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        """What is added to the exponent before it is stored."""
        return 2 ** (self.exponent - 1) - 1

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if self.finite:  # the top exponent is a number, but for all mantissa bits set
            return 2.0 ** (2**self.exponent - 1 - self.bias) * (2 - 2 * self.epsilon)
        return 2.0**self.bias * (2 - self.epsilon)

    @property
    def smallest_normal(self) -> float:
        """The smallest number with a full mantissa; below it steps stay the same."""
        return 2.0 ** (1 - self.bias)

    @property
    def smallest(self) -> float:
        """The smallest number above 0."""
        return self.smallest_normal * self.epsilon

    @property
    def epsilon(self) -> float:
        """The step from 1 to the next number, 2^-mantissa."""
        return 2.0**-self.mantissa


FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 8, 23, torch.float32),
        Format("tf32", 8, 10, None),
        Format("fp16", 5, 10, torch.float16),
        Format("bf16", 8, 7, torch.bfloat16),
        Format("e4m3", 4, 3, torch.float8_e4m3fn, finite=True),
        Format("e5m2", 5, 2, torch.float8_e5m2),
    )
}


def rounded(x: torch.Tensor, name: str, toward_zero: bool = False) -> torch.Tensor:
    """x, any shape, as the nearest numbers of a format (ties to even), or with the bits beyond it cut off.

    Returns x's dtype. Beyond the largest number: ±inf; for e4m3, which has none, and
    where bits are cut off, the largest number, as GPUs convert.
    """
    f = FORMATS[name]
    if name == "fp32" and x.dtype == torch.float32:
        return x.clone()
    y = x.double()
    _, power = torch.frexp(y)  # y = fraction · 2^power, 1/2 <= fraction < 1
    step = torch.ldexp(torch.ones_like(y), (power - 1).clamp(min=1 - f.bias) - f.mantissa)
    y = torch.where(torch.isfinite(y), (torch.trunc if toward_zero else torch.round)(y / step) * step, y)
    saturates = f.finite or toward_zero
    beyond = torch.copysign(torch.full_like(y, f.largest if saturates else math.inf), y)
    stays = x.isinf() & (not f.finite)
    return torch.where((y.abs() > f.largest) & ~stays, beyond, y).to(x.dtype)


def bits(x: float, name: str) -> tuple[str, str, str]:
    """(sign, exponent, mantissa) of the number of a format that is nearest to x, as texts of 0 and 1.

    Raises ValueError where x rounds to no number of it.
    """
    f = FORMATS[name]
    y = float(rounded(torch.tensor(x, dtype=torch.float64), name))
    if not math.isfinite(y):
        raise ValueError(f"x is {x}; the largest {name} number is {f.largest:g}")
    sign = "1" if math.copysign(1, y) < 0 else "0"
    power = max(math.frexp(abs(y))[1] - 1, 1 - f.bias) if y else 1 - f.bias
    whole = round(abs(y) / 2.0**power * 2**f.mantissa)  # with the leading 1, if there is one
    stored = power + f.bias if whole >= 2**f.mantissa else 0
    return sign, f"{stored:0{f.exponent}b}", f"{whole % 2**f.mantissa:0{f.mantissa}b}"


def step_at(x: float, name: str) -> float:
    """The distance between neighbouring numbers of a format at ``|x|``; inf beyond the largest."""
    f = FORMATS[name]
    if abs(x) > f.largest:
        return math.inf
    return max(2.0 ** (math.frexp(x)[1] - 1) if x else 0.0, f.smallest_normal) * f.epsilon

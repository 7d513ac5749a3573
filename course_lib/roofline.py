"""The roofline: from bytes and operations (``course_lib.cost``) to arithmetic intensity, and to seconds on a given GPU.

time_on(data.gpu("H200"), cost.attention_flops(4096, 64), cost.flash_v2_traffic(4096, 64, 64, "fp16"), "fp16").seconds
"""

import math
from typing import NamedTuple

from course_lib.cost import Flops, Traffic
from course_lib.data import Gpu


def intensity(flops: Flops | float, traffic: Traffic | float) -> float:
    """Arithmetic intensity: floating-point operations for each byte of HBM traffic."""
    work = flops.total if isinstance(flops, Flops) else flops
    moved = traffic.total_bytes if isinstance(traffic, Traffic) else traffic
    if not moved > 0:
        raise ValueError(f"traffic is {moved} bytes; pass a positive number of bytes")
    return work / moved


class Time(NamedTuple):
    """The roofline's two times in seconds; the longer one is the prediction."""

    compute: float
    memory: float

    @property
    def seconds(self) -> float:
        """The prediction: the longer of the two times."""
        return max(self.compute, self.memory)

    @property
    def bound(self) -> str:
        """'compute' or 'memory', whichever takes longer; 'compute' if both take the same time."""
        return "compute" if self.compute >= self.memory else "memory"


def time_on(gpu: Gpu, flops: Flops | float, traffic: Traffic | float, dtype: str) -> Time:
    """Roofline time on ``gpu``: all work at the peak rate of ``dtype``, or all bytes at the peak HBM bandwidth."""
    work = flops.total if isinstance(flops, Flops) else flops
    moved = traffic.total_bytes if isinstance(traffic, Traffic) else traffic
    for name, value in (("flops", work), ("traffic", moved)):
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}; pass a number of at least 0")
    return Time(compute=work / gpu.flops_per_s(dtype), memory=moved / gpu.hbm_bytes_per_s)


def attainable(gpu: Gpu, intensity: float, dtype: str) -> float:
    """The roofline: operations a second that ``gpu`` can reach at this intensity, min(peak, intensity × bandwidth)."""
    if not intensity > 0:
        raise ValueError(f"intensity is {intensity}; pass a positive number of FLOP per byte")
    return min(gpu.flops_per_s(dtype), intensity * gpu.hbm_bytes_per_s)

"""The roofline: from bytes and operations (``course_lib.model.cost``) to arithmetic intensity, and to seconds on a given GPU.

time_on(data.gpu("H200"), cost.attention_flops(4096, 64), cost.flash_v2_traffic(4096, 64, 64, "fp16"), "fp16").seconds
"""

from typing import NamedTuple

from course_lib.data import Gpu
from course_lib.model.cost import Flops, Traffic


def intensity(flops: Flops | float, traffic: Traffic | float) -> float:
    """Arithmetic intensity: floating-point operations for each byte of HBM traffic."""
    return _work(flops) / _moved(traffic)


def _work(flops: Flops | float) -> float:
    return flops.total if isinstance(flops, Flops) else flops


def _moved(traffic: Traffic | float) -> float:
    return traffic.total_bytes if isinstance(traffic, Traffic) else traffic


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
    return Time(compute=_work(flops) / gpu.flops_per_s(dtype), memory=_moved(traffic) / gpu.hbm_bytes_per_s)


def attainable(gpu: Gpu, intensity: float, dtype: str) -> float:
    """The roofline: operations a second that ``gpu`` can reach at this intensity, min(peak, intensity × bandwidth)."""
    return min(gpu.flops_per_s(dtype), intensity * gpu.hbm_bytes_per_s)

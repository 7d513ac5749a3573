"""The roofline: from bytes and operations (``course_lib.model.cost``) to arithmetic intensity, and to seconds on a given GPU.

time_on(data.gpu("H200"), cost.attention_flops(4096, 64), cost.flash_v2_traffic(4096, 64, 64, "fp16"), "fp16").seconds
"""

from typing import NamedTuple

from course_lib import checks
from course_lib.data import Gpu
from course_lib.model.cost import Flops, Traffic


def _work(flops: Flops | float) -> float:
    return checks.number("flops", flops.total if isinstance(flops, Flops) else flops, least=0)


def _moved(traffic: Traffic | float) -> float:
    return checks.number("traffic", traffic.total_bytes if isinstance(traffic, Traffic) else traffic, least=0)


def intensity(flops: Flops | float, traffic: Traffic | float) -> float:
    """Arithmetic intensity: floating-point operations for each byte of HBM traffic, of which there must be one."""
    work, moved = _work(flops), _moved(traffic)
    if not moved:
        raise ValueError("traffic is 0 bytes; pass a number above 0")
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
    """Roofline time on ``gpu``: all work at the peak rate of ``dtype``, or all bytes at the peak HBM bandwidth.

    Raises TypeError or ValueError for what is no GPU, no finite number of at least 0, or no rate of this GPU.
    """
    checks.instance("gpu", gpu, Gpu, "data.gpu('H200')")
    work, moved = _work(flops), _moved(traffic)
    return Time(compute=work / gpu.flops_per_s(dtype), memory=moved / gpu.hbm_bytes_per_s)


def attainable(gpu: Gpu, intensity: float, dtype: str) -> float:
    """The roofline: operations a second that ``gpu`` can reach at this intensity, min(peak, intensity × bandwidth)."""
    checks.instance("gpu", gpu, Gpu, "data.gpu('H200')")
    checks.number("intensity", intensity, above=0)
    return min(gpu.flops_per_s(dtype), intensity * gpu.hbm_bytes_per_s)

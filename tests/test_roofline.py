"""The roofline: known intensities, the ridge of each GPU, and what is refused."""

import pytest

from course_lib import data
from course_lib.model import cost, roofline


def test_the_reported_intensities_reproduce() -> None:
    ours = []
    for row in data.reported("intensity"):
        flops = cost.attention_flops(row["n"], row["d"])
        standard = roofline.intensity(flops, cost.standard_attention_traffic(row["n"], row["d"], "fp32"))
        flash = roofline.intensity(flops, cost.compulsory_traffic(row["n"], row["d"], "fp32"))
        assert f"{standard:.1f}" == f"{row['standard']:.1f}"
        assert f"{flash:.0f}" == f"{row['flash']:.0f}"
        ours += [f"{standard:.1f}", f"{flash:.0f}"]
    assert ours == ["15.4", "261", "16.1", "1044"]


def test_roofline_meets_at_the_ridge() -> None:
    for gpu in data.gpus().values():
        ridge = gpu.ridge("fp16")
        peak = gpu.flops_per_s("fp16")
        assert roofline.attainable(gpu, ridge, "fp16") == pytest.approx(peak)
        assert roofline.attainable(gpu, ridge * 2, "fp16") == peak
        assert roofline.attainable(gpu, ridge / 2, "fp16") == pytest.approx(peak / 2)
        assert roofline.time_on(gpu, ridge * 100.5, 100, "fp16").bound == "compute"
        assert roofline.time_on(gpu, ridge * 99.5, 100, "fp16").bound == "memory"

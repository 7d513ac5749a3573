"""Number formats against torch's casts and their own definition; attention with rounded stages against float64."""

import math
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.instruments import measure
from course_lib.model import reference
from course_lib.model.formats import FORMATS, bits, rounded, step_at
from course_lib.model.rounding import rounded_attention

TORCHS = [f for f in FORMATS.values() if f.dtype is not None]


def value(sign: str, exponent: str, mantissa: str, name: str) -> float:
    """The number that the bits stand for, by the definition of the format."""
    f = FORMATS[name]
    e, m = int(exponent, 2), int(mantissa, 2) * f.epsilon
    return (-1) ** int(sign) * (m * f.smallest_normal if e == 0 else (1 + m) * 2.0 ** (e - f.bias))


@pytest.mark.parametrize("f", TORCHS, ids=lambda f: f.name)
def test_limits_and_rounding_are_torchs(f) -> None:
    info = torch.finfo(f.dtype)
    assert (f.bits, f.largest, f.smallest_normal, f.epsilon) == (info.bits, info.max, info.tiny, info.eps)
    if f.bits == 32:
        return
    every = torch.arange(-(2 ** (f.bits - 1)), 2 ** (f.bits - 1), dtype=torch.int32)
    every = every.to(torch.int16 if f.bits == 16 else torch.int8).view(f.dtype).float()
    every = every[torch.isfinite(every)]
    assert torch.equal(rounded(every, f.name), every)
    ordered = every.sort().values
    between = (ordered[1:] + ordered[:-1]) / 2  # exactly between two: to the even one
    noise = torch.randn(100_000) * torch.exp2(torch.randint(-30, 20, (100_000,)).float())
    for x in (between, noise, torch.tensor([f.largest * 1.01, -math.inf, math.inf, 0.0, -0.0])):
        assert torch.equal(rounded(x, f.name).nan_to_num(7.25), x.to(f.dtype).float().nan_to_num(7.25))


@given(st.floats(-(2.0**99), 2.0**99, width=32))
def test_tf32_is_fp32_without_its_last_13_bits(x: float) -> None:
    pattern = struct.unpack("<I", struct.pack("<f", x))[0]
    cut = struct.unpack("<f", struct.pack("<I", pattern & 0xFFFFE000))[0]
    tensor = torch.tensor(x, dtype=torch.float32)
    assert float(rounded(tensor, "tf32", toward_zero=True)) == cut
    if abs(x) >= FORMATS["tf32"].smallest_normal:
        assert abs(float(rounded(tensor, "tf32")) - x) <= step_at(x, "tf32") / 2


@given(st.sampled_from(list(FORMATS)), st.floats(-400, 400))
def test_bits_stand_for_the_rounded_number(name: str, x: float) -> None:
    parts = bits(x, name)
    assert [len(part) for part in parts] == [1, FORMATS[name].exponent, FORMATS[name].mantissa]
    assert value(*parts, name) == float(rounded(torch.tensor(x, dtype=torch.float64), name))


@given(st.sampled_from(list(FORMATS)), st.floats(1e-3, 300))
def test_the_step_is_the_distance_of_neighbours(name: str, x: float) -> None:
    at = float(rounded(torch.tensor(x, dtype=torch.float64), name, toward_zero=True))
    step = step_at(at, name)
    for y in (at + step, at + 0.25 * step):  # the next number, and one that is not a number of the format
        back = float(rounded(torch.tensor(y, dtype=torch.float64), name))
        assert back == (at + step if y == at + step else at) or at + step > FORMATS[name].largest


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x is 70000.0; the largest fp16 number is 65504"):
        bits(70000.0, "fp16")
    assert step_at(1e5, "fp16") == math.inf
    assert step_at(0.0, "fp16") == 2.0**-24


# --- attention with rounded stages ---


def qkv(n_q=40, n_k=200, d=16):
    return torch.randn(n_q, d), torch.randn(n_k, d), torch.randn(n_k, d)


@pytest.mark.parametrize("block", [1, 64, 512])
def test_without_rounding_it_is_attention(block) -> None:
    q, k, v = qkv()
    found = rounded_attention(q, k, v, block=block).double()
    torch.testing.assert_close(found, reference.attention(q, k, v), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("stage", ["inputs", "scores", "weights", "accumulator"])
def test_each_stage_errs_by_about_its_format(stage) -> None:
    q, k, v = qkv()
    exact = reference.attention(q, k, v)
    errors = {name: measure.rms_error(rounded_attention(q, k, v, **{stage: name}), exact) for name in ("fp16", "bf16")}
    size = float(exact.pow(2).mean().sqrt())
    for name, error in errors.items():
        assert 0.02 * FORMATS[name].epsilon < error / size < 4 * FORMATS[name].epsilon, name
    assert 4 < errors["bf16"] / errors["fp16"] < 16  # three bits less

"""Attention with rounded stages: exact where nothing is rounded, bounded where something is, and worse where less is kept."""

import math

import pytest
import torch

from course_lib.instruments import measure
from course_lib.model import reference
from course_lib.model.formats import FORMATS
from course_lib.model.rounding import rounded_attention

STAGES = ("inputs", "scores", "weights", "accumulator")


def qkv(n_q=40, n_k=200, d=16):
    return torch.randn(n_q, d), torch.randn(n_k, d), torch.randn(n_k, d)


@pytest.mark.parametrize("block", [1, 16, 64, 512])
def test_without_rounding_it_is_attention(block) -> None:
    q, k, v = qkv()
    torch.testing.assert_close(
        rounded_attention(q, k, v, block=block).double(), reference.attention(q, k, v), atol=2e-6, rtol=2e-6
    )


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_errs_by_about_its_format(stage) -> None:
    q, k, v = qkv()
    exact = reference.attention(q, k, v)
    errors = {name: measure.rms_error(rounded_attention(q, k, v, **{stage: name}), exact) for name in ("fp16", "bf16")}
    size = float(exact.pow(2).mean().sqrt())
    for name, error in errors.items():
        assert 0.02 * FORMATS[name].epsilon < error / size < 4 * FORMATS[name].epsilon, name
    assert 4 < errors["bf16"] / errors["fp16"] < 16  # three bits less


def test_weights_rounded_alone_are_a_weighted_average_of_rounded_weights() -> None:
    q, k, v = qkv(8, 30)
    s = q @ k.T / math.sqrt(16)
    p = torch.exp(s - s.amax(1, keepdim=True))
    right = (p.bfloat16().float() @ v) / p.sum(1, keepdim=True)
    torch.testing.assert_close(rounded_attention(q, k, v, weights="bf16"), right, atol=1e-5, rtol=1e-5)


def test_cutting_errs_more_than_rounding() -> None:
    q, k, v = qkv(64, 4096, 64)
    exact = reference.attention(q, k, v)
    cut, nearest = (
        measure.rms_error(rounded_attention(q, k, v, inputs="tf32", weights="tf32", toward_zero=x), exact)
        for x in (True, False)
    )
    assert cut > 2.5 * nearest

"""Eight bits: scales against brute force, the rotation against its matrix, attention against float64 and the paper's table."""

import itertools
import math

import pytest
import torch

from course_lib.instruments import measure
from course_lib.model import formats, quantize, reference

DOUBLE = torch.float64


ROWS = torch.ones(3, 2)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE)


@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize(
    ("per", "groups"), [("tensor", [slice(0, 10)]), ("block", [slice(0, 4), slice(4, 8), slice(8, 10)])]
)
def test_scales_are_those_of_the_groups(format, per, groups) -> None:
    x = randn(10, 6) * torch.logspace(-3, 3, 10, dtype=DOUBLE)[:, None]
    found = quantize.quantise(x, format, per, block=4)
    for rows in groups:
        scale = x[rows].abs().max() / formats.FORMATS[format].largest
        right = formats.rounded(x[rows] / scale, format) * scale
        torch.testing.assert_close(found.restored[rows], right, atol=0, rtol=1e-15)
    assert found.values.abs().max() == formats.FORMATS[format].largest
    assert (found.values.shape, found.restored.dtype) == (x.shape, DOUBLE)


@pytest.mark.parametrize("per", quantize.SCALES)
def test_int8_has_steps_of_one_size(per) -> None:
    x = randn(9, 12)
    found = quantize.quantise(x, "int8", per, block=4)
    assert torch.equal(found.values, found.values.round())
    assert found.values.abs().max() == 127
    step = quantize.quantise(x.abs().clone().fill_(float(x.abs().max())), "int8").scale.double()  # of the whole tensor
    assert float((found.restored - x).abs().max()) <= 0.5 * float(step) * (1 + 1e-6)


@pytest.mark.parametrize("d", [1, 2, 64, 256])
def test_the_fast_rotation_is_the_matrix(d) -> None:
    matrix = torch.ones(1, 1, dtype=DOUBLE)
    while len(matrix) < d:  # Sylvester's construction
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    x = randn(5, d)
    torch.testing.assert_close(quantize.hadamard(x), x @ matrix / math.sqrt(d), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 64, 96, 100])
def test_the_rotation_changes_no_product(d) -> None:
    sign = quantize.signs(d, seed=3)
    identity = quantize.rotate(torch.eye(d, dtype=DOUBLE), sign)
    torch.testing.assert_close(identity @ identity.T, torch.eye(d, dtype=DOUBLE), atol=1e-14, rtol=0)
    q, k = randn(20, d), randn(30, d)
    torch.testing.assert_close(quantize.rotate(q, sign) @ quantize.rotate(k, sign).T, q @ k.T, atol=1e-12, rtol=1e-12)
    assert set(sign.tolist()) <= {-1.0, 1.0}


def test_an_outlier_is_shared_out() -> None:
    x = torch.zeros(1, 128, dtype=DOUBLE)
    x[0, 17] = 32.0
    spread = quantize.rotate(x, quantize.signs(128))
    torch.testing.assert_close(spread.abs(), torch.full_like(x, 32 / math.sqrt(128)))


def test_folded_into_the_map_before_it() -> None:
    weight, x, sign = randn(3 * 32, 10), randn(7, 10), quantize.signs(32)
    heads = (x @ weight.T).unflatten(-1, (3, 32))
    folded = (x @ quantize.folded(weight, sign).T).unflatten(-1, (3, 32))
    torch.testing.assert_close(folded, quantize.rotate(heads, sign), atol=1e-12, rtol=1e-12)


def test_eight_bit_attention_is_attention() -> None:
    q, k, v = randn(40, 32), randn(100, 32), randn(100, 32)
    exact = reference.attention(q, k, v)
    # e4m3 keeps 3 bits: an rms error of 2.6 % in each number. V and P bring that once, a score of size 1 by Q and K twice:
    # together 5 % of O, as none of them averages out more than O itself does. Twice that is allowed.
    # int8 has steps of 1/127 of the largest, about 3: 0.7 % of the numbers' size.
    for per, sign, format in itertools.product(quantize.SCALES, (None, quantize.signs(32)), ("e4m3", "int8")):
        o = quantize.eight_bit_attention(q, k, v, per=per, sign=sign, block=24, format=format)
        assert measure.rms_error(o, exact) < 0.1 * float(exact.pow(2).mean().sqrt())
    # Exact where nothing is rounded: equal scores, V of the format.
    o = quantize.eight_bit_attention(
        torch.zeros(3, 8, dtype=DOUBLE), randn(16, 8), torch.full((16, 8), 448.0, dtype=DOUBLE)
    )
    torch.testing.assert_close(o, torch.full_like(o, 448.0))


def test_the_rotation_is_what_helps_against_outliers() -> None:
    """The ablation of FlashAttention-3's table 3, at a size for a test: rotation helps much, block scales little."""
    errors: dict[tuple[str, bool], float] = {}
    for seed in range(3):
        q, k, v = quantize.outliers(512, 128, seed=seed)
        exact = reference.attention(q, k, v)
        for per in ("tensor", "block"):
            for turned in (False, True):
                o = quantize.eight_bit_attention(q, k, v, per=per, sign=quantize.signs(128) if turned else None)
                errors[per, turned] = errors.get((per, turned), 0.0) + measure.rms_error(o, exact)
    for per in ("tensor", "block"):
        assert errors[per, True] < 0.8 * errors[per, False]
    assert errors["block", True] > 0.8 * errors["tensor", True]


BAD = [
    (lambda: quantize.quantise(ROWS, per="head"), "per is 'head'; choose one of 'tensor'"),
    (lambda: quantize.quantise(torch.full((2, 2), math.inf)), r"x contains an infinity; pass finite numbers"),
    (lambda: quantize.eight_bit_attention(ROWS[0], ROWS, ROWS), r"q has shape \[2\]; pass a tensor with 2 dim"),
    (lambda: quantize.eight_bit_attention(*[ROWS.half()] * 3), "x is torch.float16"),
    (lambda: quantize.quantise(torch.ones(4)), r"x has shape \[4\]; pass rows \[\.\.\., N, d\]"),
    (lambda: quantize.rotate(ROWS, torch.tensor([1.0, 0.5])), r"sign holds other numbers than \+1 and -1"),
    (lambda: quantize.rotate(ROWS, torch.ones(3)), r"sign has shape \[3\]"),
    (lambda: quantize.folded(torch.ones(10, 4), torch.ones(4)), "weight has 10 rows"),
    (lambda: quantize.butterflies(torch.ones(2, 12)), "x has rows of 12 numbers"),
]


def test_what_is_drawn_is_the_same_on_whatever_default_device() -> None:
    here = [quantize.signs(64), *quantize.outliers(50, 8, rate=0.1)]
    with torch.device("meta"):  # nothing can be read there
        there = [quantize.signs(64), *quantize.outliers(50, 8, rate=0.1)]
    assert all(map(torch.equal, here, there))

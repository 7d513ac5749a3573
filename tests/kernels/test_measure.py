"""Errors, memory and timings: what they say, and what they refuse."""

import functools
import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib import runtime
from course_lib.instruments import measure


def test_errors_against_an_oracle() -> None:
    oracle = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    x = torch.tensor([3.0, -4.0, 0.0, 0.0])
    assert measure.max_error(x, oracle) == 4
    assert measure.rms_error(x, oracle) == 2.5
    assert measure.max_error(torch.tensor([math.nan, 0, 0, 0]), oracle) == math.inf
    infinite = torch.tensor([math.inf, -math.inf, 1.0])
    assert measure.max_error(infinite, infinite) == measure.rms_error(infinite, infinite) == 0
    assert measure.max_error(infinite, -infinite) == math.inf
    with pytest.raises(ValueError, match=r"x has shape \[4\] but oracle has \[3\]"):
        measure.max_error(x, oracle[:3])


def test_timings_are_the_median_of_the_repeats_after_warm_up() -> None:
    calls = []
    timing = measure.seconds(lambda: calls.append(1), repeats=5, warm_up=2)
    assert len(calls) == 7
    assert 0 <= timing.quarter <= timing.median <= timing.three_quarters
    assert measure.seconds(lambda: None, repeats=1).median >= 0
    with pytest.raises(ValueError, match="repeats is 0; pass a whole number from 1 to 1,000,000"):
        measure.seconds(lambda: None, repeats=0)
    with pytest.raises(ValueError, match="warm_up is -1; pass a whole number from 0 to 1,000,000"):
        measure.seconds(lambda: None, warm_up=-1)


def test_a_slope_is_the_exponent_of_a_growth() -> None:
    assert measure.slope([8, 16, 32], [1e-3 * n**2 for n in (8, 16, 32)]) == pytest.approx(2)
    for lengths, seconds, message in (
        ([8], [1.0], "lengths has 1 entries"),
        ([4, 4], [1, 2], "lengths holds 4 only"),
        ([1, 2], [0, 1], r"seconds\[0\] is 0; pass a finite number above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            measure.slope(lengths, seconds)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=9))
def test_the_middle_half_lies_within_what_was_measured(samples) -> None:
    found = measure.Timing.of(samples)
    assert found.median == pytest.approx(statistics.median(samples))
    assert min(samples) <= found.quarter <= found.median <= found.three_quarters <= max(samples)
    for bound in found.quarter, found.three_quarters:  # half of them or more lie between the two
        assert sum(x <= bound * (1 + 1e-9) for x in samples) >= len(samples) / 4
        assert sum(x >= bound * (1 - 1e-9) for x in samples) >= len(samples) / 4


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: measure.peak_bytes(torch.zeros(2)), TypeError, "call is <Tensor>"),
        (lambda: measure.seconds_interleaved({}), ValueError, "calls has 0 entries"),
        (lambda: measure.seconds_interleaved({"one": 1}), TypeError, r"calls\['one'\] is 1"),
        (
            lambda: measure.seconds_interleaved({"one": print}, burst=math.nan),
            ValueError,
            "burst is nan; pass a finite number above 0",
        ),
    ],
)
def test_bad_input(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "elements"),
    [
        (lambda x: x + 1, 1000),
        (lambda x: (x.view(10, 100) + 1).sum(), 1001),  # a view is no memory
        (lambda x: [x + i for i in range(5)], 5000),
        (
            lambda x: functools.reduce(lambda y, _: y + 1, range(5), x),
            2000,
        ),  # the old one dies when the new one is there
        (lambda x: x.add_(1), 0),
    ],
)
def test_peak_memory_counts_what_lives_at_once(call, elements) -> None:
    x = torch.zeros(1000, device=runtime.device())
    expected = 4 * elements
    found = measure.peak_bytes(lambda: call(x))
    assert found == expected if runtime.mode() != "GPU" else expected <= found <= expected + 6 * 512  # in steps of 512


def test_progress_passes_everything_through() -> None:
    assert list(measure.progress(range(3), "waiting")) == [0, 1, 2]

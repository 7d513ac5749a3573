"""Errors, memory, timings and hardware counters: what they say, what they refuse, and what they are compared with."""

import functools
import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib import runtime
from course_lib.instruments import counters, measure
from course_lib.instruments.peers import plain_attention
from course_lib.model import reference


def test_errors_against_an_oracle() -> None:
    oracle = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    x = torch.tensor([3.0, -4.0, 0.0, 0.0])
    assert measure.max_error(x, oracle) == 4
    assert measure.rms_error(x, oracle) == 2.5
    assert measure.max_error(torch.tensor([math.nan, 0, 0, 0]), oracle) == math.inf
    infinite = torch.tensor([math.inf, -math.inf, 1.0])
    assert measure.max_error(infinite, infinite) == measure.rms_error(infinite, infinite) == 0
    assert measure.max_error(infinite, -infinite) == math.inf


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=9))
def test_the_middle_half_lies_within_what_was_measured(samples) -> None:
    found = measure.Timing.of(samples)
    assert found.median == pytest.approx(statistics.median(samples))
    assert min(samples) <= found.quarter <= found.median <= found.three_quarters <= max(samples)
    for bound in found.quarter, found.three_quarters:  # half of them or more lie between the two
        assert sum(x <= bound * (1 + 1e-9) for x in samples) >= len(samples) / 4
        assert sum(x >= bound * (1 - 1e-9) for x in samples) >= len(samples) / 4


@pytest.mark.parametrize(
    ("call", "elements"),
    [
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


@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_is_the_oracles(causal) -> None:
    q, k, v = (torch.randn(9, 4, dtype=torch.float64) for _ in range(3))
    right = reference.attention(q, k, v, causal=causal)
    torch.testing.assert_close(plain_attention(q, k, v, causal), right)
    torch.testing.assert_close(plain_attention(q[None, None], k[None, None], v[None, None], causal)[0, 0], right)


NCU = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","_v1_kernel(float *)","gpu__time_duration.sum","ns","12,000"
"0","1","_v1_kernel(float *)","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,000"
"0","1","_v1_kernel(float *)","sm__warps_active.avg.pct_of_peak_sustained_active","%","6.25"
"1","1","copy","gpu__time_duration.sum","ns","500"
"1","1","copy","gpc__cycles_elapsed.avg.per_second","hz","1,585,000,000"
"""


def test_counters_are_read_from_ncu_as_one_row_for_each_kernel() -> None:
    first, second = counters.parse(NCU)
    assert first == {"kernel": "v1_kernel", "seconds": pytest.approx(12e-6), "l1_read": 32_000, "occupancy": 0.0625}
    assert second == {"kernel": "copy", "seconds": pytest.approx(5e-7), "clock_ghz": pytest.approx(1.585)}
    with pytest.raises(counters.CountersUnavailableError, match="ncu gave 'n/a' for the metric 'gpu__time"):
        counters.parse(NCU + '"0","1","k","gpu__time_duration.sum","ns","n/a"\n')


def test_counters_say_what_is_missing(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(counters.CountersUnavailableError, match="ncu is not on the path"):
        counters.counters("V2", 1, 64)


X = torch.ones(1, 1, 2, 8)
BAD = [
    (lambda: measure.max_error(X, X[0]), r"x has shape \[1, 1, 2, 8\] but oracle has \[1, 2, 8\]"),
    (lambda: measure.seconds(print, repeats=0), "repeats is 0; pass a whole number from 1 to 1,000,000"),
    (lambda: measure.slope([4, 4], [1, 2]), "lengths holds 4 only"),
    (lambda: measure.peak_bytes(X), "call is <Tensor>"),
    (lambda: measure.seconds_interleaved({}), "calls has 0 entries"),
    (lambda: counters.counters("V3", 1, 64), "case is 'V3'; choose one of 'standard', 'V1'"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()

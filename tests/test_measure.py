"""Errors, timings and records: what they say, and what they refuse."""

import functools
import json
import math

import pytest
import torch

from course_lib import counters, data, measure, reference, runtime
from course_lib.display import difference, excerpt, source
from course_lib.kernels.lite import _lite_kernel
from course_lib.kernels.online import _online_kernel
from course_lib.peers import plain_attention


def test_errors_against_an_oracle() -> None:
    oracle = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    x = torch.tensor([3.0, -4.0, 0.0, 0.0])
    assert measure.max_error(x, oracle) == 4
    assert measure.rms_error(x, oracle) == 2.5
    assert measure.max_error(torch.tensor([math.nan, 0, 0, 0]), oracle) == math.inf
    with pytest.raises(ValueError, match=r"x has shape \[4\] but oracle has \[3\]; they must be equal"):
        measure.max_error(x, oracle[:3])


def test_timings_are_the_median_of_the_repeats_after_warm_up() -> None:
    calls = []
    timing = measure.seconds(lambda: calls.append(1), repeats=5, warm_up=2)
    assert len(calls) == 7
    assert 0 <= timing.quarter <= timing.median <= timing.three_quarters
    assert measure.seconds(lambda: None, repeats=1).median >= 0
    with pytest.raises(ValueError, match="repeats is 0"):
        measure.seconds(lambda: None, repeats=0)


def test_a_record_says_when_where_how_and_reads_back(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COURSE_COMMIT", "abc1234")
    path = measure.record(
        "sample", [{"n": 1, "seconds": 0.5}, {"n": 2, "seconds": 0.25}], "make sample", tmp_path / "measured"
    )
    monkeypatch.setattr(data, "DATA", tmp_path)
    recorded = data.measured(path.parent.name, "sample")
    assert recorded.rows[1] == {"n": 2, "seconds": 0.25}
    assert recorded.provenance["commit"] == "abc1234"
    assert recorded.provenance["command"] == "make sample"
    assert recorded.provenance["versions"]["torch"] == torch.__version__
    assert json.loads(path.read_text())["provenance"]["device"]
    with pytest.raises(ValueError, match="rows is empty; nothing to record under 'sample'"):
        measure.record("sample", [], "make sample", tmp_path)


def test_recordings_on_this_device_were_made_from_a_known_commit() -> None:
    for path in (data.DATA / "measured").glob("*/*.json"):
        provenance = data.measured(path.parent.name, path.stem).provenance
        assert provenance["commit"] != "unknown", path.name
        assert provenance["command"].startswith(("python -m course_lib.recordings", "make ")), path.name


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
    assert found == expected if runtime.lane() != "GPU" else expected <= found <= expected + 6 * 512  # in steps of 512


def test_progress_passes_everything_through() -> None:
    assert list(measure.progress(range(3), "waiting")) == [0, 1, 2]


def test_the_lite_and_online_kernels_differ_in_the_online_lines_only() -> None:
    lines = [line for line in difference(_lite_kernel, _online_kernel).data.splitlines() if line[:1] in "+-"]
    added, removed = [x for x in lines if x[0] == "+"], [x for x in lines if x[0] == "-"]
    assert len(added) <= 10
    assert len(removed) <= 4
    assert any("correction = tl.exp(m - m_new)" in line for line in added)
    assert source(_lite_kernel).data.startswith(
        "`course_lib/kernels/lite.py`\n\n```python\n@triton.jit\ndef _lite_kernel("
    )
    with pytest.raises(TypeError, match="got a int; pass a function"):
        source(3)  # type: ignore[arg-type]


NCU = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","_v1_kernel(float *)","gpu__time_duration.sum","ns","12,000"
"0","1","_v1_kernel(float *)","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,000"
"0","1","_v1_kernel(float *)","sm__warps_active.avg.pct_of_peak_sustained_active","%","6.25"
"1","1","copy","gpu__time_duration.sum","ns","500"
"""


def test_counters_are_read_from_ncu_as_one_row_for_each_kernel() -> None:
    first, second = counters.parse(NCU)
    assert first == {"kernel": "v1_kernel", "seconds": pytest.approx(12e-6), "l1_read": 32_000, "occupancy": 0.0625}
    assert second == {"kernel": "copy", "seconds": pytest.approx(5e-7)}


def test_counters_say_what_is_missing(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(counters.CountersUnavailableError, match="ncu is not on the path"):
        counters.counters("V2", 1, 64)


def test_an_excerpt_is_the_lines_between_two_words(tmp_path) -> None:
    path = tmp_path / "code.cpp"
    path.write_text("one\n  two {\n    three\n  }\nfour\n")
    assert excerpt(path, "two", "four").data == "`code.cpp`\n\n```cpp\ntwo {\n  three\n}\n```"
    with pytest.raises(ValueError, match=r"code.cpp has no lines from 'four' to 'two'"):
        excerpt(path, "four", "two")


@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_is_the_oracles(causal) -> None:
    q, k, v = (torch.randn(9, 4, dtype=torch.float64) for _ in range(3))
    right = reference.attention(q, k, v, causal=causal)
    torch.testing.assert_close(plain_attention(q, k, v, causal), right)
    torch.testing.assert_close(plain_attention(q[None, None], k[None, None], v[None, None], causal)[0, 0], right)

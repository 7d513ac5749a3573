"""Errors, timings and records: what they say, and what they refuse."""

import functools
import json
import math
from pathlib import Path

import pytest
import torch

from course_lib import data, measure, runtime


def test_errors_against_an_oracle() -> None:
    oracle = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    x = torch.tensor([3.0, -4.0, 0.0, 0.0])
    assert measure.max_error(x, oracle) == 4
    assert measure.rms_error(x, oracle) == 2.5
    assert measure.max_error(torch.tensor([math.nan, 0, 0, 0]), oracle) == math.inf
    infinite = torch.tensor([math.inf, -math.inf, 1.0])
    assert measure.max_error(infinite, infinite) == measure.rms_error(infinite, infinite) == 0
    assert measure.max_error(infinite, -infinite) == math.inf
    with pytest.raises(ValueError, match=r"x has shape \[4\] but oracle has \[3\]; they must be equal"):
        measure.max_error(x, oracle[:3])


def test_timings_are_the_median_of_the_repeats_after_warm_up() -> None:
    calls = []
    timing = measure.seconds(lambda: calls.append(1), repeats=5, warm_up=2)
    assert len(calls) == 7
    assert 0 <= timing.quarter <= timing.median <= timing.three_quarters
    assert measure.seconds(lambda: None, repeats=1).median >= 0
    with pytest.raises(ValueError, match="repeats is 0; pass a whole number of at least 1"):
        measure.seconds(lambda: None, repeats=0)
    with pytest.raises(ValueError, match="warm_up is -1; pass a number of calls of at least 0"):
        measure.seconds(lambda: None, warm_up=-1)


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


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("sample", [{"n": 1}, {"n": math.nan}], "field 'n' of row 1 is nan; pass a finite number"),
        ("sample", [{"n": -math.inf}], "field 'n' of row 0 is -inf; pass a finite number"),
        ("sample", [{"n": 1}, {"m": 1}], r"row 1 has fields \['m'\]; pass those of row 0, \['n'\]"),
        ("a/sample", [{"n": 1}], "name is 'a/sample'; pass letters, digits and underscores only"),
        ("", [{"n": 1}], "name is ''; pass letters, digits and underscores only"),
    ],
)
def test_a_record_that_could_not_be_read_leaves_the_old_one(tmp_path, name, rows, message) -> None:
    path = measure.record("sample", [{"n": 1}], "make sample", tmp_path)
    before = path.read_text()
    with pytest.raises(ValueError, match=message):
        measure.record(name, rows, "make sample", tmp_path)
    assert path.read_text() == before
    assert list(tmp_path.rglob("*.*")) == [path]


def test_a_record_that_is_cut_off_leaves_the_old_one(tmp_path, monkeypatch) -> None:
    path = measure.record("sample", [{"n": 1}], "make sample", tmp_path)
    before, write = path.read_text(), Path.write_text

    def cut_off(self: Path, text: str, **options: str) -> int:
        write(self, text[:10], **options)
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_text", cut_off)
    with pytest.raises(OSError, match="the disk is full"):
        measure.record("sample", [{"n": 2}], "make sample", tmp_path)
    assert path.read_text() == before


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

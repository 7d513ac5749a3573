"""Records: what they hold, that they read back, and that a broken one leaves the old one."""

import functools
import json
import math
import re
from pathlib import Path

import pytest
import torch

from course_lib import data, gpt, parallel, recordings, runtime
from course_lib.recordings import capstone, capstone_steps, decoding, many_gpus, records

ROOT = Path(__file__).parents[1]


def test_a_record_says_when_where_how_and_reads_back(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COURSE_COMMIT", "abc1234")
    path = records.record(
        "sample", [{"n": 1, "seconds": 0.5}, {"n": 2, "seconds": 0.25}], "make sample", tmp_path / "measured"
    )
    monkeypatch.setattr(data, "DATA", tmp_path)
    recorded = data.measured(path.parent.name, "sample")
    assert recorded.rows[1] == {"n": 2, "seconds": 0.25}
    assert recorded.provenance["commit"] == "abc1234"
    assert recorded.provenance["command"] == "make sample"
    assert recorded.provenance["versions"]["torch"] == torch.__version__
    assert json.loads(path.read_text())["provenance"]["device"]
    with pytest.raises(ValueError, match="rows of 'sample' cannot be recorded: field 'rows': is empty"):
        records.record("sample", [], "make sample", tmp_path)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("sample", [{"n": 1}, {"n": math.nan}], "row 1, field 'n': nan is not a finite number"),
        ("sample", [{"n": -math.inf}], "row 0, field 'n': -inf is not a finite number"),
        ("sample", [{"n": 1}, {"m": 1}], r"row 1: has fields \['m'\]; expected \['n'\]"),
        ("a/sample", [{"n": 1}], "name is 'a/sample'; pass letters, digits and underscores only"),
        ("", [{"n": 1}], "name is ''; pass letters, digits and underscores only"),
    ],
)
def test_a_record_that_could_not_be_read_leaves_the_old_one(tmp_path, name, rows, message) -> None:
    path = records.record("sample", [{"n": 1}], "make sample", tmp_path)
    before = path.read_text()
    with pytest.raises(ValueError, match=message):
        records.record(name, rows, "make sample", tmp_path)
    assert path.read_text() == before
    assert list(tmp_path.rglob("*.*")) == [path]


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, -1, 1j, torch.ones(1), object()])
def test_what_reading_would_refuse_is_not_written(tmp_path, value) -> None:
    with pytest.raises(ValueError, match="row 1, field 'n'"):
        records.record("sample", [{"n": 1}, {"n": value}], "make sample", tmp_path)
    assert not list(tmp_path.rglob("*"))


def test_a_device_is_one_folder(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Quadro RTX 6000/8000 (x)")
    assert records.device_slug() == "quadro-rtx-6000-8000-x-"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    assert records.device_slug() == "nvidia-h100"


def test_recordings_on_this_device_were_made_from_a_known_commit() -> None:
    for path in (data.DATA / "measured").glob("*/*.json"):
        provenance = data.measured(path.parent.name, path.stem).provenance
        assert provenance["commit"] != "unknown", path.name
        assert provenance["command"].startswith(("python -m course_lib.recordings", "make ")), path.name


def test_each_recording_has_a_record_and_each_record_a_known_gpu() -> None:
    found = {path.name: {record.stem for record in path.glob("*.json")} for path in (data.DATA / "measured").iterdir()}
    for device in found:
        parts = device.split("-")
        rows = [
            name
            for name in data.gpus()
            if all(any(part.startswith(word) for part in parts) for word in re.split("[ -]", name.lower()))
        ]
        assert len(rows) == 1 or parts[0] == "cpu", f"data/measured/{device}: add the GPU's row to data/gpus.csv"
    missing = set(recordings.RECORDINGS).difference(*found.values(), recordings.ON_TWO_GPUS)
    assert not missing, f"commit, then: python -m course_lib.recordings {' '.join(sorted(missing))}"
    for device, name in ((device, name) for device, names in found.items() for name in names):
        made, _, recorded = data.measured(device, name).provenance["command"].rpartition(" ")
        if made == "python -m course_lib.recordings":
            assert recorded == name, f"data/measured/{device}/{name}.json"
            assert name in recordings.RECORDINGS, f"data/measured/{device}/{name}.json: nothing records it"


def test_each_record_is_read() -> None:
    """By a figure or as the source of a number; what a command of make leaves is there to be compared with its next run."""
    readers = [*(ROOT / "course_lib" / "figures").rglob("*.py"), ROOT / "tests" / "number_sources.txt"]
    text = "".join(path.read_text(encoding="utf-8") for path in readers)
    for path in (data.DATA / "measured").glob("*/*.json"):
        if not data.measured(path.parent.name, path.stem).provenance["command"].startswith("make "):
            assert re.search(rf"""["' ]{path.stem}["' ]""", text), f"{path.name}: nothing reads it"


TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.mark.parametrize(
    ("backend", "causal"),
    [
        ("gloo", True),
        pytest.param("gloo", False, marks=pytest.mark.weekly),  # torch's own runs on a CPU without a mask alone
        pytest.param("nccl", True, marks=[pytest.mark.kernel, TWO_GPUS]),
        pytest.param("nccl", False, marks=[pytest.mark.kernel, TWO_GPUS]),
    ],
)
def test_two_ranks_record_each_way_and_what_is_sent(monkeypatch, backend, causal) -> None:
    """The record of two GPUs in small; on GPUs each way is held against one GPU's result in bf16, on CPUs in fp32."""
    if backend == "gloo" and causal:
        monkeypatch.setattr(many_gpus, "CONTEXT", {})
    cell = many_gpus.Cell(*((1024, causal, 64, 4, 4) if backend == "nccl" else (16, causal, 16, 2, 1)))
    rows = data.check_rows(parallel.run(many_gpus.measured, 2, [cell], 2, 1e-4, limit=300, backend=backend)[0])
    for direction in many_gpus.PASSES:
        found = {row["algorithm"]: row for row in rows if row["direction"] == direction}
        ours = {many_gpus.ONE, many_gpus.LINK, "Ulysses"}
        ours |= {f"ring, {order}" for order in (("contiguous", "zigzag", "striped") if causal else ("contiguous",))}
        theirs = set() if backend == "gloo" and direction != "forward" else set(many_gpus.CONTEXT)
        assert set(found) == ours | theirs
        assert all(row["error"] < (1e-5 if backend == "gloo" else many_gpus.WRONG) for row in found.values())
        assert all(row["seconds"] > 0 for row in found.values())


def test_an_error_of_two_gpus_is_a_share_and_nothing_that_is_no_number_passes() -> None:
    right = torch.tensor([3.0, 4.0], dtype=torch.bfloat16)
    assert many_gpus._share(right + torch.tensor([0.5, 0.0]), right) == pytest.approx(0.1)
    assert many_gpus._share(torch.tensor([float("nan"), 4.0]), right) == float("inf")


@pytest.mark.kernel
def test_the_recording_of_decoding_runs_in_small() -> None:
    rows = data.check_rows(decoding.decoding_speed(small=True))
    assert [row["algorithm"] for row in rows] == [
        "decode()", "decode(), unsplit", "attention()", "SDPA", "decode(), pages of 16", "decode(), pages of 256"
    ]  # fmt: skip
    assert {(row["batch"], row["n"], row["kv_bytes"]) for row in rows} == {(1, 40, 2 * 40 * 8 * 128 * 2)}


@pytest.mark.kernel
def test_the_recording_of_splits_runs_in_small(monkeypatch) -> None:
    monkeypatch.setattr(decoding, "HEADS", 8)
    monkeypatch.setattr(decoding, "HEADS_K", 2)
    rows = data.check_rows(decoding.decoding_splits(small=True))
    ours, pages = "decode()", "decode(), pages of 16"
    assert [(row["algorithm"], row["batch"], row["longest"]) for row in rows] == [
        (ours, 8, 40), ("SDPA", 8, 40), (ours, 4, 200), (ours, 4, 200), (ours, 4, 200), (pages, 4, 200)
    ]  # fmt: skip
    assert {row["keys"] for row in rows} == {320}
    assert [row["splits"] for row in rows if not row["chosen"]] == [1, 16]


@pytest.mark.kernel
def test_the_recordings_of_the_capstone_run_in_small(monkeypatch) -> None:
    monkeypatch.setattr("course_lib.gpt.training.evaluate", functools.partial(gpt.evaluate, most=4))
    losses = data.check_rows(capstone.capstone_losses(small=True))
    assert {(row["attention"], row["seed"]) for row in losses} == {
        (name, seed) for name in ("attention", "SDPA") for seed in range(3)
    }
    found = {(row["attention"], row["seed"], row["part"], row["step"]): row["loss"] for row in losses}
    for (name, *key), loss in found.items():  # the same batches: the attentions differ by rounding
        assert loss == pytest.approx(found["SDPA", *key], rel=1e-4 if runtime.mode() != "GPU" else 0.02), name
    samples = data.check_rows(capstone.capstone_sample(small=True))
    assert all(len(row["text"]) == 40 for row in samples)
    backends = data.check_rows(capstone.capstone_backends(small=True))
    assert {row["attention"] for row in backends} >= {"SDPA again", "plain"}
    assert set(backends[0]) == set(losses[0])


@pytest.mark.kernel
def test_the_recordings_of_long_contexts_and_of_generation_run_in_small() -> None:
    steps = data.check_rows(capstone_steps.capstone_context(small=True))
    assert {(row["t"], row["batch"]) for row in steps} == {(16, 4), (32, 2)}
    assert all(row["fits"] and row["seconds"] > 0 for row in steps)
    assert all((row["attention_seconds"] == 0) == (row["attention"] == "none") for row in steps)
    said = data.check_rows(capstone_steps.capstone_generation(small=True))
    assert {row["how"] for row in said} == {"cache", "no cache"}
    assert said[0]["bytes"] == (said[0]["parameters"] + 2 * 16 * 32) * (2 if runtime.mode() == "GPU" else 4)

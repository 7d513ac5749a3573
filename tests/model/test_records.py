"""Tables and records in data/: sound, readable, written whole or not at all; and verdicts from their findings."""

import json
import math
import re

import numpy as np
import pytest
import torch

from course_lib import claims, data, parallel, recordings
from course_lib.recordings import many_gpus, records
from course_lib.show.tables import Table


def test_every_table_and_recording_in_data_is_sound() -> None:
    for path in (data.DATA / "reported").glob("*.csv"):
        assert data.reported(path.stem)
    found = {path.name: {record.stem for record in path.glob("*.json")} for path in (data.DATA / "measured").iterdir()}
    for device, name in ((device, name) for device, names in found.items() for name in names):
        recorded = data.measured(device, name)
        assert recorded.label.startswith("recorded 20")
        assert recorded.provenance["commit"] != "unknown", name
        made, _, named = recorded.provenance["command"].rpartition(" ")
        if made == "python -m course_lib.recordings":
            assert named == name, f"data/measured/{device}/{name}.json"
            assert name in recordings.RECORDINGS, f"data/measured/{device}/{name}.json: nothing records it"
        else:
            assert recorded.provenance["command"].startswith(("make ", "python tests/"))
    missing = set(recordings.RECORDINGS).difference(*found.values(), recordings.ON_TWO_GPUS)
    assert not missing, f"commit, then: python -m course_lib.recordings {' '.join(sorted(missing))}"
    for device in found:
        parts, rows = device.split("-"), []
        for name in data.gpus():
            if all(any(part.startswith(word) for part in parts) for word in re.split("[ -]", name.lower())):
                rows.append(name)
        assert len(rows) == 1 or parts[0] == "cpu", f"data/measured/{device}: add the GPU's row to data/gpus.csv"
    known = {row["key"] for row in data.reported("sources")}
    assert {claim["source"] for claim in data.claims().values()} <= known


def test_what_was_read_once_is_changed_by_nobody() -> None:
    bench = data.measured("nvidia-h200", "forward_ladder")
    for mapping in (bench.provenance, bench.rows[0], data.reported("sources")[0], data.claims(), data.gpus()):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["key"] = "another"


def test_verdicts_follow_from_their_findings() -> None:
    assert claims.verdict("C1", ("a", True), ("b", True)).word == "confirmed"
    assert claims.verdict("C1", ("a", torch.tensor(3) > 2), ("b", np.float64(1) > 2)).word == "true in part"
    refuted = claims.verdict("C1", ("a < b", False))
    assert refuted.word == "refuted"
    assert "against: a < b" in repr(refuted)
    assert "a &lt; b" in refuted._repr_html_()


def test_tables_align_numbers_and_escape_html() -> None:
    table = Table(["name", "bytes"], [["a<b", 12345], ["c", 7]])
    assert repr(table).splitlines()[2:] == ["a<b   12,345", "c          7"]
    assert "a&lt;b" in table._repr_html_()


# --- what is written ---


def test_a_record_says_when_where_how_and_reads_back(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COURSE_COMMIT", "abc1234")
    rows = [{"n": 1, "seconds": 0.5}, {"n": 2, "seconds": 0.25}]
    path = records.record("sample", rows, "make sample", tmp_path / "measured")
    monkeypatch.setattr(data, "DATA", tmp_path)
    recorded = data.measured(path.parent.name, "sample")
    assert recorded.rows[1] == rows[1]
    assert (recorded.provenance["commit"], recorded.provenance["command"]) == ("abc1234", "make sample")
    assert recorded.provenance["versions"]["torch"] == torch.__version__
    assert json.loads(path.read_text())["provenance"]["device"]


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("sample", [{"n": 1}, {"n": math.nan}], "row 1, field 'n' is nan"),
        ("sample", [{"n": 1}, {"m": 1}], r"row 1 has fields \['m'\]"),
        ("a/sample", [{"n": 1}], "name is 'a/sample'; pass letters, digits and underscores only"),
        ("sample", [{"n": 1}, {"n": -1}], "row 1, field 'n'"),
    ],
)
def test_a_record_that_could_not_be_read_leaves_the_old_one(tmp_path, name, rows, message) -> None:
    path = records.record("sample", [{"n": 1}], "make sample", tmp_path)
    before = path.read_text()
    with pytest.raises(ValueError, match=message):
        records.record(name, rows, "make sample", tmp_path)
    assert path.read_text() == before
    assert list(tmp_path.rglob("*.*")) == [path]


def test_a_device_is_one_folder(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Quadro RTX 6000/8000 (x)")
    assert records.device_slug() == "quadro-rtx-6000-8000-x-"


# --- recordings in small ---

TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.mark.parametrize(
    ("backend", "causal"),
    [
        pytest.param("gloo", False, marks=pytest.mark.weekly),  # torch's own runs on a CPU without a mask alone
        pytest.param("nccl", True, marks=[pytest.mark.kernel, TWO_GPUS]),
        pytest.param("nccl", False, marks=[pytest.mark.kernel, TWO_GPUS]),
    ],
)
def test_two_ranks_record_each_way_and_what_is_sent(backend, causal) -> None:
    """The record of two GPUs in small; on GPUs each way is held against one GPU's result in bf16, on CPUs in fp32."""
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

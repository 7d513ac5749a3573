"""``make bench`` and ``make bench-host``: the README's table is the record's, and machines that cannot be measured are told so."""

import sys

import pytest

from course_lib import data, runtime
from course_lib.instruments import measure
from course_lib.recordings import bench, bench_host, host

RECORD = data.measured("nvidia-h200", "forward_ladder")
HOPPER = runtime.mode() == "GPU" and runtime.architecture() == 90


def test_the_readme_shows_the_record() -> None:
    assert bench.BLOCK.search(bench.README.read_text(encoding="utf-8")).group() == bench.readme_table(RECORD)


def test_rates_count_what_the_papers_count() -> None:
    for row in RECORD.rows:
        products = 2 * 2 * 16_384 * row["n"] * 2048 / (2 if row["causal"] else 1)
        assert row["tflops"] == pytest.approx(products / row["seconds"] / 1e12, abs=0.06)
        assert row["quarter"] <= row["seconds"] <= row["three_quarters"]


def test_the_goals_of_the_recorded_run() -> None:
    """The best kernel against its peers: what the README claims in words."""
    against = bench.ratios(RECORD, "attention()", "cuDNN")
    assert bench.geometric_mean(against) >= 1.0
    assert min(against) >= 0.85
    assert min(bench.ratios(RECORD, "attention()", "FA2")) > 1.0


@pytest.mark.skipif(HOPPER, reason="this GPU would be measured")
def test_without_a_hopper_gpu(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["bench"])
    assert bench.main() == 1
    assert "needs a Hopper GPU" in capsys.readouterr().err


def test_a_readme_without_a_place_for_the_table(monkeypatch, tmp_path) -> None:
    (tmp_path / "README.md").write_text("nothing here")
    monkeypatch.setattr(bench, "README", tmp_path / "README.md")
    with pytest.raises(ValueError, match="no lines <!-- bench -->"):
        bench.write_readme(RECORD)


@pytest.mark.kernel
@pytest.mark.skipif(runtime.mode() != "GPU", reason="CUDA graphs")
def test_turns_time_each_call() -> None:
    import torch

    x = torch.randn(2**24, device="cuda")
    times = measure.seconds_interleaved(
        {"one": lambda: x.mul(2), "four": lambda: [x.mul(2) for _ in range(4)]}, rounds=5
    )
    assert list(times) == ["one", "four"]
    assert 2 < times["four"].median / times["one"].median < 8


@pytest.mark.skipif(runtime.mode() == "GPU", reason="this GPU would be measured")
def test_the_host_s_share_without_a_gpu(capsys) -> None:
    assert bench_host.main() == 1
    assert "needs a CUDA GPU" in capsys.readouterr().err


def test_the_table_of_the_host_s_share() -> None:
    row = {"batch": 1, "heads": 2, "n": 64, "d": 64, "mode": "no_grad", "algorithm": "attention()", "host_us": 20.5}
    found = host.table([row, row | {"mode": "forward"}, row | {"algorithm": "FA2", "host_us": 9.0}])
    assert found.headers[1:] == ["[1, 2, 64, 64] no_grad", "[1, 2, 64, 64] forward"]
    assert found.rows == [["attention()", 20.5, 20.5], ["FA2", 9.0, ""]]

"""``make bench`` and ``make bench-host``: the page on speed has the record's table; without a GPU both say so."""

import itertools
import sys
from functools import partial

import pytest
import torch

from course_lib import data, runtime
from course_lib.instruments import measure
from course_lib.recordings import bench, bench_host, beside_peers, host
from course_lib.recordings.beside_peers import CELLS, KINDS, LENGTHS, Peer, Timed, geometric_mean, ratios

LADDER = data.measured("nvidia-h200", "forward_ladder")
SPEED = {"attention()": 1.0, "cuDNN": 2.0, "FA2": 3.0, "FA4": 1.25}  # seconds, at N = 1,024 times as many


def run(names=SPEED, device="NVIDIA H200", slow=(64, True, 1024)) -> data.Measured:
    """A made-up run: attention() in one second, in three in the cell ``slow``."""
    rows = []
    for name, (direction, how), (d, causal, n) in itertools.product(names, KINDS, CELLS):
        seconds = 3.0 if name == "attention()" and (d, causal, n) == slow else SPEED[name]
        row = Timed(name, direction, how, d, causal, n, seconds, seconds, seconds, 100 / seconds, 0.003)
        rows.append(row._asdict())
    versions = {"torch": "2.11.0+cu128", "cudnn": "91900", "triton": "3.6.0", "flash-attn-4": "4.0.0b36"}
    made = {"date": "2026-01-02 03:04 UTC", "command": "make bench", "commit": "abc1234", "device": device}
    return data.Measured(made | {"versions": versions}, data.check_rows(rows))


def test_rates_count_what_the_papers_count() -> None:
    for row in LADDER.rows:
        products = 2 * 2 * 16_384 * row["n"] * 2048 / (2 if row["causal"] else 1)
        assert row["tflops"] == pytest.approx(products / row["seconds"] / 1e12, abs=0.06)
        assert row["quarter"] <= row["seconds"] <= row["three_quarters"]


def test_ratios_say_how_many_times_as_fast_ours_is() -> None:
    rows = bench.timed(run())
    found = ratios(rows, "cuDNN", "backward", "eager")
    assert sorted(found) == [pytest.approx(2 / 3)] + [2.0] * 11
    assert geometric_mean(found) == pytest.approx((2**12 / 3) ** (1 / 12))
    assert ratios(rows, "FlexAttention", "forward", "eager") == []
    assert set(ratios(rows, "FA2", "forward", "graphs", name="cuDNN")) == {1.5}


def test_the_tables_of_a_run() -> None:
    rows = bench.timed(run())
    found = beside_peers.table(rows, "forward", "graphs")
    assert found.headers[0] == "TFLOP/s, forward, graphs"
    assert found.headers[1:5] == ["64 1k", "64 4k", "64 16k", "64 causal 1k"]
    assert [line[0] for line in found.rows] == list(SPEED)
    assert found.rows[0][4] == 33
    assert found.rows[1][-1] == "1.83 (0.67)"


def test_the_page_s_table_of_two_runs() -> None:
    text = bench.page_table([run(), run(("attention()", "cuDNN"), "NVIDIA H100 80GB HBM3")])
    lines = text.splitlines()
    assert "| | | cuDNN | FlashAttention-2 | FlashAttention-4 | FlexAttention |" in lines
    assert "| H200 forward | replayed CUDA graphs | 1.83 (0.67) | 2.74 (1.00) | 1.14 (0.42) |  |" in lines
    assert "| H100 forward and backward | eager calls | 1.83 (0.67) |  |  |  |" in lines
    assert sum(line.startswith("| H") for line in lines) == 2 * len(KINDS)
    made = "measured 2026-01-02 with torch 2.11.0, cuDNN 9.19.0, triton 3.6.0"
    assert f"NVIDIA H200: {made}, FlashAttention-4 4.0.0b36\nby `make bench`" in text
    assert f"NVIDIA H100 80GB HBM3: {made}\nby `make bench`" in text
    assert "33 to 100 TFLOP/s forward and 33 to 100 TFLOP/s backward" in text


def test_a_peer_that_is_not_there_is_told(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn.cute", None)  # as if it were not installed
    found, why = beside_peers.flash_attention_4()
    assert found is None
    assert why.startswith("FA4 is left out: ")
    assert why.endswith("`make peers` installs flash-attn-4")


def test_a_peer_that_is_wrong_or_raises_is_left_out_and_ours_is_not(monkeypatch, capsys) -> None:
    def raises(q, k, v):
        raise RuntimeError("no kernel")

    right = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
    versions = {
        "attention()": Peer(right),
        "late": Peer(lambda *x: right(*(y.transpose(1, 2) for y in x)).transpose(1, 2), heads_last=True),
        "wrong": Peer(lambda q, k, v: right(q, k, v) * 1.1),
        "broken": Peer(raises),
    }
    ones = dict.fromkeys(versions, measure.Timing(1.0, 1.0, 1.0))
    monkeypatch.setattr(beside_peers, "_Cell", SmallCell)
    monkeypatch.setattr(beside_peers, "peers", lambda causal, n: versions)
    monkeypatch.setattr(beside_peers, "_times", lambda calls, graph: {name: ones[name] for name in calls})
    left_out: set[str] = set()
    rows = beside_peers._cell(16, True, 64, left_out)
    assert left_out == {"wrong", "broken"}
    assert {row.algorithm for row in rows} == {"attention()", "late"}
    assert len(rows) == 2 * len(KINDS)
    assert all(0 < row.error < 0.01 for row in rows)
    told = capsys.readouterr().out
    assert "wrong is left out: at d = 16, causal = True, N = 64: its error is 0.1" in told
    assert "broken is left out: at d = 16, causal = True, N = 64: no kernel" in told
    versions["attention()"] = versions["wrong"]
    with pytest.raises(RuntimeError, match=r"attention\(\) fails at d = 16, causal = True, N = 64: its error is 0.1"):
        beside_peers._cell(16, True, 64, left_out)


class SmallCell(beside_peers._Cell):
    def __init__(self, d, causal, n) -> None:
        torch.manual_seed(0)
        *self.inputs, self.do = torch.randn(4, 2, 3, n, d).bfloat16()
        self.causal = causal


def test_the_goals_of_the_recorded_run() -> None:
    """The best kernel of lecture 11 against its peers."""
    rate = bench.rates(LADDER)
    for peer, mean, least in (("cuDNN", 1.0, 0.85), ("FA2", 1.0, 1.0)):
        found = [rate["attention()", *key[1:]] / rate[key] for key in rate if key[0] == peer and key[3] in LENGTHS]
        assert len(found) == len(CELLS)
        assert geometric_mean(found) >= mean
        assert min(found) >= least


# How many times as fast as a peer, in the mean and in the worst cell.
GOALS = {
    ("cuDNN", "forward", "eager"): (1.00, 0.9),
    ("cuDNN", "backward", "graphs"): (1.10, 1.0),
    ("cuDNN", "backward", "eager"): (1.00, 0.0),
    ("FA4", "backward", "graphs"): (0.95, 0.0),
}


@pytest.mark.parametrize("device", bench.SHOWN)
def test_the_goals_that_the_runs_beside_the_peers_meet(device) -> None:
    rows = bench.timed(data.measured(device, bench.RECORD))
    for goal, (mean, least) in GOALS.items():
        found = ratios(rows, *goal)
        assert len(found) == len(CELLS)
        assert geometric_mean(found) >= mean, goal
        assert min(found) >= least, goal
    assert all(row.error <= beside_peers.WRONG for row in rows)


@pytest.mark.skipif(runtime.mode() == "GPU", reason="this GPU would be measured")
def test_without_a_gpu(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["bench"])
    assert bench.main() == 1
    assert "make bench needs a CUDA GPU that multiplies in bf16" in capsys.readouterr().err


def test_the_page_shows_the_records() -> None:
    assert bench.BLOCK.search(bench.PAGE.read_text(encoding="utf-8")).group() == bench.block()


def test_the_page_keeps_what_stands_around_the_table(monkeypatch, tmp_path) -> None:
    (tmp_path / "speed.md").write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")
    monkeypatch.setattr(bench, "PAGE", tmp_path / "speed.md")
    monkeypatch.setattr(bench, "shown", lambda: [run()])
    bench.write_page()
    text = (tmp_path / "speed.md").read_text()
    assert text == f"before\n<!-- bench -->\n{bench.page_table([run()])}<!-- /bench -->\nafter\n"


def test_a_page_without_a_place_for_the_table(monkeypatch, tmp_path) -> None:
    (tmp_path / "speed.md").write_text("nothing here")
    monkeypatch.setattr(bench, "PAGE", tmp_path / "speed.md")
    with pytest.raises(ValueError, match="no lines <!-- bench -->"):
        bench.write_page()


@pytest.mark.kernel
@pytest.mark.skipif(runtime.mode() != "GPU", reason="CUDA graphs")
def test_turns_time_each_call() -> None:
    x = torch.randn(2**24, device="cuda")
    times = measure.seconds_interleaved(
        {"one": lambda: x.mul(2), "four": lambda: [x.mul(2) for _ in range(4)]}, rounds=5
    )
    assert list(times) == ["one", "four"]
    assert 2 < times["four"].median / times["one"].median < 8


@pytest.mark.kernel
@pytest.mark.skipif(runtime.mode() != "GPU", reason="CUDA graphs")
def test_both_kinds_of_time_of_both_passes() -> None:
    """The host's share comes on top: a loop of eager calls is no faster than replays of the same calls."""
    with torch.cuda.stream(torch.cuda.Stream()):
        cell = beside_peers._Cell(64, True, 1024)
        found = {
            name: peer for name, peer in beside_peers.peers(True, 1024).items() if name in ("attention()", "cuDNN")
        }
        assert max(map(cell.error, found.values())) <= beside_peers.WRONG
        for direction in ("forward", "backward"):
            calls = {name: (peer, beside_peers._calls(cell, peer)[direction]) for name, peer in found.items()}
            graphs, eager = (beside_peers._times(calls, graph) for graph in (True, False))
            assert all(0 < 0.8 * graphs[name].median < eager[name].median for name in found)


@pytest.mark.skipif(runtime.mode() == "GPU", reason="this GPU would be measured")
def test_the_host_s_share_without_a_gpu(capsys) -> None:
    assert bench_host.main() == 1
    assert "needs a CUDA GPU" in capsys.readouterr().err


def test_in_one_mode_a_backward_pass_stays_on_the_thread_that_asks() -> None:
    threaded = torch._C._is_multithreading_enabled
    for mode, within in host.MODES.items():
        with within():
            assert threaded() == ("one thread" not in mode)
            assert torch.is_grad_enabled() == (mode != "no_grad")
        assert threaded()


def test_the_table_of_the_host_s_share() -> None:
    row = {"batch": 1, "heads": 2, "n": 64, "d": 64, "mode": "no_grad", "algorithm": "attention()", "host_us": 20.5}
    found = host.table([row, row | {"mode": "forward"}, row | {"algorithm": "FA2", "host_us": 9.0}])
    assert found.headers[1:] == ["[1, 2, 64, 64] no_grad", "[1, 2, 64, 64] forward"]
    assert found.rows == [["attention()", 20.5, 20.5], ["FA2", 9.0, ""]]

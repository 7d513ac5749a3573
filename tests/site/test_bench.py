"""``make bench``: the page on speed has the records' table, ratios are honest, and what is wrong is left out."""

import itertools
import sys
from functools import partial

import pytest
import torch

from course_lib import data, runtime
from course_lib.instruments import measure
from course_lib.recordings import bench, beside_peers
from course_lib.recordings.beside_peers import CELLS, KINDS, Peer, Timed, geometric_mean, ratios

SPEED = {"attention()": 1.0, "cuDNN": 2.0, "FA2": 3.0, "FA4": 1.25}  # seconds, at N = 1,024 times as many


def run(slow=(64, True, 1024)) -> data.Measured:
    """A made-up run: attention() in one second, in three in the cell ``slow``."""
    rows = []
    for name, (direction, how), (d, causal, n) in itertools.product(SPEED, KINDS, CELLS):
        seconds = 3.0 if name == "attention()" and (d, causal, n) == slow else SPEED[name]
        row = Timed(name, direction, how, d, causal, n, seconds, seconds, seconds, 100 / seconds, 0.003)
        rows.append(row._asdict())
    versions = {"torch": "2.11.0+cu128", "cudnn": "91900", "triton": "3.6.0", "flash-attn-4": "4.0.0b36"}
    made = {"date": "2026-01-02 03:04 UTC", "command": "make bench", "commit": "abc1234", "device": "NVIDIA H200"}
    return data.Measured(made | {"versions": versions}, data.check_rows(rows))


def test_rates_count_what_the_papers_count() -> None:
    for row in data.measured("nvidia-h200", "forward_ladder").rows:
        products = 2 * 2 * 16_384 * row["n"] * 2048 / (2 if row["causal"] else 1)
        assert row["tflops"] == pytest.approx(products / row["seconds"] / 1e12, abs=0.06)


def test_ratios_say_how_many_times_as_fast_ours_is() -> None:
    rows = bench.timed(run())
    found = ratios(rows, "cuDNN", "backward", "eager")
    assert sorted(found) == [pytest.approx(2 / 3)] + [2.0] * 11
    assert geometric_mean(found) == pytest.approx((2**12 / 3) ** (1 / 12))
    assert ratios(rows, "FlexAttention", "forward", "eager") == []
    line = "| H200 forward | replayed CUDA graphs | 1.83 (0.67) | 2.74 (1.00) | 1.14 (0.42) |  |"
    assert line in bench.page_table([run()]).splitlines()


class SmallCell(beside_peers._Cell):
    def __init__(self, d, causal, n) -> None:
        torch.manual_seed(0)
        *self.inputs, self.do = torch.randn(4, 2, 3, n, d).bfloat16()
        self.causal = causal


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


def test_the_page_shows_the_records() -> None:
    assert bench.BLOCK.search(bench.PAGE.read_text(encoding="utf-8")).group() == bench.block()

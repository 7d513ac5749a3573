"""Hardware counters: how ncu's output is read, and what is said where there is no ncu."""

import subprocess

import pytest

from course_lib.instruments import counters

NCU = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","_v1_kernel(float *)","gpu__time_duration.sum","ns","12,000"
"0","1","_v1_kernel(float *)","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,000"
"0","1","_v1_kernel(float *)","sm__warps_active.avg.pct_of_peak_sustained_active","%","6.25"
"1","1","copy","gpu__time_duration.sum","ns","500"
"1","1","copy","gpc__cycles_elapsed.avg.per_second","hz","1,585,000,000"
"1","1","copy","smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio","inst","0.75"
"""


def test_counters_are_read_from_ncu_as_one_row_for_each_kernel() -> None:
    first, second = counters.parse(NCU)
    assert first == {"kernel": "v1_kernel", "seconds": pytest.approx(12e-6), "l1_read": 32_000, "occupancy": 0.0625}
    assert second == {
        "kernel": "copy",
        "seconds": pytest.approx(5e-7),
        "clock_ghz": pytest.approx(1.585),
        "warps_gmma": 0.75,
    }


def test_a_case_is_counted_with_the_stages_and_the_stalls_that_were_asked_for(monkeypatch) -> None:
    asked: list[str] = []

    def run(command, **_):
        asked.extend(command)
        return subprocess.CompletedProcess(command, 0, NCU, "")

    monkeypatch.setattr(counters.shutil, "which", lambda name: name)
    monkeypatch.setattr(counters.subprocess, "run", run)
    counters.counters("V2", 16, 4096, num_stages=1, stalls=True)
    assert asked[-5:] == ["V2", "16", "4096", "64", "1"]
    assert "stalled_gmma" in next(x for x in asked if x.startswith("--metrics"))
    asked.clear()
    counters.counters("V2", 16, 4096)
    assert asked[-1] == "0"
    assert "stalled" not in next(x for x in asked if x.startswith("--metrics"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("V3", 1, 64), ValueError, "case is 'V3'; choose one of 'standard', 'V1'"),
        (("V2", 1, 64, 64, -1), ValueError, "num_stages is -1"),
        (("V2", 1, 64, 64, 0, "no"), TypeError, "stalls is 'no'"),
    ],
)
def test_bad_input(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        counters.counters(*arguments)


def test_a_metric_without_a_number_is_named() -> None:
    for line in ('"0","1","k","gpu__time_duration.sum","ns","n/a"', '"0","1","k","other","ns","1"'):
        with pytest.raises(
            counters.CountersUnavailableError, match=r"ncu gave '(n/a|1)' for the metric '(gpu__time|other)"
        ):
            counters.parse(f"{NCU}{line}\n")


def test_counters_say_what_is_missing(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(counters.CountersUnavailableError, match="ncu is not on the path"):
        counters.counters("V2", 1, 64)

"""Hardware counters: how ncu's output is read, and what is said where there is no ncu."""

import pytest

from course_lib import counters

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

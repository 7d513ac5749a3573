"""What the GPU itself counted: bytes at L1, L2 and DRAM, busy units, of each kernel of one call, read by Nsight Compute (ncu).

    python -m course_lib.instruments.counters V2 16 4096 64      # runs one case; ncu around it reads the counters

Needs a CUDA GPU, ``ncu`` on the path, and the right to read counters. Clocks are left as they are found; caches are
flushed before each kernel.
"""

import csv
import functools
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from course_lib import checks
from course_lib.instruments.peers import plain_attention

SECTOR = 32  # bytes; L1 and L2 count in sectors
# name in a recording: (metric of ncu, factor to bytes, seconds, a fraction or a count)
METRICS = {
    "seconds": ("gpu__time_duration.sum", 1e-9),
    "l1_read": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", SECTOR),
    "l1_write": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", SECTOR),
    "sm_read": ("l1tex__m_xbar2l1tex_read_sectors.sum", SECTOR),
    "l2_read": ("lts__t_sectors_srcunit_tex_op_read.sum", SECTOR),
    "l2_write": ("lts__t_sectors_srcunit_tex_op_write.sum", SECTOR),
    "dram_read": ("dram__bytes_read.sum", 1),
    "dram_write": ("dram__bytes_write.sum", 1),
    "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", 0.01),
    "tensor_cores": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 0.01),
    "special_functions": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", 0.01),
    "issue_slots": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 0.01),
    "instructions": ("smsp__inst_executed.sum", 1),
    "clock_ghz": ("gpc__cycles_elapsed.avg.per_second", 1e-9),
}
_COUNTS = ("l1_read", "l1_write", "sm_read", "l2_read", "l2_write", "dram_read", "dram_write", "instructions")
# Why a warp does not issue, by ncu's names, 'gmma' for wgmma: warps in that state for each cycle in which one issues.
_REASONS = (
    "selected not_selected gmma wait barrier long_scoreboard short_scoreboard math_pipe_throttle mio_throttle"
    " dispatch_stall no_instruction branch_resolving sleeping membar"
)
STALLS = {
    f"warps_{reason}": (f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio", 1)
    for reason in _REASONS.split()
}


class CountersUnavailableError(RuntimeError):
    """ncu is missing, or gave no counters; the message holds what it said."""


def cases() -> dict[str, Callable[..., Any]]:
    """The calls that can be counted, each on fp16 q, k, v [heads, N, d]."""
    from course_lib.attention import attention
    from course_lib.kernels import eight_bit
    from course_lib.kernels.loop_orders import flash_running, flash_v1, flash_v2

    def one_batch(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *heads: call(*(x[None] for x in heads))

    return {
        "standard": plain_attention,
        "V1": flash_v1,
        "V1, parallel": functools.partial(flash_v1, split=None),
        "running": flash_running,
        "V2": flash_v2,
        "attention()": one_batch(attention),
        "8 bits": one_batch(eight_bit.attention),
        "8 bits, Triton": one_batch(functools.partial(eight_bit.attention, kernel="Triton")),
    }


def counters(
    case: str, heads: int, n: int, d: int = 64, num_stages: int = 0, stalls: bool = False
) -> list[dict[str, Any]]:
    """Run ``case`` once under ncu; one row for each kernel it launched: {'kernel', 'seconds', 'l1_read', …}.

    Bytes, seconds, shares of the peak, instructions of warps, the clock; with ``stalls`` why warps wait, too (STALLS).
    ``num_stages`` is for those of our kernels that take it; 0 leaves it as it is.
    Raises TypeError or ValueError for bad arguments, CountersUnavailableError where ncu cannot do it.
    """
    checks.one_of("case", case, list(cases()))
    for name, value in (("heads", heads), ("n", n), ("d", d)):
        checks.positive_int(name, value)
    checks.whole("num_stages", num_stages, 0)
    checks.truth("stalls", stalls)
    if shutil.which("ncu") is None:
        raise CountersUnavailableError(
            "ncu is not on the path; install Nsight Compute (it comes with the CUDA toolkit)"
        )
    command = ["ncu", "--csv", "--print-units=base", "--clock-control=none", "--cache-control=all"]
    wanted = METRICS | (STALLS if stalls else {})
    command += ["--profile-from-start=off", "--metrics=" + ",".join(metric for metric, _ in wanted.values())]
    command += [sys.executable, "-m", "course_lib.instruments.counters", case, *map(str, (heads, n, d, num_stages))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = parse(done.stdout)
    if done.returncode != 0 or not rows:
        raise CountersUnavailableError(f"ncu gave no counters: {(done.stdout + done.stderr).strip()[-1500:]}")
    return rows


def parse(output: str) -> list[dict[str, Any]]:
    """ncu's CSV (a line for each kernel and metric, among lines that begin with '==') as one row for each kernel.

    Raises CountersUnavailableError for a metric that was not asked for and one without a number, which ncu writes as 'n/a'.
    """
    table = [line for line in output.splitlines() if line.startswith('"')]
    metrics = METRICS | STALLS
    names = {metric: name for name, (metric, _) in metrics.items()}
    kernels: dict[str, dict[str, Any]] = {}
    for line in csv.DictReader(table):
        row = kernels.setdefault(line["ID"], {"kernel": line["Kernel Name"].split("(")[0].strip("_ ")})
        metric, words = line["Metric Name"], line["Metric Value"]
        try:
            name, value = names[metric], float(words.replace(",", "")) * metrics[names[metric]][1]
        except (KeyError, ValueError):
            raise CountersUnavailableError(f"ncu gave {words!r} for the metric {metric!r}") from None
        row[name] = round(value) if name in _COUNTS else value
    return list(kernels.values())


def _run(case: str, heads: int, n: int, d: int, num_stages: int = 0) -> None:
    torch.manual_seed(0)
    call = cases()[case]
    if num_stages:
        call = functools.partial(call, num_stages=num_stages)
    q, k, v = (torch.randn(heads, n, d, device="cuda", dtype=torch.float16) for _ in range(3))
    call(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    call(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    _run(sys.argv[1], *map(int, sys.argv[2:6]))

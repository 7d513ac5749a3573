"""Every rung of the ladder in one run, on a machine with or without a GPU."""

from typing import Any

from course_lib import ladder


def full_stack() -> list[dict[str, Any]]:
    """d = 16: seconds of each rung for N = 8 … 4,096 as far as it goes, for one query for N <= 64, and its peak memory."""
    rungs = ladder.rungs()
    rows = ladder.timings([2**p for p in range(3, 13)], seconds_each=0.5)
    rows += ladder.timings([8, 16, 32, 64], rows=1, seconds_each=0.5)
    for row in rows:
        rung = rungs[row["rung"]]
        row["peak_bytes"] = ladder.peak_bytes(rung, row["n"], row["d"]) if row["rows"] == row["n"] else 0
    return rows

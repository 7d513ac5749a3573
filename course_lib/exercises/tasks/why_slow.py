"""Lecture 06: what a kernel waits for, from a profiler's report."""

import math

from course_lib import data
from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="06",
    title="why is it slow?",
    tolerance=0.1,
    parts=("the change", "the most that it can gain"),
    hints=(
        "How many seats does the GPU have, how many does the kernel take, and how many would it take with a program for each block of "
        "queries? Neither number of programs counts beyond the seats.",
        "What has to travel for one head: Q and O, n · d numbers each, and K and V, 2 · n · d numbers for each block of queries. Set the "
        "report's bytes against that sum over all heads.",
        "Each bound is a quotient: as it could be over as it is, for the seats taken; as it is over as it could be, for the bytes. "
        "What do the seats say of a kernel that has a program for each block already?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def why_slow(report: dict[str, int]) -> tuple[str, float]:
    """("programs", "bytes" or "neither", the most that this change can gain)."""
    r = report
    seats = r["sms"] * r["resident"]
    blocks = -(-r["n"] // r["block"])
    programs = min(seats, r["heads"] * blocks) / min(seats, r["programs"])
    needed = 2 * r["heads"] * (2 * r["n"] * r["d"] + blocks * 2 * r["n"] * r["d"])
    bytes_saved = r["bytes"] / needed
    if max(programs, bytes_saved) < 1.2:
        return "neither", 1.0
    return ("programs", programs) if programs > bytes_saved else ("bytes", bytes_saved)
'''
WHY = """
The same kernel can be slow for two reasons, and the shape decides: V1 with 16 heads leaves almost all seats empty; with 256 heads it takes
half of them or all, and then its accumulator, which goes to memory and back for every block of keys, costs more. A bound is no promise:
compare it with the gains in the check's lines. But the higher bound named the better change each time. (One recording is left out, V1
with 64 heads and num_stages=3: its bounds lie close together, and so do its gains, the other way round.) For V2 neither change is left;
what it waits for then is a matter of order, and of lectures 10 and 11.
"""
KERNELS = {"V1": "v1_kernel", "V1, parallel": "v1_kernel", "running": "running_kernel", "V2": "v2_kernel"}
LESS = {"V1": "V2, one per head", "V1, parallel": "running"}  # the same with everything on the chip
KEY = ("algorithm", "heads", "n", "num_stages")
RECORDED = (
    ("V1", 16, 16_384, 1),
    ("V1", 256, 1024, 1),
    ("V1, parallel", 16, 16_384, 1),
    ("V1", 256, 1024, 3),
    ("running", 64, 4096, 3),
    ("V2", 256, 1024, 1),
)


def cases(draw):
    rows, times = (data.measured("nvidia-h200", f"loop_orders{more}").rows for more in ("_counters", ""))
    seconds = {tuple(row[key] for key in KEY): row["seconds"] for row in times}
    found = {tuple(row[key] for key in KEY): row for row in rows if row["kernel"] == KERNELS.get(row["algorithm"])}
    for at in RECORDED:
        name, heads, n, stages = at
        row, spread = found[at], found["V1, parallel" if name == "V1" else name, heads, n, stages]
        report = {
            "heads": heads, "n": n, "d": 64, "block": 64, "programs": heads if name == "V1" else heads * n // 64, "sms": 132,
            "resident": round(16 * spread["occupancy"]), "bytes": row["l1_read"] + row["l1_write"],
        }  # fmt: skip
        gains = {"more programs": "V1, parallel"} if name == "V1" else {}
        gains |= {"fewer bytes": LESS[name]} if name in LESS else {}
        told = [f"{words} gained {seconds[at] / seconds[to, *at[1:]]:.1f}×" for words, to in gains.items()]
        words = f" (recorded: {', '.join(told)})" if told else ""
        yield Case(f"{name}, {heads} heads of {n:,}, num_stages={stages}{words}", (report,))
    for words, heads, n, programs, more in (
        ("500 heads of 128, one bound just above 1.2", 500, 128, 500, 1.22),
        ("442 heads of 128, one bound just below 1.2", 442, 128, 442, 1.05),
        ("230 heads of 4,096, two bounds that are near each other", 230, 4096, 230, 2),
        ("16 heads of 100, a block and a part of one", 16, 100, 16, 1),
    ):
        sizes = {"heads": heads, "n": n, "d": 64, "block": 64, "programs": programs, "sms": 132, "resident": 4}
        yield Case(words, ({**sizes, "bytes": round(more * _needed(heads, n, 64, 64))},))
    drawn = 0
    while drawn < 6:
        heads, n, (d, block) = draw.randint(1, 300), draw.randint(100, 20_000), draw.choices((64, 128), k=2)
        report = {
            "heads": heads, "n": n, "d": d, "block": block, "programs": draw.choice((heads, heads * math.ceil(n / block))),
            "sms": draw.choice((108, 132)), "resident": draw.randint(1, 4),
            "bytes": round(_needed(heads, n, d, block) * draw.uniform(1, 6)),
        }  # fmt: skip
        low, high = sorted(_bounds(report).values())
        if high / low > 1.5 and not 1 < high < 1.5:  # neither near each other nor near 1.2
            drawn += 1
            yield Case("any report", (report,))


def expected(report):
    """The larger of both bounds."""
    bounds = _bounds(report)
    change = max(bounds, key=lambda name: bounds[name])
    return (change, bounds[change]) if bounds[change] >= 1.2 else ("neither", 1.0)


def _bounds(report):
    heads, n, d, block = (report[name] for name in ("heads", "n", "d", "block"))
    seats = report["sms"] * report["resident"]
    taken, could = (min(x, seats) for x in (report["programs"], heads * math.ceil(n / block)))
    return {"programs": could / taken, "bytes": report["bytes"] / _needed(heads, n, d, block)}


def _needed(heads, n, d, block):
    """Bytes of Q and O, and of K and V once for each block of queries."""
    return heads * 2 * d * (2 * n + 2 * n * math.ceil(n / block))


COULD, TAKEN = 'min(seats, r["heads"] * blocks)', 'min(seats, r["programs"])'
WRONG = {
    "if programs count beyond the seats: the rest of them waits": (COULD, 'r["heads"] * blocks', TAKEN, 'r["programs"]'),
    "if an SM is taken to have one seat: it has room for `resident` programs": (' * r["resident"]', ""),
    "if empty seats decide as long as there are any: half of them may cost less than the bytes do":
        ("programs > bytes_saved", "programs >= 1.2"),
    "if K and V are counted once: each block of queries reads them again": ("blocks * 2 * r", "2 * r"),
    "if the number of blocks is rounded down: the last tokens are a block, too": ('-(-r["n"] // r["block"])', 'r["n"] // r["block"]'),
    "if seats count beyond the blocks: there are no more programs than blocks": (COULD, "seats"),
}  # fmt: skip

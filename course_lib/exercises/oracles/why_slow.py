"""Lecture 06: what why_slow is checked by."""

import math
import random
from collections.abc import Iterable
from typing import Any

from course_lib import data
from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

GPU = "nvidia-h200"
KERNELS = {"V1": "v1_kernel", "V1, parallel": "v1_kernel", "running": "running_kernel", "V2": "v2_kernel"}
LESS = {"V1": "V2, one per head", "V1, parallel": "running"}  # the same with everything on the chip
KEY = ("algorithm", "heads", "n", "num_stages")
CASES = (
    ("V1", 16, 16_384, 1),
    ("V1", 256, 1024, 1),
    ("V1", 64, 4096, 1),
    ("V1, parallel", 16, 16_384, 1),
    ("V1", 256, 1024, 3),
    ("V1", 16, 16_384, 3),
    ("V1, parallel", 64, 4096, 3),
    ("running", 64, 4096, 3),
    ("V2", 256, 1024, 1),
)


def cases() -> Iterable[Case]:
    rows = data.measured(GPU, "loop_orders_counters").rows
    seconds = {tuple(row[key] for key in KEY): row["seconds"] for row in data.measured(GPU, "loop_orders").rows}
    found = {tuple(row[key] for key in KEY): row for row in rows if row["kernel"] == KERNELS.get(row["algorithm"])}
    for at in CASES:
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
    for words, heads, n, programs, times in (
        ("one head of 4,096: fewer blocks than seats", 1, 4096, 1, 4),
        ("four heads of 4,096, and hardly a byte too many", 4, 4096, 4, 1.1),
        ("200 heads of 128, a program for each block", 200, 128, 400, 3),
        ("500 heads of 128, one bound just above 1.2", 500, 128, 500, 1.22),
        ("442 heads of 128, one bound just below 1.2", 442, 128, 442, 1.05),
        ("230 heads of 4,096, two bounds that are near each other", 230, 4096, 230, 2),
        ("16 heads of 100, a block and a part of one", 16, 100, 16, 1),
    ):
        sizes = {"heads": heads, "n": n, "d": 64, "block": 64, "programs": programs, "sms": 132, "resident": 4}
        yield Case(words, ({**sizes, "bytes": round(times * _needed(heads, n, 64, 64))},))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading; reports whose bounds are not near each other or 1.2."""
    found = 0
    while found < 8:
        heads, n, d, block = (
            draw.randint(1, 300),
            draw.randint(100, 20_000),
            draw.choice((64, 128)),
            draw.choice((64, 128)),
        )
        most, sms, resident = heads * math.ceil(n / block), draw.choice((108, 132)), draw.randint(1, 4)
        report = {
            "heads": heads, "n": n, "d": d, "block": block, "programs": draw.choice((heads, most)), "sms": sms, "resident": resident,
            "bytes": round(_needed(heads, n, d, block) * draw.uniform(1, 6)),
        }  # fmt: skip
        low, high = sorted(_bounds(report).values())
        if high / low > 1.5 and not 1 < high < 1.5:
            found += 1
            yield Case("any report", (report,))


def expected(report: dict[str, int]) -> tuple[str, float]:
    """The larger of both bounds."""
    bounds = _bounds(report)
    change = max(bounds, key=lambda name: bounds[name])
    return (change, bounds[change]) if bounds[change] >= 1.2 else ("neither", 1.0)


def _bounds(report: dict[str, int]) -> dict[str, float]:
    heads, n, d, block = (report[name] for name in ("heads", "n", "d", "block"))
    seats = report["sms"] * report["resident"]
    taken, could = (min(x, seats) for x in (report["programs"], heads * math.ceil(n / block)))
    return {"programs": could / taken, "bytes": report["bytes"] / _needed(heads, n, d, block)}


def _needed(heads: int, n: int, d: int, block: int) -> int:
    """Bytes of Q and O, row by row, and of K and V, once for each block of queries."""
    return sum(2 * d * (2 * n + 2 * n * math.ceil(n / block)) for _ in range(heads))


def _why(report, bug):
    r: dict[str, Any] = dict(report)
    seats = r["sms"] * (1 if bug == "a program an SM" else r["resident"])
    blocks = r["n"] // r["block"] if bug == "rounded down" else math.ceil(r["n"] / r["block"])
    most = blocks if bug == "blocks of one head" else r["heads"] * blocks
    more = min(seats, most) / min(seats, r["programs"])
    if bug == "no seats":
        more = most / r["programs"]
    elif bug == "all seats":
        more = seats / min(seats, r["programs"])
    elif bug == "share":
        more = min(seats, most) / seats
    size = {"fp32": 4, "1 byte": 1}.get(bug, 2)
    heads = 1 if bug == "one head" else r["heads"]
    again = 1 if bug == "once" else blocks
    needed = (
        size
        * heads
        * r["d"]
        * (2 * (again if bug == "Q each time" else 1) * r["n"] + (1 if bug == "no V" else 2) * r["n"] * again)
    )
    fewer = r["bytes"] / needed
    if bug == "either" and min(more, fewer) < 1.2:
        return "neither", 1.0
    least = {"from 2 on": 2, "from 1.1 on": 1.1, "above 1": 1.0001, "never neither": 0}.get(bug, 1.2)
    if max(more, fewer) < least:
        return "neither", max(more, fewer) if bug == "its bound" else 1.0
    if bug == "first":
        return ("programs", more) if more >= 1.2 else ("bytes", fewer)
    if bug == "bytes first":
        return ("bytes", fewer) if fewer >= 1.2 else ("programs", more)
    change = "programs" if more >= fewer else "bytes"
    if bug == "lower":
        change, more, fewer = "bytes" if more > fewer else "programs", *2 * (min(more, fewer),)
    return change, more * fewer if bug == "both" else max(more, fewer)


WRONG = variants(
    _why,
    {
        "if programs count beyond the seats: the rest of them waits": "no seats",
        "if an SM is taken to have one seat: it has room for `resident` programs": "a program an SM",
        "if empty seats decide as long as there are any: half of them may cost less than the bytes do": "first",
        "if bytes decide as long as they can be saved: with few heads the empty seats cost more": "bytes first",
        "if K and V are counted once: each block of queries reads them again": "once",
        "if the number of blocks is rounded down: the last tokens are a block, too": "rounded down",
        "if numbers have 4 bytes: these have 2": "fp32",
        "if numbers are taken for bytes: a number in fp16 has 2": "1 byte",
        "if Q and O are counted for each block: each block of queries has its own rows of them": "Q each time",
        "if seats count beyond the blocks: there are no more programs than blocks": "all seats",
        "if a change is worth it from a higher bound on: the question says 1.2": "from 2 on",
        "if a change is worth it from a lower bound on: the question says 1.2": "from 1.1 on",
        "if each bound above 1 is worth it: the question says 1.2": "above 1",
        "if the bytes of one head are set against those of all": "one head",
        "if the change with the lower bound is taken: the higher one is asked": "lower",
        "if the seats that are taken are set against all seats: the gain is over those taken now": "share",
        "if the blocks of one head are counted: each head has as many": "blocks of one head",
        "if V is forgotten: it is as large as K": "no V",
        "if there is nothing to gain as soon as one bound is below 1.2: the higher one decides": "either",
        "if the two bounds are multiplied: the question is what one change can gain": "both",
        "if there is always something to gain: for some kernels neither bound reaches 1.2": "never neither",
        'if the bound stands beside "neither": there it is 1.0': "its bound",
    },
)

"""Lecture 06: what a kernel waits for, from a profiler's report."""

from course_lib.exercises.base import Exercise

ASKED = r"""
A profiler's report of an attention kernel, forward, without a mask, in fp16, says: `heads`, `n` (tokens of each head), `d`, `block`
(queries in a block), `programs` (launched), `resident` (programs that fit on an SM at once), `sms`, and `bytes` (loaded and stored by all
programs). Two changes could help:

- `"programs"`: launch a program for each block of queries, ⌈n / block⌉ for each head. That gains at most what it adds in taken seats.
- `"bytes"`: keep everything on the chip but what has to travel, 2 bytes a number: Q is read and O written once, and all of a head's K and V
  is read once for each of its blocks of queries. That gains at most what it saves in bytes.

Return the change with the higher bound, and the bound: ("programs", 4.0), say; or ("neither", 1.0) if no bound reaches 1.2. A bound may be
off by a tenth. Most of the check's reports were recorded on an H200, and it says of these what the changes gained there.
"""

STUB = '''
def why_slow(report: dict[str, int]) -> tuple[str, float]:
    """("programs", "bytes" or "neither", the most that this change can gain)."""
    ...
'''


EXERCISE = Exercise(
    name="why_slow",
    lecture="06",
    title="why is it slow?",
    level=2,
    minutes=15,
    asked=ASKED,
    stub=STUB,
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

"""Lecture 10: producer and consumers of a persistent kernel, on simulated mbarriers."""

from collections.abc import Callable
from typing import Any

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import warps

ASKED = r"""
A *persistent* kernel does several jobs one after another, and its ring goes on from job to job. `jobs` says how many tiles each has
(perhaps none). Write both roles as one generator: the producer brings every tile once, and each consumer adds up the tiles of each job
and returns the list of sums. They ask for things by `yield`, for a buffer `b` in 0 … `buffers` − 1:

| request | what it does |
| --- | --- |
| `yield ("wait", "full", b, phase)` | return when that phase of `full[b]` (or `"empty"`) is complete |
| `yield ("expect", "full", b, 8192)` | arrive at `full[b]`, and announce a tile's bytes |
| `yield ("copy", job, tile, b)` | begin to copy a tile to buffer `b`; its bytes count for `full[b]` |
| `x = yield ("read", b)` | the tile in buffer `b` (here a number), by ordinary loads; once for each tile |
| `yield ("fence",)` | the loads so far are done before any later copy |
| `yield ("arrive", "empty", b)` | arrive at `empty[b]` |

`full[b]` needs one arrival and the bytes, `empty[b]` one arrival of each consumer; of a fresh barrier phase 1 counts as complete. What a
role asks for must not depend on the numbers that it reads: the check notes it once, and then lets everybody run in every order, fast and
slow. It names what can go wrong: a deadlock, a tile that is overwritten or read too early, a missing fence. As many tiles have to be on
their way as there are buffers.
"""

STUB = '''
def tile_ring(role: str, jobs: list[int], buffers: int):
    """A generator for role "producer" or "consumer"; a consumer returns the sum of each job's tiles."""
    ...
'''

ROLES = ("producer", "consumer")


def run(function: Callable[..., Any], case: Case) -> list[Any]:
    """What the producer and a consumer ask for, each alone, and what it returns."""
    jobs, buffers, _ = case.args
    tiles = [tile for job in jobs for tile in job]
    return [warps.recorded(function(role, [len(job) for job in jobs], buffers), tiles) for role in ROLES]


def examine(case: Case, result: Any) -> tuple[str, Any, int]:
    """What goes wrong when they run together, what a consumer returned, and the most tiles on their way at once."""
    producer, consumer = (warps.Record(*record) for record in result)
    for role, record in zip(ROLES, (producer, consumer)):
        if record.trouble:
            return f"the {role} {record.trouble}", None, 0
    trouble, most = warps.tried(producer.requests, consumer.requests, *case.args)
    return trouble, None if trouble else consumer.returned, most


EXERCISE = Exercise(
    name="tile_ring",
    lecture="10",
    title="a ring for a persistent kernel",
    level=2,
    minutes=20,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    examine=examine,
    parts=("the run", "sums of a consumer", "most tiles on their way"),
    answers=("course_lib.exercises.harness.warps.tried",),
    arguments=("tiles of each job", "buffers", "consumers"),
    hints=(
        "Follow one buffer through three rounds on paper: who waits for which phase of full and of empty? What tells the round, "
        "if a job has five tiles and the next begins in the middle of a round?",
        "Both roles run through the same tiles in the same order and count them; the count never starts again. Buffer and phases follow "
        "from it as in the page's table.",
        "The producer: wait for empty, expect, copy. A consumer: wait for full, read, fence, arrive. An exchange of two neighbours is one "
        "of the mistakes that the check names.",
    ),
)

"""The simulated warps: phases as an mbarrier has them, every order is tried, and what goes wrong is told by its name."""

import re

import pytest

from course_lib.exercises import exercises
from course_lib.exercises.harness.warps import TILE_BYTES, Barrier, recorded, tried
from course_lib.exercises.tasks.tile_ring import ROLES


def test_a_phase_is_complete_when_arrivals_and_bytes_are_there() -> None:
    barrier = Barrier(1)
    assert (barrier.passed(0), barrier.passed(1)) == (False, True)
    barrier.change(arrivals=1, expected=TILE_BYTES)
    barrier.change(expected=-TILE_BYTES // 2)
    assert not barrier.passed(0)
    barrier.change(expected=-TILE_BYTES // 2)
    assert (barrier.passed(0), barrier.passed(1)) == (True, False)


def _one(*requests, consumer=()):
    """A producer that asks for these things, beside consumers that ask for those."""
    return requests, consumer


COPY = (("expect", "full", 0, TILE_BYTES), ("copy", 0, 0, 0))


@pytest.mark.parametrize(
    ("make", "trouble"),
    [
        (_one(("wait", "full", 0, 0)), r"deadlock: the producer waits for phase 0 of full\[0\]"),
        (_one(*COPY, consumer=[("read", 0)]), "reading too early: consumer 1 reads buffer 0 before"),
        (_one(consumer=[("read", 0)]), "reading too early: consumer 1 reads buffer 0 before anything has landed there"),
        (_one(*COPY, ("copy", 0, 1, 0)), "overwriting: tile 0 of job 0 is still landing in buffer 0"),
        (_one(*COPY, ("wait", "full", 0, 0), ("copy", 0, 1, 0)), "where consumer 1 has not read tile 0 of job 0"),
        (
            _one(*COPY, ("wait", "empty", 0, 0), ("copy", 0, 1, 0), consumer=[("wait", "full", 0, 0), ("read", 0), ("arrive", "empty", 0)]),
            "a fence is missing: tile 1 of job 0 is copied to buffer 0",
        ),
        (_one(*COPY, consumer=[("wait", "full", 0, 0), ("read", 0), ("read", 0)]), "a second time"),
        (_one(("copy", 0, 2, 0)), "the producer yields what is no request"),
        (_one(("expect", "empty", 0, 1)), "the producer yields what is no request"),
        (_one(("wait", "full", 0, 2)), "the producer yields what is no request"),
        (_one(("arrive", "full", 1)), "the producer yields what is no request"),
        (_one(("read", 0)), "the producer yields what is no request"),
        (_one("fence"), "the producer yields what is no request"),
        (_one(*COPY), "consumer 1 ends before it has read tile 0 of job 0"),
        (_one(("copy", 0, 1, 0), COPY[0], consumer=[("wait", "full", 0, 0), ("read", 0)]), "a wrong tile: consumer 1 reads tile 1 of"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told(make, trouble) -> None:
    found, _ = tried(*make, [[3, 4]], 1, 1)
    assert re.search(trouble, found), found


def test_a_role_is_recorded_alone() -> None:
    def adds(n):
        total = 0
        for _ in range(n):
            yield ("wait", "full", 0, 0)
            total += yield ("read", 0)
        return total

    assert recorded(adds(2), [3, 4]) == ([("wait", "full", 0, 0), ("read", 0)] * 2, 7, "")
    assert recorded(adds(3), [3, 4]).returned == 7  # there is nothing more to read
    assert recorded(7, [3]).trouble == "returns at once: without a yield it is no generator"
    endless = recorded((("fence",) for _ in iter(int, 1)), [])
    assert (endless.trouble, len(endless.requests)) == ("never stops asking", 1)


def test_with_two_consumers_both_get_all_and_the_buffers_are_full() -> None:
    space: dict = {}
    exec(exercises()["tile_ring"].solution.source, space)
    producer, consumer = (recorded(space["tile_ring"](role, [2, 3], 2), [3, 4, 5, 6, 7]) for role in ROLES)
    assert consumer.returned == [7, 18]
    assert tried(producer.requests, consumer.requests, [[3, 4], [5, 6, 7]], 2, 2) == ("", 2)

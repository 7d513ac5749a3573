"""Lecture 10: what tile_ring is checked by."""

import random
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def _tiles(*counts: int) -> list[list[int]]:
    """Jobs with so many tiles, all of different numbers."""
    numbers = iter([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43])
    return [[next(numbers) for _ in range(count)] for count in counts]


def cases() -> Iterable[Case]:
    yield Case("one tile", (_tiles(1), 1, 1))
    yield Case("three tiles, one buffer", (_tiles(3), 1, 1))
    yield Case("more buffers than tiles", (_tiles(2), 4, 1))
    yield Case("two buffers, three rounds, two consumers", (_tiles(6), 2, 2))
    yield Case("jobs of two rounds each", (_tiles(4, 4), 2, 1))
    yield Case("jobs that end in the middle of a round, one without tiles", (_tiles(3, 0, 1, 4), 2, 2))
    yield Case("three buffers", (_tiles(1, 5, 2), 3, 1))
    yield Case("four jobs of one tile: three are on their way at once", (_tiles(1, 1, 1, 1), 3, 1))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(4):
        jobs = [[draw.randint(1, 99) for _ in range(draw.randint(0, 4))] for _ in range(draw.randint(2, 3))]
        yield Case("any jobs", ([*jobs, [draw.randint(1, 99)]], draw.randint(1, 3), draw.randint(1, 2)))


def expected(jobs: list[list[int]], buffers: int, consumers: int) -> tuple[str, list[int], int]:
    """Plain sums; nothing is to go wrong, and a ring is full when the consumers are slow."""
    return "", [sum(job) for job in jobs], min(buffers, sum(map(len, jobs)))


def _ring(role, jobs, buffers, bug):
    n = 0
    sums: list[int] = []
    for job, tiles in enumerate(jobs):
        total = sums[-1] if bug == "runs on" and sums else 0
        n = 0 if bug == "starts again" else n
        for tile in range(tiles):
            b, phase = n % buffers, n // buffers % 2
            phase = {"by tile": n % 2, "of the job": tile // buffers % 2}.get(bug, phase)
            n += 1
            if role == "producer":
                if bug != "never waits":
                    yield "wait", "full" if bug == "full" else "empty", b, phase if bug == "same phase" else 1 - phase
                if bug != "no expect":
                    yield "expect", "full", b, 4096 if bug == "half" else 8192
                if bug != "no copy":
                    yield "copy", job, tile, b
                if bug == "drains" and tile == tiles - 1:
                    yield "wait", "empty", b, phase
                if bug == "waits itself":
                    yield "wait", "full", b, phase
                continue
            if bug != "reads at once":
                yield "wait", "empty" if bug == "empty" else "full", b, 0 if bug == "phase 0" else phase
            if bug == "released first":
                yield "arrive", "empty", b
            total += yield "read", b
            if bug not in ("no fence", "fence last") and (bug != "fence per job" or tile == tiles - 1):
                yield ("fence",)
            if bug not in ("released first", "keeps"):
                yield "arrive", "empty", b
            if bug == "for both":
                yield "arrive", "empty", b
            if bug == "fence last":
                yield ("fence",)
        if tiles or bug != "none for none":
            sums.append(total)
    return sum(sums) if bug == "one sum" else sums


WRONG = variants(
    _ring,
    {
        "if the count of tiles starts again with each job: the barriers' phases go on": "starts again",
        "if the producer never waits for empty, or for a phase that is over: it overwrites what nobody has read": "never waits",
        "if the producer waits for the phase of empty that has the parity of full's: in round 0 nobody has arrived there": "same phase",
        "if a consumer does not wait for full, or for a past phase, or full not for bytes: the copy is still on its way": "reads at once",
        "if a consumer always waits for phase 0: in round 1 that phase is long complete": "phase 0",
        "if nothing is expected: without its arrival full is never complete": "no expect",
        "if a tile is expected and not copied, or the bytes of two are expected": "no copy",
        "if too few bytes are expected: full is complete when half of the tile has landed": "half",
        "if no fence stands between the loads and the arrival: TMA's next write may overtake them": "no fence",
        "if the fence comes after the arrival: by then the producer may have issued the next copy": "fence last",
        "if a buffer is released before it is read": "released first",
        "if a consumer never arrives at empty: the producer waits for it": "keeps",
        "if a consumer arrives twice: each consumer arrives for itself": "for both",
        "if one tile is on its way at a time: use all buffers, and leave the wait for a copy to the consumers": "waits itself",
        "if the producer waits at the end of a job until its last tile is read: the ring runs empty between jobs": "drains",
        "if the phase changes with each tile: it changes with each round of the buffers": "by tile",
        "if the buffer comes from the count, and the phase from the job's own tiles: both come from the count": "of the job",
        "if a consumer waits for empty: full says that a tile is there": "empty",
        "if the producer waits for full: empty says that a buffer may be overwritten": "full",
        "if there is one fence for each job: each buffer is released by itself, and before that its loads have to be done": "fence per job",
        "if the sum runs on from job to job: each job has its own": "runs on",
        "if a job without tiles has no sum: it has 0": "none for none",
        "if all jobs are added up: return a list, one sum for each": "one sum",
    },
)

"""A producer and consumers on one simulated SM, as generators: buffers, mbarriers, and a TMA unit that takes its time.

What a role asks for does not depend on what the tiles hold. So it is recorded once, alone, and the record is run in every order.
What differs from a GPU: a tile is one number, all loads of a tile are one request, and a wrong order is told at once, not by luck.
Source: PTX ISA, "mbarrier" and "async proxy"; the ring of ``kernels/hopper/rings.py``.
"""

import itertools
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

from course_lib.exercises.turns import Turns, Waits

TILE_BYTES = 8192
PARTS = 2  # in which a tile lands
BARRIERS = ("full", "empty")


class Barrier:
    """An mbarrier: a phase is complete when no arrival and no byte is missing."""

    def __init__(self, arrivals: int):
        self.arrivals, self.missing, self.bytes, self.completed = arrivals, arrivals, 0, 0

    def passed(self, phase: int) -> bool:
        """Whether a wait for a phase, 0 or 1, returns; of a fresh barrier phase 1 counts as complete."""
        return self.completed % 2 != phase

    def lacks(self) -> str:
        """In words what its phase is not complete without."""
        bytes_ = f"{self.bytes} bytes are missing" if self.bytes > 0 else f"{-self.bytes} bytes too many have landed"
        arrivals = f"which lacks {self.missing} arrival{'s' * (self.missing != 1)}"
        return ", and ".join([arrivals] * (self.missing > 0) + [f"where {bytes_}"] * (self.bytes != 0))

    def change(self, arrivals: int = 0, expected: int = 0) -> None:
        """Count arrivals, and bytes that are promised, or, negative, that have landed."""
        self.missing, self.bytes = self.missing - arrivals, self.bytes + expected
        if self.missing == 0 and self.bytes == 0:
            self.missing, self.completed = self.arrivals, self.completed + 1


class Buffer:
    """What lies in a buffer: a tile (-1 before the first), how much of it has landed, and what consumers have done with it."""

    def __init__(self) -> None:
        self.tile, self.landed = -1, PARTS
        self.readers: set[int] = set()
        self.unfenced: set[int] = set()


class Record(NamedTuple):
    """What a role has asked for, in order, and what it returned; ``trouble`` in words if it came to no end, or is no generator."""

    requests: list[Any]
    returned: Any = None
    trouble: str = ""


class Warps(Turns):
    """One run, in one order of who goes first. Generator 0 is the producer, 1 … are consumers, the last is the TMA unit.

    ("wait", barrier, buffer, phase), ("arrive", barrier, buffer), ("expect", "full", buffer, bytes): arrives, and promises bytes.
    ("copy", job, tile, buffer): begins to bring a tile to a buffer, and lets its full barrier count the bytes. ("read", buffer): the
    tile, by loads of the threads' own. ("fence",): these are done before anything that comes later, TMA's writes included.
    """

    def __init__(self, jobs: Sequence[Sequence[int]], buffers: int, consumers: int, newest_first: bool):
        self._jobs, self._consumers, self._newest_first = jobs, consumers, newest_first
        self._starts = [0, *itertools.accumulate(len(job) for job in jobs)]
        self._tiles = sum(map(len, jobs))
        self._barriers = {
            "full": [Barrier(1) for _ in range(buffers)],
            "empty": [Barrier(consumers) for _ in range(buffers)],
        }
        self._buffers = [Buffer() for _ in range(buffers)]
        self._landing: list[int] = []  # buffers to which tiles are on their way
        self._reads = [0] * (consumers + 1)  # tiles that each has read
        self.most = 0

    def name(self, who: int) -> str:
        """What a generator is called in ``trouble``."""
        return "the producer" if who == 0 else f"consumer {who}"

    def unread(self) -> str:
        """Who has not read all tiles, in words; '' if all have."""
        words = (
            f"{self.name(who)} ends before it has read {self._told(self._reads[who])}"
            for who in range(1, self._consumers + 1)
            if self._reads[who] < self._tiles
        )
        return next(words, "")

    def stuck(self, waiting: Sequence[tuple[int, Any]]) -> str:
        """In words who waits for what."""
        words = [
            f"{self.name(who)} waits for phase {ask[3]} of {ask[1]}[{ask[2]}], {self._barriers[ask[1]][ask[2]].lacks()}"
            for who, ask in waiting
        ]
        return f"deadlock: {'; '.join(words)}"

    def unit(self) -> Generator[Any, Any, None]:
        """The TMA unit."""
        while True:
            yield ("land",)

    def answer(self, who: int, request: Any) -> Any:
        """What the generator gets for its request. Raises Waits if it has to wait; sets ``trouble`` for a request that there is not."""
        if who > self._consumers:
            return self._land()
        match request:
            case ("wait", str(kind), int(b), 0 | 1 as phase) if self._is_barrier(kind, b):
                if not self._barriers[kind][b].passed(phase):
                    raise Waits
                return None
            case ("arrive", str(kind), int(b)) if self._is_barrier(kind, b):
                return self._barriers[kind][b].change(arrivals=1)
            case ("expect", "full", int(b), int(size)) if self._is_barrier("full", b):
                return self._barriers["full"][b].change(arrivals=1, expected=size)
            case ("copy", int(job), int(tile), int(b)) if self._is_tile(job, tile) and self._is_barrier("full", b):
                return self._copy(self._starts[job] + tile, b)
            case ("read", int(b)) if who and self._is_barrier("full", b):
                return self._read(who, b)
            case ("fence",):
                for buffer in self._buffers:
                    buffer.unfenced.discard(who)
                return None
        self.trouble = f"{self.name(who)} yields what is no request: {str(request)[:60]}"
        raise Waits

    def _is_barrier(self, kind: str, buffer: int) -> bool:
        return kind in BARRIERS and 0 <= buffer < len(self._buffers)

    def _is_tile(self, job: int, tile: int) -> bool:
        return 0 <= job < len(self._jobs) and 0 <= tile < len(self._jobs[job])

    def _told(self, tile: int) -> str:
        job = max(j for j, start in enumerate(self._starts[:-1]) if start <= tile and self._jobs[j])
        return f"tile {tile - self._starts[job]} of job {job}"

    def _copy(self, tile: int, b: int) -> None:
        buffer = self._buffers[b]
        unread = [c for c in range(1, self._consumers + 1) if c not in buffer.readers]
        if buffer.landed < PARTS:
            self.trouble = f"overwriting: {self._told(buffer.tile)} is still landing in buffer {b} when {self._told(tile)} is copied there"
        elif buffer.tile >= 0 and unread:
            self.trouble = (
                f"overwriting: {self._told(tile)} is copied to buffer {b}, where {self.name(unread[0])} has not read "
                f"{self._told(buffer.tile)}"
            )
        elif buffer.unfenced:
            self.trouble = (
                f"a fence is missing: {self._told(tile)} is copied to buffer {b}, and may overtake the loads by which "
                f"{self.name(min(buffer.unfenced))} reads {self._told(buffer.tile)}"
            )
        buffer.tile, buffer.landed, buffer.readers = tile, 0, set()
        self._landing.append(b)
        self.most = max(self.most, len(self._landing))

    def _land(self) -> None:
        """A part of a tile lands: of the oldest, or of the newest that is on its way."""
        if not self._landing:
            raise Waits
        b = self._landing[-1 if self._newest_first else 0]
        buffer = self._buffers[b]
        buffer.landed += 1
        if buffer.landed == PARTS:
            self._landing.remove(b)
        self._barriers["full"][b].change(expected=-TILE_BYTES // PARTS)

    def _read(self, who: int, b: int) -> None:
        buffer = self._buffers[b]
        if buffer.tile < 0 or buffer.landed < PARTS:
            what = "anything has landed" if buffer.tile < 0 else f"{self._told(buffer.tile)} has landed"
            part = f", when {buffer.landed} of its {PARTS} parts had" if buffer.landed % PARTS else ""
            self.trouble = f"reading too early: {self.name(who)} reads buffer {b} before {what} there{part}"
            raise Waits
        if who in buffer.readers:
            self.trouble = (
                f"reading too early: {self.name(who)} reads {self._told(buffer.tile)} in buffer {b} a second time"
            )
            raise Waits
        if buffer.tile != self._reads[who]:
            self.trouble = f"a wrong tile: {self.name(who)} reads {self._told(buffer.tile)} where {self._told(self._reads[who])} is next"
            raise Waits
        self._reads[who] += 1
        buffer.readers.add(who)
        buffer.unfenced.add(who)


def recorded(code: Any, tiles: Sequence[int]) -> Record:
    """What a role asks for if nobody ever waits; what it reads are the tiles, one after the other."""
    if not isinstance(code, Generator):
        return Record([], trouble="returns at once: without a yield it is no generator")
    requests: list[Any] = []
    coming, answer = iter(tiles), None
    try:
        while len(requests) < Warps.longest:
            requests.append(code.send(answer))
            reads = isinstance(requests[-1], tuple | list) and requests[-1] and requests[-1][0] == "read"
            answer = next(coming, 0) if reads else None
    except StopIteration as end:
        return Record(requests, end.value)
    return Record(requests[:1], trouble="never stops asking")


def tried(
    producer: Sequence[Any], consumer: Sequence[Any], jobs: Sequence[Sequence[int]], buffers: int, consumers: int
) -> tuple[str, int]:
    """What goes wrong with what a producer and each of the consumers ask for, in some order of who goes first ('' if nothing does), and
    the most tiles on their way at once, of the run in which the producer comes first and the TMA unit last."""
    most = 0
    for order, newest_first in _orders(consumers):
        run = Warps(jobs, buffers, consumers, newest_first)
        actors = [_asks(producer), *(_asks(consumer) for _ in range(consumers)), run.unit()]
        run.run(actors, order, eager=True, helpers=1)
        if trouble := run.trouble or run.unread():
            return trouble, 0
        most = most or run.most
    return "", most


def _asks(requests: Sequence[Any]) -> Generator[Any, Any, None]:
    for request in requests:  # noqa: UP028 - to a list nothing can be sent
        yield request


def _orders(consumers: int) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Who goes first, from the producer first and the TMA unit last on; tiles land in order, or the newest first."""
    return itertools.product(itertools.permutations(range(consumers + 2)), (False, True))

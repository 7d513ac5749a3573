"""Lecture 11: what setmaxnreg is checked by."""

import random
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("two consumers, a producer that keeps 24", (2, 24))
    yield Case("two consumers, a producer that keeps 40", (2, 40))
    yield Case("three consumers: a share that is no multiple of 8", (3, 40))
    yield Case("three consumers", (3, 24))
    yield Case("two consumers: a share that is no multiple of 8", (2, 32))
    yield Case("one consumer: the limit of 256", (1, 24))
    yield Case("nobody gives anything back", (3, 128))
    yield Case("four consumers: 512 / 5 is no whole number", (4, 24))
    yield Case("five consumers", (5, 32))
    yield Case("seven consumers, 1,024 threads", (7, 40))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(10):
        yield Case("any numbers", (draw.randint(1, 7), 8 * draw.randint(3, 7)))


def expected(consumers: int, producer: int) -> int:
    """The largest number that keeps all rules, by trying them."""
    sizes = range(8, 257, 8)
    start = max(r for r in sizes if 128 * r * (consumers + 1) <= 65_536)
    owned = 128 * start * (consumers + 1)
    return max(r for r in sizes if 128 * (producer + consumers * r) <= owned)


def _setmaxnreg(consumers, producer, bug):
    start = 512 // (consumers + 1) // (1 if bug == "start" else 8) * (1 if bug == "start" else 8)
    start = 168 if bug == "168" else start
    if bug == "without the producer":
        start = 512 // consumers // 8 * 8
        return min(256, (start * consumers - producer) // consumers // 8 * 8)
    owned = 512 if bug == "all" else start * (consumers + 1)
    among = 2 if bug == "two" else consumers + (bug == "all warpgroups")
    share = (owned - (0 if bug == "producer" else producer)) // among
    if bug == "gift":
        share = start + (start - producer)
    if bug == "its own start":
        share = (consumers * start - producer) // consumers
    whole = {"share": share, "up": -(-share // 8) * 8, "nearest": (share + 4) // 8 * 8}.get(bug, share // 8 * 8)
    return whole if bug == "limit" else min({"255": 248, "255 itself": 255}.get(bug, 256), whole)


WRONG = variants(
    _setmaxnreg,
    {
        "if the consumers share all 512: what the rounding at the start leaves over belongs to nobody": "all",
        "if the start is not rounded down to a multiple of 8: 512 / 5 leaves 96 for each, not 102": "start",
        "if the share is not rounded down to a multiple of 8: setmaxnreg refuses it": "share",
        "if the share is rounded up to a multiple of 8: the consumers request more than there is and wait forever": "up",
        "if the share is rounded to the nearest multiple of 8: rounded up, there are not enough": "nearest",
        "without the limit of 256": "limit",
        "if the limit is 255, rounded down to 248: setmaxnreg takes up to 256": "255",
        "if each consumer gets all that the producer gives away: they share it": "gift",
        "if the producer's warpgroup is not counted at the start: all share the registers then": "without the producer",
        "if every thread starts with 168: that is the start of three warpgroups": "168",
        "if the rest is divided by 2: there may be another number of consumers": "two",
        "if the limit is 255: setmaxnreg takes multiples of 8, up to 256": "255 itself",
        "if the registers that the producer started with are not shared out": "its own start",
        "if what the producer keeps is not taken away": "producer",
        "if the rest is divided among all warpgroups: the producer has its part already": "all warpgroups",
    },
)

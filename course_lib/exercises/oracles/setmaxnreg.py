"""Lecture 10: what setmaxnreg is checked by."""

from collections.abc import Iterable

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    yield Case("two consumers, a producer that keeps 24", (2, 24))
    yield Case("two consumers, a producer that keeps 40", (2, 40))
    yield Case("a share that is no multiple of 8", (2, 32))
    yield Case("one consumer: the limit of 256", (1, 24))
    yield Case("three consumers", (3, 24))
    yield Case("three consumers, a producer that keeps 40", (3, 40))
    yield Case("nobody gives anything back", (3, 128))
    yield Case("four consumers: 512 / 5 is no whole number", (4, 24))


def expected(consumers: int, producer: int) -> int:
    """The largest number that keeps all rules, by trying them."""
    sizes = range(8, 257, 8)
    start = max(r for r in sizes if 128 * r * (consumers + 1) <= 65_536)
    owned = 128 * start * (consumers + 1)
    return max(r for r in sizes if 128 * (producer + consumers * r) <= owned)


def _start(consumers):
    return min(256, 512 // (consumers + 1) // 8 * 8)


def no_rounding_at_the_start(consumers, producer):
    return min(256, (512 - producer) // consumers // 8 * 8)


def start_no_multiple_of_8(consumers, producer):
    return min(256, (512 // (consumers + 1) * (consumers + 1) - producer) // consumers // 8 * 8)


def no_multiple_of_8(consumers, producer):
    return min(256, (_start(consumers) * (consumers + 1) - producer) // consumers)


def nearest_multiple_of_8(consumers, producer):
    return min(256, round((_start(consumers) * (consumers + 1) - producer) / consumers / 8) * 8)


def no_limit(consumers, producer):
    return (_start(consumers) * (consumers + 1) - producer) // consumers // 8 * 8


def limit_of_255(consumers, producer):
    return min(255, (_start(consumers) * (consumers + 1) - producer) // consumers) // 8 * 8


def producer_left_out(consumers, producer):
    return min(256, _start(consumers) * (consumers + 1) // consumers // 8 * 8)


def no_start_of_the_producer(consumers, producer):
    return min(256, (512 // consumers // 8 * 8 * consumers - producer) // consumers // 8 * 8)


def the_gift_is_not_divided(consumers, producer):
    return min(256, 2 * _start(consumers) - producer)


WRONG = {
    "if the consumers share all 512: what the rounding at the start leaves over belongs to nobody": no_rounding_at_the_start,
    "if the start is not rounded down to a multiple of 8: 512 / 5 leaves 96 for each, not 102": start_no_multiple_of_8,
    "if the share is not rounded down to a multiple of 8: setmaxnreg refuses it": no_multiple_of_8,
    "if the share is rounded to the nearest multiple of 8: rounded up, the consumers ask for more than there is and wait "
    "forever": nearest_multiple_of_8,
    "without the limit of 256": no_limit,
    "if the limit is 255, rounded down to 248: setmaxnreg takes up to 256": limit_of_255,
    "if what the producer keeps is not taken away": producer_left_out,
    "if the start is divided among the consumers alone: the producer is a warpgroup, too": no_start_of_the_producer,
    "if each consumer takes all that the producer gives back, instead of a share of it": the_gift_is_not_divided,
}

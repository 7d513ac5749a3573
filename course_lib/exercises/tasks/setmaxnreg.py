"""Lecture 10: how many registers a consumer can have."""

from collections.abc import Iterable

from course_lib.exercises.base import Case, Exercise

ASKED = r"""
An SM has 65,536 registers, 512 for each thread of one warpgroup of 128. Two consumers and a producer start with 168 a thread each; the
producer keeps 24, and `setmaxnreg` can give each consumer 240. In general `consumers` + 1 warpgroups start with equal parts, rounded down
to a multiple of 8, and share nothing but what they started with. The producer keeps `producer` registers a thread; the consumers all get
the same number: a multiple of 8, at most 256 (of these a thread's code can name 255, as lecture 03 said). Return the largest, as an int.
(Here it is never below 24.)
"""

STUB = '''
def setmaxnreg(consumers: int, producer: int) -> int:
    """Registers a thread of each consumer, if the producer keeps so many a thread."""
    ...
'''


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


EXERCISE = Exercise(
    name="setmaxnreg",
    lecture="10",
    title="who gets how many registers",
    level=1,
    minutes=10,
    asked=ASKED,
    stub=STUB,
    cases=cases,
    expected=expected,
    hints=(
        "Count in registers a thread of a warpgroup: the SM has 512 of them. How many do consumers + 1 warpgroups own together "
        "after the start?",
        "A multiple of 8 is asked for twice: for the parts at the start, and for what a consumer has in the end. What remains to be "
        "divided in between?",
        "start = 512 // (consumers + 1) // 8 * 8, and (consumers + 1) · start is owned. Take away what the producer keeps and divide "
        "the rest among the consumers, rounded down to a multiple of 8 in the same way, and at most 256.",
    ),
    wrong={
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
    },
)

"""Lecture 14, deliverable 3: what gain is graded by."""

import random
from collections.abc import Callable, Iterable, Mapping

from course_lib.exercises.base import Case

WRONG: Mapping[str, Callable[..., float]] = {
    "if all of the step becomes faster": lambda step, attention, faster: faster,
    "if attention takes no time any more": lambda step, attention, faster: step / (step - attention + 1e-300),
    "if the share that is saved is added to 1: the step's time is in the denominator": (
        lambda step, attention, faster: 1 + attention / step * (1 - 1 / faster)
    ),
}


def cases() -> Iterable[Case]:
    yield Case("half of the step is attention, and becomes twice as fast", (2.0, 1.0, 2.0))
    yield Case("a fifth of the step is attention", (0.03, 0.006, 1.5))
    yield Case("a step without attention", (1.0, 0.0, 8.0))
    yield Case("a step of attention alone", (1.0, 1.0, 3.0))


def drawn(draw: random.Random) -> Iterable[Case]:
    for _ in range(8):
        step = draw.uniform(0.01, 5.0)
        yield Case("another step", (step, step * draw.uniform(0.05, 0.95), draw.uniform(1.1, 9.0)))


def expected(step: float, attention: float, faster: float) -> float:
    """The time before over the time afterwards."""
    return step / (step - attention * (1 - 1 / faster))

"""Lecture 14, deliverable 3: what crossing is graded by."""

import random
from collections.abc import Callable, Iterable, Mapping

from course_lib.exercises.base import Case

WRONG: Mapping[str, Callable[..., float]] = {
    "if the mask counts for nothing: under it half of the pairs are left": lambda width, mlp, causal: (
        (4 + mlp) * width / 2
    ),
    "if every pair is masked by half: without a mask all are left": lambda width, mlp, causal: (4 + mlp) * width,
    "without the 4 · width² around attention": lambda width, mlp, causal: mlp * width * (1 if causal else 0.5),
}


def cases() -> Iterable[Case]:
    yield Case("a causal mask", (384, 8, True))
    yield Case("no mask", (1024, 8, False))
    yield Case("a causal mask, a wider MLP", (64, 12, True))
    yield Case("no mask, a wider MLP", (4096, 12, False))


def drawn(draw: random.Random) -> Iterable[Case]:
    for _ in range(8):
        yield Case("another model", (64 * draw.randint(1, 128), draw.randint(2, 24), draw.random() < 0.5))


def expected(width: int, mlp: int, causal: bool) -> float:
    """Where 4 · T · width operations a token, half of them under a mask, are as many as 2 · (4 + mlp) · width²."""
    return 2 * (4 + mlp) * width**2 / (4 * width * (0.5 if causal else 1.0))

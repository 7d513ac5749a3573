"""Lecture 14, deliverable 4: what cached_step is graded by."""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.handed_in import CHARACTERS, turn

WRONG: Mapping[str, Callable[..., Any]] = {}  # deliver names the usual bugs


def cases() -> Iterable[Case]:
    yield Case("two texts, three heads of 8", _numbers(0, 2, 3, 8))
    yield Case("one text, one head of 4", _numbers(1, 1, 1, 4))


def drawn(draw: random.Random) -> Iterable[Case]:
    for _ in range(2):
        yield Case("other numbers", _numbers(draw.randrange(2**62), 1, 2, 8))


def _numbers(seed: int, *sizes: int) -> tuple[torch.Tensor, ...]:
    generator, (batch, heads, d) = torch.Generator().manual_seed(seed), sizes
    return tuple(torch.randn(batch, heads, CHARACTERS, d, generator=generator, dtype=torch.float64) for _ in "qkv")


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention over all characters, each turned by its own position."""
    q, k = (torch.cat([turn(x[:, :, i : i + 1], i) for i in range(CHARACTERS)], dim=2) for x in (q, k))
    later = torch.ones(CHARACTERS, CHARACTERS, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf)
    return torch.softmax(scores, dim=-1) @ v

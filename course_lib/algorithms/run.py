"""What an algorithm returns, and how it walks a length in blocks."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from course_lib.model.memory import Memory


class Run(NamedTuple):
    """An algorithm's output, and the memory that it ran on."""

    output: torch.Tensor
    memory: Memory


def wide(x: torch.Tensor) -> torch.dtype:
    """The dtype in which kernels accumulate: float32 for 16-bit numbers."""
    return torch.promote_types(x.dtype, torch.float32)


def blocks(length: int, block: int | None) -> Iterator[slice]:
    """The ranges [0, block), [block, 2·block) ... that cover ``length``; the last one may be shorter. None: one range."""
    step = length if block is None else block
    return (slice(begin, min(begin + step, length)) for begin in range(0, length, step))

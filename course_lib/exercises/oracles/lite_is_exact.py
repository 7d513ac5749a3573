"""Lecture 04: what lite_is_exact is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    for words, n_keys, block_n in (
        ("one key", 1, 16),
        ("one full block", 64, 64),
        ("the same keys in smaller blocks", 64, 32),
        ("a larger full block", 128, 128),
        ("blocks of one key", 2, 1),
        ("a ragged block", 50, 64),
        ("one key fewer than the block", 127, 128),
        ("one key more than the block", 65, 64),
        ("two full blocks", 128, 64),
        ("two full blocks and a ragged one", 150, 64),
    ):
        yield Case(words, (n_keys, block_n))
    draw = random.Random(0)
    for size in (4, 20, 2000):
        for _ in range(10):
            block_n = draw.randint(1, size)
            yield Case("any numbers", (draw.randint(1, 2 * block_n), block_n))
    for n_keys in (1000, 1001, 1003):
        yield Case("blocks of 1,001", (n_keys, 1001))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for size in (4, 30, 1000):
        for _ in range(12):
            block_n = draw.randint(1, size)
            yield Case("any sizes", (draw.randint(1, 2 * block_n), block_n))


def expected(n_keys: int, block_n: int) -> bool:
    """Tried out, in float64: Lite and attention on random scores and values."""
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(2, n_keys, dtype=torch.float64, generator=generator)
    e = torch.exp(x)
    lite = sum(
        float(e[i : i + block_n] @ v[i : i + block_n] / e[i : i + block_n].sum()) for i in range(0, n_keys, block_n)
    )
    return abs(lite - float(e @ v / e.sum())) < 1e-9


def _says(n_keys, block_n, compared):
    return compared(n_keys, block_n)


WRONG = variants(
    _says,
    {
        "if Lite is held to be right up to 64 keys: the 64 is only the usual block": lambda n, block: n <= 64,
        "if only a full block counts: the mask keeps a ragged block right": lambda n, block: n == block,
        "if a block that is exactly full is left out: it is one block, too": lambda n, block: n < block,
        "if only ragged blocks are held to be wrong: two full blocks hand out twice the weight": lambda n, block: (
            n % block == 0
        ),
        "if only full blocks are counted: the keys left over make one more block": lambda n, block: n // block <= 1,
        "if exactly one full block is asked for, with or without a rest: one block, full or not, is what it takes": (
            lambda n, block: n // block == 1
        ),
        "if Lite is held to be always right: blocks are normalised one by one": lambda n, block: True,
        "if only one key is held to be safe: any number of keys is, in one block": lambda n, block: n == 1,
    },
)

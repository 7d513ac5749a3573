"""Lecture 01: what count_bytes is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.memory import Memory


def cases() -> Iterable[Case]:
    yield Case("one tile", (4, 4, 4, 4))
    yield Case("two tiles along k", (4, 4, 8, 4))
    yield Case("m, n and k all different", (8, 12, 20, 4))
    yield Case("a block larger than the matrices", (3, 2, 5, 8))
    yield Case("a block of 1", (3, 4, 5, 1))
    yield Case("ragged m", (10, 8, 8, 4))
    yield Case("ragged n", (8, 10, 8, 4))
    yield Case("ragged k", (8, 8, 10, 4))
    yield Case("all ragged", (37, 21, 50, 8))
    yield Case("hundreds of rows", (300, 200, 100, 64))


def expected(m: int, n: int, k: int, block: int) -> dict[str, int]:
    """The nest itself, on the simulated memory."""
    memory = Memory()
    A, B = memory.hbm("A", torch.ones(m, k)), memory.hbm("B", torch.ones(k, n))
    C = memory.hbm_empty("C", (m, n))
    for i in range(0, m, block):
        for j in range(0, n, block):
            for p in range(0, k, block):
                with memory.scope("step"):
                    a, b = memory.load(A[i : i + block, p : p + block]), memory.load(B[p : p + block, j : j + block])
                    c = C[i : i + block, j : j + block]
                    memory.store(c, memory.matmul(a, b) + (memory.load(c) if p > 0 else 0))
    moved = memory.traffic()
    return {name: moved.reads.get(name, 0) + moved.writes.get(name, 0) for name in ("A", "B", "C")}


def _count(m, n, k, block, a_times=None, b_times=None, c_times=None):
    down, across, steps = (math.ceil(size / block) for size in (m, n, k))
    a_times = across if a_times is None else a_times
    b_times = down if b_times is None else b_times
    c_times = 2 * steps - 1 if c_times is None else c_times
    return {"A": 4 * m * k * a_times, "B": 4 * k * n * b_times, "C": 4 * m * n * c_times}


def padded(m, n, k, block):
    m, n, k = (block * math.ceil(size / block) for size in (m, n, k))
    return _count(m, n, k, block)


def sum_kept(m, n, k, block):
    return _count(m, n, k, block, c_times=1)


def first_read(m, n, k, block):
    return _count(m, n, k, block, c_times=2 * math.ceil(k / block))


def writes_only(m, n, k, block):
    return _count(m, n, k, block, c_times=math.ceil(k / block))


def swapped(m, n, k, block):
    return _count(m, n, k, block, a_times=math.ceil(m / block), b_times=math.ceil(n / block))


def full_tiles_only(m, n, k, block):
    m, n, k = (block * (size // block) for size in (m, n, k))
    return _count(m, n, k, block)


def one_tile_more(m, n, k, block):
    return _count(m, n, k, block, n // block + 1, m // block + 1, 2 * (k // block) + 1)


def no_rounding(m, n, k, block):
    return _count(m, n, k, block, n / block, m / block, 2 * k / block - 1)


def rounded_down(m, n, k, block):
    return _count(m, n, k, block, n // block, m // block, 2 * (k // block) - 1)


def elements(m, n, k, block):
    return {name: size // 4 for name, size in _count(m, n, k, block).items()}


def each_once(m, n, k, block):
    return _count(m, n, k, block, a_times=1, b_times=1)


def no_reuse(m, n, k, block):
    return _count(m, n, k, block, a_times=n, b_times=m)


WRONG = {
    "if ragged tiles are counted as full ones, as if they were padded": padded,
    "if the sum stays in SRAM and C is stored once: this nest stores it at every step": sum_kept,
    "if C is loaded at the first step, too: p = 0 starts from 0": first_read,
    "if C's stores are counted and its loads are not": writes_only,
    "if the repetitions of A and B change places: a tile of A is loaded for each block column of C": swapped,
    "if only full tiles are counted: size // block leaves out the ragged ones": full_tiles_only,
    "if the number of tiles is rounded down, size // block: a ragged tile is a whole step of the loop": rounded_down,
    "if the number of tiles is not rounded up, size / block: a ragged tile is a whole step of the loop": no_rounding,
    "if a size that block divides gets one tile more: size // block + 1 is right for ragged sizes only": one_tile_more,
    "if numbers are counted and not bytes: a float32 has 4": elements,
    "if A and B are counted once: every tile of C loads its strips of A and B anew": each_once,
    "without reuse inside a tile, as if every number of C fetched its own row and column": no_reuse,
}

"""Lecture 01: what count_bytes is checked by."""

import math
import random
from collections.abc import Callable, Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.model.memory import Memory


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
    for words, sizes in (("m", (4097, 2, 3)), ("n", (2, 4097, 3)), ("k", (2, 3, 4097))):
        yield Case(f"a block of 4,096 and one number more along {words}", (*sizes, 4096))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for block in draw.choices((1, 2, 3, 4, 7, 8, 16, 50), k=8):
        yield Case("any sizes", (*(draw.randint(1, min(40, 6 * block)) for _ in range(3)), block))


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


def _count(m, n, k, block, bug):
    if bug == "padded":
        m, n, k = (block * math.ceil(size / block) for size in (m, n, k))
    ways: dict[str, Callable[[float], float]] = {"rounded down": math.floor, "one more": lambda x: math.floor(x) + 1}
    up = ways.get(bug, math.ceil)
    down, across, steps = (up(size / block) for size in (m, n, k))
    changes: dict[str, dict[str, float]] = {
        "sum kept": {"C": 1},
        "loaded first": {"C": 2 * steps},
        "stores": {"C": steps},
        "swapped": {"A": down, "B": across},
        "once": {"A": 1, "B": 1},
        "one store": {"C": steps + 1},
        "loads": {"C": steps - 1},
        "twice": {"C": 2},
        "columns": {"A": n, "B": m},
        "single numbers": {"A": n, "B": m, "C": 2 * k - 1},
    }
    times = {"A": across, "B": down, "C": 2 * steps - 1, **changes.get(bug, {})}
    size = {"numbers": 1, "fp16": 2}.get(bug, 4)
    return {"A": size * m * k * times["A"], "B": size * k * n * times["B"], "C": size * m * n * times["C"]}


WRONG = variants(
    _count,
    {
        "if ragged tiles are counted as full ones, as if they were padded": "padded",
        "if the sum stays in SRAM and C is stored once: this nest stores it at every step": "sum kept",
        "if C is loaded at the first step, too: p = 0 starts from 0": "loaded first",
        "if C's stores are counted and its loads are not, or its loads and one store: all steps store, all but the first load": "stores",
        "if the repetitions of A and B change places: a tile of A is loaded for each block column of C": "swapped",
        "if the number of tiles is rounded down, size // block: a ragged tile is a whole step of the loop": "rounded down",
        "if a size that block divides gets one tile more: size // block + 1 is right for ragged sizes only": "one more",
        "if numbers are counted and not bytes: float32 has 4 bytes a number": "numbers",
        "if a number has 2 bytes: all are float32, 4 bytes": "fp16",
        "if C is stored once and loaded in each step, or the other way round: one step stores and does not load": "one store",
        "if C's loads are counted and its stores are not": "loads",
        "if C is loaded once and stored once: it goes to and fro in each step along k": "twice",
        "if A is counted once for each column of C, B for each row: a whole tile of C takes them once": "columns",
        "if the tiles are single numbers: the block is forgotten": "single numbers",
        "if A and B are counted once: every tile of C loads its strips of A and B anew": "once",
    },
)

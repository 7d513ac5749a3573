"""Lecture 01: the bytes that a naive tiled matmul moves, counted before it runs."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.model.memory import Memory

EXERCISE = Exercise(
    lecture="01",
    title="count the bytes of a loop nest",
    hints=(
        "Take one tile of A, at block row i and step p. For how many values of j is it loaded? Ask the same of a tile of B.",
        "All tiles of A together are A, ragged or not: m · k numbers. So A crosses as a whole, once for each block column of C.",
        "Each matrix as a whole, 4 · m · k bytes, say, times how often it crosses. With t steps along k, C is stored in "
        "each step; in which is it not loaded?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def count_bytes(m: int, n: int, k: int, block: int) -> dict[str, int]:
    """Bytes that the loop nest moves between HBM and SRAM: {'A': ..., 'B': ..., 'C': ...}."""
    down, across, steps = (math.ceil(size / block) for size in (m, n, k))
    return {"A": 4 * m * k * across, "B": 4 * k * n * down, "C": 4 * m * n * (2 * steps - 1)}
'''
WHY = """
Count whole matrices instead of tiles. For a fixed j, the loops over i and p load every tile of A once, and together the tiles are A,
however ragged; so A crosses ⌈n / block⌉ times, and B ⌈m / block⌉ times. C crosses 2⌈k / block⌉ − 1 times because the nest puts its sum
back at every step. With the sum in SRAM that would be once: the first thing that a better nest changes.
"""


def cases(draw):
    yield Case("one tile", (4, 4, 4, 4))
    yield Case("two tiles along k", (4, 4, 8, 4))
    yield Case("m, n and k all different", (8, 12, 20, 4))
    yield Case("a block larger than the matrices", (3, 2, 5, 8))
    yield Case("all ragged", (37, 21, 50, 8))
    yield Case("a block of 4,096 and one number more along k", (2, 3, 4097, 4096))
    for block in draw.choices((1, 2, 3, 7, 8, 16, 50), k=5):
        yield Case("any sizes", (*(draw.randint(1, min(40, 6 * block)) for _ in "mnk"), block))


def expected(m, n, k, block):
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
    return {name: moved.reads.get(name, 0) + moved.writes.get(name, 0) for name in "ABC"}


UP, C = "math.ceil(size / block)", "(2 * steps - 1)"
WRONG = {
    "if ragged tiles are counted as full ones, as if they were padded":
        ("    down", f"    m, n, k = (block * {UP} for size in (m, n, k))\n    down"),
    "if the sum stays in SRAM and C is stored once: this nest stores it at every step": (C, "1"),
    "if C is loaded at the first step, too: p = 0 starts from 0": (C, "2 * steps"),
    "if C's stores are counted and its loads are not, or its loads and one store: all steps store, all but the first load": (C, "steps"),
    "if the repetitions of A and B change places: a tile of A is loaded for each block column of C": ("down, across", "across, down"),
    "if the number of tiles is rounded down, size // block: a ragged tile is a whole step of the loop": (UP, "size // block"),
    "if numbers are counted and not bytes: float32 has 4 bytes a number": ("4 * ", ""),
}  # fmt: skip

"""Lecture 01: the largest block of keys whose tiles fit in SRAM."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.model.memory import Memory, SRAMOverflow

EXERCISE = Exercise(
    lecture="01",
    title="the largest block that fits",
    hints=(
        "Write down the bytes of the five tiles. Which of them do not depend on block_n?",
        "Q and O take 6 · block_m · d bytes. Each key takes 2d + 2d bytes in K and V, and one column of S: 4 · block_m bytes.",
        "So (sram_bytes − fixed part) // (bytes for a key) keys have room. Which power of two is the last that does not exceed "
        "it, and what if not one key has room?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def largest_block(sram_bytes: int, block_m: int, d: int) -> int:
    """The largest block_n, a power of two, whose five tiles fit in sram_bytes; 0 if there is none."""
    queries = 2 * block_m * d + 4 * block_m * d  # Q and O
    key = 2 * d + 2 * d + 4 * block_m  # a row of K, a row of V, a column of S
    block_n = 0
    while queries + (2 * block_n or 1) * key <= sram_bytes:
        block_n = 2 * block_n or 1
    return block_n
'''
WHY = """
The sum is linear in block_n: a fixed part for the block of queries, and a price for each key. With block_m = d = 128 a key costs
1,024 bytes, and half of that is its column of S, which formulas with four tiles leave out. Real kernels keep S and O in registers and
have several copies of K and V on the way, so the prices differ; the sum is done in the same manner.
"""


def cases(draw):
    yield Case("the H100's 227 KiB, d = 128", (232_448, 128, 128))
    yield Case("nothing fits: 10 bytes of SRAM", (10, 1, 1))
    yield Case("one query, one key, filled to the last byte", (14, 1, 1))
    yield Case("an SRAM that Q and O fill, with no room for a key", (6 * 64 * 64, 64, 64))
    yield Case("a narrow head: S is the largest tile", (99 * 1024, 128, 16))
    yield Case("d = 80, no power of two", (64 * 1024, 64, 80))
    yield Case("64 MiB, one number a key: millions of keys", (6 + 8 * 2**23, 1, 1))
    yield Case("five tiles, filled to the last byte", (6 * 64 * 64 + 64 * (4 * 64 + 4 * 64), 64, 64))
    yield Case("one byte less", (6 * 64 * 64 + 64 * (4 * 64 + 4 * 64) - 1, 64, 64))
    for _ in range(6):
        block_m, d = draw.choice((1, 3, 16, 64, 128)), draw.randint(1, 200)
        yield Case("any sizes", (draw.randint(1, 20) * draw.randint(1, 12_000), block_m, d))


def expected(sram_bytes, block_m, d):
    """Doubled until the simulated memory refuses."""
    fits, block_n = 0, 1
    while True:
        memory = Memory(sram_bytes)
        shapes = {"Q": (block_m, d), "K": (block_n, d), "V": (block_n, d), "S": (block_m, block_n), "O": (block_m, d)}
        try:
            for name, shape in shapes.items():
                dtype = torch.float32 if name in "SO" else torch.float16
                memory.tile(name, torch.empty(shape, dtype=dtype, device="meta"))
        except SRAMOverflow:
            return fits
        fits, block_n = block_n, 2 * block_n


COLUMN, LAST = "+ 4 * block_m  # a row", "return block_n"
WRONG = {
    "if S is forgotten: the tile that the formula with the 4 does not mention": (COLUMN, "  # a row"),
    "if 4 · block_m · d bytes stand for Q and O, not 6: Q is left out, or the accumulator is counted in fp16": ("2 * block_m * d + ", ""),
    "if all five tiles are counted in fp32: Q, K and V have 2 bytes a number": ("2 * block_m", "4 * block_m", "2 * d", "4 * d"),
    "if a block that fills SRAM to the last byte is refused": ("<=", "<"),
    "if the block is doubled once too often: the last one that was tried did not fit": (LAST, "return 2 * block_n or 1"),
    "if the search starts at 1 and never asks whether 1 fits": (LAST, "return block_n or 1"),
    "if the number of keys that fit is returned: a power of two is asked": (LAST, "return max(0, (sram_bytes - queries) // key)"),
}  # fmt: skip

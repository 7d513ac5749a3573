"""Lecture 01: what largest_block is checked by."""

import math
import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.model.memory import Memory, SRAMOverflow


def cases() -> Iterable[Case]:
    yield Case("the H100's 227 KiB, d = 128", (232_448, 128, 128))
    yield Case("nothing fits: 10 bytes of SRAM", (10, 1, 1))
    yield Case("one query, one key, filled to the last byte", (14, 1, 1))
    yield Case("one byte too few for the first key", (13, 1, 1))
    yield Case("two keys, filled to the last byte", (22, 1, 1))
    yield Case("the H100's 227 KiB, d = 64", (232_448, 128, 64))
    yield Case("an SRAM that Q and O fill, with no room for a key", (6 * 64 * 64, 64, 64))
    yield Case("an SRAM that Q and O overflow", (20_000, 64, 64))
    yield Case("a narrow head: S is the largest tile", (99 * 1024, 128, 16))
    yield Case("a wide head: K and V are the largest", (163 * 1024, 16, 512))
    yield Case("a wide head and many queries: Q and O are the largest", (163 * 1024, 64, 256))
    yield Case("one query: S is small", (99 * 1024, 1, 128))
    yield Case("d = 80, no power of two", (64 * 1024, 64, 80))
    yield Case("few queries: hundreds of keys", (232_448, 16, 64))
    yield Case("one query, a narrow head: thousands of keys", (232_448, 1, 4))
    yield Case("room for sixteen keys", (6 * 16 * 64 + 20 * (4 * 64 + 4 * 16), 16, 64))
    yield Case("room for eight keys", (6 * 16 * 64 + 9 * (4 * 64 + 4 * 16), 16, 64))
    yield Case("64 MiB, one number a key: millions of keys", (6 + 8 * 2**23, 1, 1))
    yield Case("five tiles, filled to the last byte", (6 * 64 * 64 + 64 * (4 * 64 + 4 * 64), 64, 64))
    yield Case("one byte less", (6 * 64 * 64 + 64 * (4 * 64 + 4 * 64) - 1, 64, 64))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(12):
        block_m, d = draw.choice((1, 3, 16, 64, 128)), draw.randint(1, 200)
        yield Case("any sizes", (draw.randint(1, 20) * draw.randint(1, 12_000), block_m, d))


def expected(sram_bytes: int, block_m: int, d: int) -> int:
    """Doubled until the simulated memory refuses."""
    fits, block_n = 0, 1
    while _placed(sram_bytes, block_m, block_n, d):
        fits, block_n = block_n, 2 * block_n
    return fits


def _placed(sram_bytes: int, block_m: int, block_n: int, d: int) -> bool:
    memory, half = Memory(sram_bytes), torch.float16
    try:
        for name, shape, dtype in (
            ("Q_i", (block_m, d), half),
            ("K_j", (block_n, d), half),
            ("V_j", (block_n, d), half),
            ("S_ij", (block_m, block_n), torch.float32),
            ("O_i", (block_m, d), torch.float32),
        ):
            memory.tile(name, torch.empty(shape, dtype=dtype, device="meta"))
    except SRAMOverflow:
        return False
    return True


def _largest(sram_bytes, block_m, d, bug):
    """From the bytes of a number of each tile, and what becomes of the number of keys that fit; ``bug`` changes some of them."""
    ways = {"q": 2, "k": 2, "v": 2, "s": 4, "o": 4, "spare": 0, "finish": _power_of_two} | bug
    fixed, key = (ways["q"] + ways["o"]) * block_m * d, (ways["k"] + ways["v"]) * d + ways["s"] * block_m
    if ways.get("part"):
        return 2 ** int(math.log2((sram_bytes - fixed) / key))
    return ways["finish"]((sram_bytes - ways["spare"] - fixed) // key)


def _power_of_two(keys):
    return 1 << (keys.bit_length() - 1) if keys > 0 else 0


WRONG = variants(
    _largest,
    {
        "if S is forgotten: the tile that the formula with the 4 does not mention": {"s": 0},
        "if 4 · block_m · d bytes stand for Q and O, not 6: Q is left out, or the accumulator is counted in fp16": {
            "o": 2
        },
        "if S is counted in fp16: scores are summed in fp32, 4 bytes a number": {"s": 2},
        "if all five tiles are counted in fp32: Q, K and V have 2 bytes a number": {"q": 4, "k": 4, "v": 4},
        "if a block that fills SRAM to the last byte is refused": {"spare": 1},
        "if the block is doubled once too often: the last one that was tried did not fit": {
            "finish": lambda keys: 2 * _power_of_two(keys) or 1
        },
        "if the search starts at 1 and never asks whether 1 fits": {"finish": lambda keys: _power_of_two(keys) or 1},
        "if the logarithm is taken where no key fits: return 0 before that": {
            "finish": lambda keys: 2 ** int(math.log2(keys))
        },
        "if the accumulator O is forgotten": {"o": 0},
        "if P has a tile of its own, in fp32: it takes the place of S": {"s": 8},
        "if P has a tile of its own, in fp16: it takes the place of S": {"s": 6},
        "if all five tiles are counted in fp16: S and O are summed in fp32": {"s": 2, "o": 2},
        "if one of K and V is forgotten": {"v": 0},
        "if Q has the rows of a block of keys: it has block_m rows": {"q": 0, "k": 4},
        "if numbers are counted and not bytes": {"q": 1, "k": 1, "v": 1, "s": 1, "o": 1},
        "if the number of keys that fit is returned: a power of two is asked": {"finish": lambda keys: max(0, keys)},
        "if the logarithm is taken of a part of a key: where none fits return 0": {"part": True},
        "if your list of sizes begins at 16: smaller blocks may be all that fits": {
            "finish": lambda keys: _power_of_two(keys) if keys >= 16 else 0
        },
        "if your list of sizes ends too early, at 128": {"finish": lambda keys: min(128, _power_of_two(keys))},
    },
)

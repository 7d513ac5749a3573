"""Lecture 01: what largest_block is checked by."""

import math
from collections.abc import Callable, Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.memory import Memory, SRAMOverflow


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
    yield Case("five tiles, filled to the last byte", (6 * 64 * 64 + 64 * (4 * 64 + 4 * 64), 64, 64))
    yield Case("one byte less", (6 * 64 * 64 + 64 * (4 * 64 + 4 * 64) - 1, 64, 64))


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
            memory.tile(name, torch.empty(shape, dtype=dtype))
    except SRAMOverflow:
        return False
    return True


Answer = Callable[[int, int, int], int]


def _largest(fixed: Callable[[int, int], int], key: Callable[[int, int], int]) -> Answer:
    """The answer for ``fixed`` bytes of Q and O and ``key`` bytes for each key, both of (block_m, d)."""

    def largest_block(sram_bytes, block_m, d):
        keys = (sram_bytes - fixed(block_m, d)) // key(block_m, d)
        return 1 << (keys.bit_length() - 1) if keys > 0 else 0

    return largest_block


def _queries(block_m: int, d: int) -> int:
    return 6 * block_m * d


def _key(block_m: int, d: int) -> int:
    return 4 * d + 4 * block_m


_right = _largest(_queries, _key)


def just_short_of_full(sram_bytes, block_m, d):
    return _right(sram_bytes - 1, block_m, d)


def one_doubling_too_far(sram_bytes, block_m, d):
    return 2 * _right(sram_bytes, block_m, d) or 1


def at_least_one(sram_bytes, block_m, d):
    return max(1, _right(sram_bytes, block_m, d))


def any_whole_number(sram_bytes, block_m, d):
    return max(0, (sram_bytes - _queries(block_m, d)) // _key(block_m, d))


def to_the_nearest(sram_bytes, block_m, d):
    keys = any_whole_number(sram_bytes, block_m, d)
    return 2 ** round(math.log2(keys)) if keys else 0


def to_the_next(sram_bytes, block_m, d):
    keys = any_whole_number(sram_bytes, block_m, d)
    return 2 ** math.ceil(math.log2(keys)) if keys else 0


def _up_to(last: int) -> Answer:
    return lambda sram_bytes, block_m, d: min(last, _right(sram_bytes, block_m, d))


def from_16(sram_bytes, block_m, d):
    fits = _right(sram_bytes, block_m, d)
    return fits if fits >= 16 else 0


def logarithm_of_nothing(sram_bytes, block_m, d):
    return 2 ** int(math.log2((sram_bytes - _queries(block_m, d)) // _key(block_m, d)))


def square_blocks(sram_bytes, block_m, d):
    block = 0
    while (size := 2 * block or 1) * (10 * d + 4 * size) <= sram_bytes:
        block = size
    return block


WRONG = {
    "if S is forgotten: the tile that the formula with the 4 does not mention": _largest(
        _queries, lambda block_m, d: 4 * d
    ),
    "if the accumulator O is forgotten": _largest(lambda block_m, d: 2 * block_m * d, _key),
    "if 4 · block_m · d bytes stand for Q and O, not 6: Q is left out, or the accumulator is counted in fp16": _largest(
        lambda block_m, d: 4 * block_m * d, _key
    ),
    "if K is counted and V is not": _largest(_queries, lambda block_m, d: 2 * d + 4 * block_m),
    "if S is counted in fp16: scores are summed in fp32, 4 bytes a number": _largest(
        _queries, lambda block_m, d: 4 * d + 2 * block_m
    ),
    "if P is given a tile of its own beside S": _largest(_queries, lambda block_m, d: 4 * d + 8 * block_m),
    "if SRAM is taken as a count of numbers, not of bytes": _largest(
        lambda block_m, d: 2 * block_m * d, lambda block_m, d: 2 * d + block_m
    ),
    "if all five tiles are counted in fp32: Q, K and V have 2 bytes a number": _largest(
        lambda block_m, d: 8 * block_m * d, lambda block_m, d: 8 * d + 4 * block_m
    ),
    "if a block that fills SRAM to the last byte is refused": just_short_of_full,
    "if the block is doubled once too often: the last one that was tried did not fit": one_doubling_too_far,
    "if the search starts at 1 and never asks whether 1 fits": at_least_one,
    "if the number of keys is not rounded down to a power of two": any_whole_number,
    "if the number of keys is rounded to the nearest power of two: the next larger one does not fit": to_the_nearest,
    "if the number of keys is rounded up to a power of two: that block does not fit": to_the_next,
    "if your list of sizes begins at 16: smaller blocks may be all that fits": from_16,
    "if the logarithm is taken where no key fits: return 0 before that": logarithm_of_nothing,
    "if block_m is taken to be as large as block_n: block_m is given": square_blocks,
} | {f"if your list of sizes ends too early, at {2**i}": _up_to(2**i) for i in range(4, 13)}

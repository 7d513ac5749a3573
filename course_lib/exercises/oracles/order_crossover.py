"""Lecture 06: what order_crossover is checked by."""

import bisect
import math
import random
from collections.abc import Iterable
from typing import Any

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.model import cost


def cases() -> Iterable[Case]:
    yield Case("one query, one key: V1 never wins", (1, 16, 1, 2))
    yield Case("at best equal is not fewer", (16, 2, 4, 2))
    yield Case("equal but for the bytes of L", (14, 4, 2, 2))
    yield Case("equal at one block_n", (24, 1, 2, 2))
    yield Case("one block of queries: V1 never wins", (64, 64, 64, 4))
    yield Case("ragged: N = 65 in blocks of 32", (65, 16, 32, 4))
    yield Case("d = 1: l and m weigh as much as O", (100, 1, 2, 2))
    yield Case("ragged: N = 130 in blocks of 24", (130, 16, 24, 2))
    yield Case("ragged: N = 1,000 in blocks of 48", (1000, 64, 48, 2))
    yield Case("N = 4,096, d = 64, 16 queries at a time, fp16", (4096, 64, 16, 2))
    yield Case("the same in fp32", (4096, 64, 16, 4))
    yield Case("long, with large blocks", (16384, 128, 256, 2))
    for words, size in (("any numbers, small", 12), ("any numbers", 300)):
        draw = random.Random(0)
        for _ in range(30):
            N = draw.randint(1, size)
            yield Case(words, (N, draw.randint(1, 16), draw.randint(1, max(1, N // 2)), draw.choice((2, 4))))
    for N in (3000, 5000, 100_000):
        yield Case("two blocks of queries: one block of all keys", (N, 64, N // 2, 4))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for size in (12, 300, 3000):
        for _ in range(6):
            N = draw.randint(1, size)
            yield Case("any sizes", (N, draw.randint(1, 64), draw.randint(1, max(1, N // 2)), draw.choice((2, 4))))


def expected(N: int, d: int, block_m: int, e: int) -> int | None:
    """By halving, from the counts that the simulated memory confirms: V1's never grow with block_n."""
    kind = {2: "fp16", 4: "fp32"}[e]
    v2 = cost.flash_v2_traffic(N, d, block_m, kind, lse=True).total_bytes
    blocks = range(1, N + 1)
    at = bisect.bisect_left(blocks, True, key=lambda b: cost.flash_v1_traffic(N, d, b, kind).total_bytes < v2)
    return blocks[at] if at < N else None


def _first(N, d, block_m, e, bug):
    """The search by bytes of one row; ``bug`` changes some of what is counted, or of how it is searched."""
    ways: dict[str, Any] = {"o_bytes": 4, "o_ways": 2, "vectors": 4, "lse": 4, "equal": False, "o_once": 0, "kv": 1}
    ways |= {"none": lambda N: None}
    ways |= {"up_m": math.ceil, "up_n": math.ceil, "tried": lambda N: range(1, N + 1)} | bug
    e = ways.get("e", e)
    v2 = ways.get("q and o", 2) * d * e + 2 * ways["up_m"](N / block_m) * d * e
    v2 += ways["lse"] + ways["o_once"] * d * (4 - e)
    one_pass = d * e + ways["o_ways"] * d * (ways["o_bytes"] or e) + 4 * ways["vectors"]
    one_pass += 2 * d * e * ways.get("kv each", 0)
    for block_n in ways["tried"](N):
        v1 = ways["up_n"](N / block_n) * one_pass + ways["kv"] * 2 * d * e
        if v1 < v2 or (ways["equal"] and v1 == v2):
            return block_n
    return ways["none"](N)


WRONG = variants(
    _first,
    {
        "if V1's O is counted with e bytes: it is kept in fp32": {"o_bytes": None},
        "if V1's O is counted one way: it is read and written for each block of keys": {"o_ways": 1},
        "if ℓ and m are forgotten in V1": {"vectors": 0},
        "if one of ℓ and m is forgotten in V1, or both are counted one way: they are read and written": {"vectors": 2},
        "if V1 only reads O, ℓ and m, or only writes them: each block of keys does both": {"o_ways": 1, "vectors": 2},
        "if V2's Q and O are forgotten: each is moved once": {"q and o": 0},
        "if all has 2 bytes an element: e may be 4": {"e": 2},
        "with N // block in V1: the last, shorter block of keys takes a whole pass, too": {"up_n": math.floor},
        "if V2's L is forgotten": {"lse": 0},
        "if V2's O is counted in fp32: it is written in e bytes": {"o_once": 1},
        "if V1's K and V are forgotten: they are read once": {"kv": 0},
        "if N // block is taken for ⌈N / block⌉ in both": {"up_m": math.floor, "up_n": math.floor},
        "if V1 reads K and V in each pass: each block of them is read once": {"kv each": 1, "kv": 0},
        "if the largest such block_n is returned: the smallest is asked": {"tried": lambda N: range(N, 0, -1)},
        "if N is returned where there is none": {"none": lambda N: N},
        "if 0 is returned where there is none": {"none": lambda N: 0},
        "if equal counts pass for fewer": {"equal": True},
        "with N / block in place of ⌈N / block⌉: a part of a block takes a whole pass": {"up_m": float, "up_n": float},
        "with N / block_n in V1: a part of a block of keys takes a whole pass": {"up_n": float},
        "with N // block_m in V2: the last, shorter block of queries reads all of K and V, too": {"up_m": math.floor},
        "if block_n = N is never tried: range(1, N) ends before it": {"tried": lambda N: range(1, N)},
        "if only powers of two are tried": {"tried": lambda N: [2**i for i in range(N.bit_length())]},
    },
)

"""Lecture 06: what order_crossover is checked by."""

import math
from collections.abc import Iterable

from course_lib import cost
from course_lib.exercises.base import Case


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


def expected(N: int, d: int, block_m: int, e: int) -> int | None:
    """By trying every block against the counts that the simulated memory confirms."""
    kind = {2: "fp16", 4: "fp32"}[e]
    v2 = cost.flash_v2_traffic(N, d, block_m, kind, lse=True).total_bytes
    return next((b for b in range(1, N + 1) if cost.flash_v1_traffic(N, d, b, kind).total_bytes < v2), None)


def _first(
    N, d, block_m, e, *, wide=4, o_ways=2, vectors=4, kv=2, lse=4, ties=False, up_m=math.ceil, up_n=math.ceil, last=1
):
    """The search by bytes of one row; each keyword is a way to go wrong."""
    v2 = 2 * d * e + kv * up_m(N / block_m) * d * e + lse
    for block_n in range(1, N + last):
        v1 = up_n(N / block_n) * (d * e + o_ways * d * wide + 4 * vectors) + 2 * d * e
        if v1 < v2 or (ties and v1 == v2):
            return block_n
    return None


def o_in_e_bytes(N, d, block_m, e):
    return _first(N, d, block_m, e, wide=e)


def o_one_way(N, d, block_m, e):
    return _first(N, d, block_m, e, o_ways=1)


def no_l_and_m(N, d, block_m, e):
    return _first(N, d, block_m, e, vectors=0)


def l_and_m_one_way(N, d, block_m, e):
    return _first(N, d, block_m, e, vectors=2)


def k_alone(N, d, block_m, e):
    return _first(N, d, block_m, e, kv=1)


def no_lse(N, d, block_m, e):
    return _first(N, d, block_m, e, lse=0)


def equal_counts(N, d, block_m, e):
    return _first(N, d, block_m, e, ties=True)


def no_ceiling(N, d, block_m, e):
    return _first(N, d, block_m, e, up_m=float, up_n=float)


def floor_of_queries(N, d, block_m, e):
    return _first(N, d, block_m, e, up_m=math.floor)


def twice_n_rounded_down(N, d, block_m, e):
    return _first(N, d, block_m, e, up_m=lambda blocks: math.floor(2 * blocks) / 2)


def floor_of_keys(N, d, block_m, e):
    return _first(N, d, block_m, e, up_n=math.floor)


def floors(N, d, block_m, e):
    return _first(N, d, block_m, e, up_m=math.floor, up_n=math.floor)


def without_n(N, d, block_m, e):
    return _first(N, d, block_m, e, last=0)


def _most_passes(N, d, block_m, e):
    """How many blocks of keys V1 may have at most."""
    return (2 * math.ceil(N / block_m) * d * e + 3) // (d * e + 8 * d + 16)


def rounded_down(N, d, block_m, e):
    passes = _most_passes(N, d, block_m, e)
    return N // passes if passes else None


def power_of_two(N, d, block_m, e):
    passes = _most_passes(N, d, block_m, e)
    return min(N, 2 ** math.ceil(math.log2(N / passes))) if passes else None


def n_for_none(N, d, block_m, e):
    return _first(N, d, block_m, e) or N


WRONG = {
    "if V1's O is counted with e bytes: it is kept in fp32": o_in_e_bytes,
    "if V1's O is counted one way: it is read and written for each block of keys": o_one_way,
    "if ℓ and m are forgotten in V1": no_l_and_m,
    "if ℓ and m are counted one way: both are read and written": l_and_m_one_way,
    "if V2 is charged for K alone: V passes as often": k_alone,
    "if V2's L is forgotten": no_lse,
    "if equal counts pass for fewer": equal_counts,
    "with N / block in place of ⌈N / block⌉: a part of a block takes a whole pass": no_ceiling,
    "with N // block_m in V2: the last, shorter block of queries reads all of K and V, too": floor_of_queries,
    "with 2 * N // block_m for K and V in V2: Python takes 2 N first, and rounds down": twice_n_rounded_down,
    "with N // block_n in V1: the last, shorter block of keys takes a whole pass, too": floor_of_keys,
    "with N // block in both: a part of a block takes a whole pass, in V1 and in V2": floors,
    "if block_n = N is never tried: range(1, N) ends before it": without_n,
    "if N / T is rounded down: block_n has to be large enough for at most T blocks": rounded_down,
    "if only powers of two are tried": power_of_two,
    "if N comes back where there is no such block": n_for_none,
}

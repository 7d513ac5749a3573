"""Lecture 10: what slots_needed is checked by."""

import math
from collections.abc import Iterable

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    yield Case("the ring of the page", (657, 4800, 8192, 132))
    yield Case("tiles of twice the size", (657, 4800, 16_384, 132))
    yield Case("a little more than a whole number", (700, 4800, 8192, 132))
    yield Case("exactly four slots", (550, 4800, 5000, 132))
    yield Case("one tile is more than enough", (100, 2000, 65_536, 132))
    yield Case("one ring with the bandwidth for itself", (500, 40, 4096, 1))
    yield Case("a slow memory, small tiles", (900, 3350, 2048, 132))


def expected(round_trip_ns: int, gb_per_s: int, tile_bytes: int, rings: int) -> int:
    """Slot by slot, in whole numbers: does what the rings bring in one round trip (GB/s are bytes a ns) do?"""
    slots = 1
    while rings * slots * tile_bytes < round_trip_ns * gb_per_s:
        slots += 1
    return slots


def _slots(round_trip_ns, gb_per_s, tile_bytes, rings):
    return round_trip_ns * gb_per_s / (rings * tile_bytes)


def rounded_down(round_trip_ns, gb_per_s, tile_bytes, rings):
    return int(_slots(round_trip_ns, gb_per_s, tile_bytes, rings))


def rounded_down_at_least_one(round_trip_ns, gb_per_s, tile_bytes, rings):
    return max(1, int(_slots(round_trip_ns, gb_per_s, tile_bytes, rings)))


def nearest(round_trip_ns, gb_per_s, tile_bytes, rings):
    return round(_slots(round_trip_ns, gb_per_s, tile_bytes, rings))


def one_more_than_rounded_down(round_trip_ns, gb_per_s, tile_bytes, rings):
    return int(_slots(round_trip_ns, gb_per_s, tile_bytes, rings)) + 1


def one_more(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(_slots(round_trip_ns, gb_per_s, tile_bytes, rings)) + 1


def not_shared(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(_slots(round_trip_ns, gb_per_s, tile_bytes, 1))


def powers_of_two(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(_slots(round_trip_ns, gb_per_s, tile_bytes, rings) * 2**30 / 10**9)


def not_whole(round_trip_ns, gb_per_s, tile_bytes, rings):
    return _slots(round_trip_ns, gb_per_s, tile_bytes, rings)


WRONG = {
    "if you round down: with fewer slots the bandwidth is not reached": rounded_down,
    "if you round down to at least 1: with fewer slots the bandwidth is not reached": rounded_down_at_least_one,
    "if you round to the nearest whole number: 2.2 slots need 3": nearest,
    "if you round down and add 1: an exact multiple needs no more": one_more_than_rounded_down,
    "if one more slot is added for the tile that is being read: the round trip counts reading already": one_more,
    "if you return the slots of all rings together: the rings share them, as they share the bandwidth": not_shared,
    "if a GB is 2^30 bytes: bandwidths count 10^9": powers_of_two,
    "if part of a slot is returned: round up": not_whole,
}

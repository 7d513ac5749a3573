"""Lecture 10: what slots_needed is checked by."""

import math
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("a little less than a whole number", (893, 4800, 8192, 132))
    yield Case("one tile is more than enough", (100, 2000, 65_536, 132))
    yield Case("the ring of the page", (657, 4800, 8192, 132))
    yield Case("tiles of twice the size", (657, 4800, 16_384, 132))
    yield Case("a little more than a whole number", (700, 4800, 8192, 132))
    yield Case("exactly four slots", (550, 4800, 5000, 132))
    for args in ((704, 4800, 5120, 132), (2280, 768, 3072, 114), (2304, 960, 9216, 80), (1792, 4800, 15_360, 80)):
        yield Case("a whole number of slots, of other sizes", args)
    yield Case("one byte more than four slots", (2153, 2009, 8192, 132))
    yield Case("one ring with the bandwidth for itself", (500, 40, 4096, 1))
    yield Case("a slow memory, small tiles", (900, 3350, 2048, 132))
    yield Case("one byte more than three slots, and more bytes than a float counts", (1, 3 * 2**54 + 1, 2**54, 1))


def expected(round_trip_ns: int, gb_per_s: int, tile_bytes: int, rings: int) -> int:
    """Slot by slot, in whole numbers: does what the rings bring in one round trip (GB/s are bytes a ns) do?"""
    slots = 1
    while rings * slots * tile_bytes < round_trip_ns * gb_per_s:
        slots += 1
    return slots


def _slots_needed(round_trip_ns, gb_per_s, tile_bytes, rings, bug):
    slots = round_trip_ns * gb_per_s / (rings * tile_bytes)
    return {
        "down": int(slots),
        "nearest": round(slots),
        "down, one more": int(slots) + 1,
        "one more": math.ceil(slots) + 1,
        "not shared": math.ceil(slots * rings),
        "2^30": math.ceil(slots * 2**30 / 10**9),
        "seconds": math.ceil(gb_per_s * 1e9 * (round_trip_ns * 1e-9) / rings / tile_bytes),
        "float": math.ceil(slots),
    }[bug]


WRONG = variants(
    _slots_needed,
    {
        "if you round down: with fewer slots the bandwidth is not reached": "down",
        "if you round to the nearest whole number: 2.2 slots need 3": "nearest",
        "if you round down and add 1: an exact multiple needs no more": "down, one more",
        "if one more slot is added for the tile that is being read: the round trip counts reading already": "one more",
        "if you return the slots of all rings together: the rings share them, as they share the bandwidth": "not shared",
        "if a GB is 2^30 bytes: bandwidths count 10^9": "2^30",
        "if a float is rounded on the way, 1e-9, say: a whole number of slots then comes out a little above itself": "seconds",
        "if / makes a float of whole numbers: from 2^53 on it has no room for their last digits; // keeps them all": "float",
    },
)

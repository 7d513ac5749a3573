"""Lecture 10: what buffers_needed is checked by."""

import math
import random
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("a little less than a whole number", (893, 4800, 8192, 132))
    yield Case("one tile is more than enough", (100, 2000, 65_536, 132))
    yield Case("the ring of the page", (657, 4800, 8192, 132))
    yield Case("tiles of twice the size", (657, 4800, 16_384, 132))
    yield Case("a little more than a whole number", (700, 4800, 8192, 132))
    yield Case("exactly four buffers", (550, 4800, 5000, 132))
    for args in ((704, 4800, 5120, 132), (2280, 768, 3072, 114), (2304, 960, 9216, 80), (1792, 4800, 15_360, 80)):
        yield Case("a whole number of buffers, of other sizes", args)
    yield Case("one byte more than four buffers", (2153, 2009, 8192, 132))
    yield Case("one ring with the bandwidth for itself", (500, 40, 4096, 1))
    yield Case("a slow memory, small tiles", (900, 3350, 2048, 132))
    yield Case("one byte more than three buffers, and more bytes than a float counts", (1, 3 * 2**54 + 1, 2**54, 1))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(12):
        sizes = draw.randint(100, 3000), draw.randint(40, 5000), draw.randint(2, 64) * 512, draw.randint(1, 140)
        yield Case("any sizes", sizes)


def expected(round_trip_ns: int, gb_per_s: int, tile_bytes: int, rings: int) -> int:
    """Buffer by buffer, in whole numbers: does what the rings bring in one round trip (GB/s are bytes a ns) do?"""
    buffers = 1
    while rings * buffers * tile_bytes < round_trip_ns * gb_per_s:
        buffers += 1
    return buffers


def _buffers_needed(round_trip_ns, gb_per_s, tile_bytes, rings, bug):
    total, taken = round_trip_ns * gb_per_s, rings * tile_bytes
    least = -(-total // taken)
    return {
        "down": total // taken,
        "nearest": round(total / taken),
        "down, one more": total // taken + 1,
        "one more": least + 1,
        "not shared": -(-total // tile_bytes),
        "of all": least * rings,
        "2^30": -(-total * 2**30 // (10**9 * taken)),
        "seconds": math.ceil(gb_per_s * 1e9 * (round_trip_ns * 1e-9) / rings / tile_bytes),
        "float": math.ceil(total / taken),
        "times rings": -(-total * rings // tile_bytes),
        "bytes": -(-total // rings),
        "two at least": max(2, least),
        "bandwidth rounded": -(-round_trip_ns * (gb_per_s // rings) // tile_bytes),
        "bytes rounded": -(-(total // rings) // tile_bytes),
        "two tiles": -(-total // (2 * taken)),
    }[bug]


WRONG = variants(
    _buffers_needed,
    {
        "if you round down: with fewer buffers the bandwidth is not reached": "down",
        "if you round to the nearest whole number: 2.2 buffers need 3": "nearest",
        "if you round down and add 1: an exact multiple needs no more": "down, one more",
        "if one more buffer is added for the tile that is being read: the round trip counts reading already": "one more",
        "if you return the buffers of all rings together: the rings share them, as they share the bandwidth": "not shared",
        "if a GB is 2^30 bytes: bandwidths count 10^9": "2^30",
        "if the bandwidth is multiplied by the rings: they share it": "times rings",
        "if the bytes of a ring are returned: a buffer holds a tile of them": "bytes",
        "if a ring has two buffers at least: where one tile is enough, one buffer is": "two at least",
        "if a ring's bandwidth is rounded down before it is used: round once, at the end": "bandwidth rounded",
        "if the buffers of one ring are multiplied by the rings: the question is how many each has": "of all",
        "if a ring's bytes are rounded down before they are cut into tiles: round once, at the end": "bytes rounded",
        "if a buffer holds two tiles": "two tiles",
        "if a float is rounded on the way, 1e-9, say: a whole number of buffers then comes out a little above itself": "seconds",
        "if / makes a float of whole numbers: from 2^53 on it has no room for their last digits; // keeps them all": "float",
    },
)

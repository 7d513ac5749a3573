"""Lecture 10: how many buffers of a ring keep the memory busy."""

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="10",
    title="how many buffers keep the memory busy",
    hints=(
        "With one buffer, one tile is brought in each round trip. How many bytes do all rings together bring in a nanosecond?",
        "1 GB/s is 1 byte a ns. The bandwidth times the round trip is the number of bytes on their way, for all rings together. How many "
        "tiles is that, and how many of them are each ring's?",
        "Bandwidth · round trip is what all rings together have on their way. Share it among the rings and count in tiles. Part "
        "of a buffer is not to be had.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def buffers_needed(round_trip_ns: int, gb_per_s: int, tile_bytes: int, rings: int) -> int:
    """The least buffers of each ring with which HBM is the limit."""
    return -(-round_trip_ns * gb_per_s // (rings * tile_bytes))  # rounded up, in whole numbers
'''
WHY = """
Bytes on their way = bandwidth · time: Little's law. A GB/s is a byte a nanosecond, so no power of ten is needed. On the page that is
3,153,600 bytes, 2.9 tiles for each ring, so 3 buffers. The H200 reached 76 % with 3 and needed 6 for 92 %: a busy memory answers later,
so the round trip is longer than the one measured with a single buffer. Take the model as the least that you need.
"""


def cases(draw):
    yield Case("a little less than a whole number", (893, 4800, 8192, 132))
    yield Case("one tile is more than enough", (100, 2000, 65_536, 132))
    yield Case("the ring of the page", (657, 4800, 8192, 132))
    yield Case("exactly four buffers", (550, 4800, 5000, 132))
    yield Case("exactly five buffers", (704, 4800, 5120, 132))
    yield Case("exactly three buffers", (2304, 960, 9216, 80))
    yield Case("one byte more than four buffers", (2153, 2009, 8192, 132))
    yield Case("one ring with the bandwidth for itself", (500, 40, 4096, 1))
    yield Case("one byte more than three buffers, and more bytes than a float counts", (1, 3 * 2**54 + 1, 2**54, 1))
    for _ in range(6):
        sizes = draw.randint(100, 3000), draw.randint(40, 5000), draw.randint(2, 64) * 512, draw.randint(1, 140)
        yield Case("any sizes", sizes)


def expected(round_trip_ns, gb_per_s, tile_bytes, rings):
    """Buffer by buffer, in whole numbers: does what the rings bring in one round trip (GB/s are bytes a ns) do?"""
    buffers = 1
    while rings * buffers * tile_bytes < round_trip_ns * gb_per_s:
        buffers += 1
    return buffers


UP, SHARED = "-(-round_trip_ns * gb_per_s // (rings * tile_bytes))", "// (rings * tile_bytes)"
WRONG = {
    "if you round down: with fewer buffers the bandwidth is not reached": (UP, f"round_trip_ns * gb_per_s {SHARED}"),
    "if you round down and add 1: an exact multiple needs no more": (UP, f"round_trip_ns * gb_per_s {SHARED} + 1"),
    "if you return the buffers of all rings together: the rings share them, as they share the bandwidth": (SHARED, "// tile_bytes"),
    "if a GB is 2^30 bytes: bandwidths count 10^9": ("* gb_per_s //", "* gb_per_s * 2**30 // 10**9 //"),
    "if a float is rounded on the way, 1e-9, say: a whole number of buffers then comes out a little above itself":
        (UP, "math.ceil(gb_per_s * 1e9 * (round_trip_ns * 1e-9) / rings / tile_bytes)"),
}  # fmt: skip

"""Lecture 10: how many buffers of a ring keep the memory busy."""

from course_lib.exercises.base import Exercise

ASKED = r"""
A tile of 8,192 bytes goes round in 657 ns: issued, arrived, read, released. On 132 SMs one ring each shares 4,800 GB/s of bandwidth.
So 657 · 4,800 = 3,153,600 bytes have to be on their way at once, and 3 buffers a ring are enough. Return the least number of buffers with
which the model of the ring reaches the bandwidth, as an int. The units are ns, GB/s ($10^9$ bytes a second) and bytes; `rings` is the
number of rings that share the bandwidth.
"""

STUB = '''
def buffers_needed(round_trip_ns: int, gb_per_s: int, tile_bytes: int, rings: int) -> int:
    """The least buffers of each ring with which HBM is the limit."""
    ...
'''


EXERCISE = Exercise(
    name="buffers_needed",
    lecture="10",
    title="how many buffers keep the memory busy",
    level=1,
    minutes=4,
    asked=ASKED,
    stub=STUB,
    hints=(
        "With one buffer, one tile is brought in each round trip. How many bytes do all rings together bring in a nanosecond?",
        "1 GB/s is 1 byte a ns. The bandwidth times the round trip is the number of bytes on their way, for all rings together. How many "
        "tiles is that, and how many of them are each ring's?",
        "Bandwidth · round trip is what all rings together have on their way. Share it among the rings and count in tiles. Part "
        "of a buffer is not to be had.",
    ),
)

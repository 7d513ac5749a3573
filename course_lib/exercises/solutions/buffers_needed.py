"""Solution of buffers_needed."""

SOURCE = '''
def buffers_needed(round_trip_ns: int, gb_per_s: int, tile_bytes: int, rings: int) -> int:
    """The least buffers of each ring with which HBM is the limit."""
    return -(-round_trip_ns * gb_per_s // (rings * tile_bytes))  # rounded up, in whole numbers
'''

EXPLANATION = """
Bytes on their way = bandwidth · time: Little's law. A GB/s is a byte a nanosecond, so no power of ten is needed. On the page that is
3,153,600 bytes, 2.9 tiles for each ring, so 3 buffers. The H200 reached 76 % with 3 and needed 6 for 92 %: a busy memory answers later,
so the round trip is longer than the one measured with a single buffer. Take the model as the least that you need.
"""

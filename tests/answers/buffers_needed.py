import math
from fractions import Fraction


def right_in_fractions(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(Fraction(round_trip_ns, 10**9) * gb_per_s * 10**9 / rings / tile_bytes)


def right_buffer_by_buffer(round_trip_ns, gb_per_s, tile_bytes, rings):
    buffers = 1
    while buffers * rings * tile_bytes / round_trip_ns < gb_per_s:
        buffers += 1
    return buffers


def wrong_seconds(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(round_trip_ns * 1e-9 * gb_per_s * 1e9 / (rings * tile_bytes))


def wrong_tiles_in_a_nanosecond(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(gb_per_s / tile_bytes / rings * round_trip_ns)


def wrong_a_thousandth_forgiven(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(round_trip_ns * gb_per_s / (rings * tile_bytes) - 1e-3)


def wrong_rest_of_a_ring_dropped(round_trip_ns, gb_per_s, tile_bytes, rings):
    return -(-(round_trip_ns * gb_per_s // rings) // tile_bytes)

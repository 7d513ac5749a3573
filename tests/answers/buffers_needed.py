import math
from fractions import Fraction


def right_in_fractions(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(Fraction(round_trip_ns, 10**9) * gb_per_s * 10**9 / rings / tile_bytes)


def wrong_tiles_in_a_nanosecond(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(gb_per_s / tile_bytes / rings * round_trip_ns)


def wrong_rest_of_a_ring_dropped(round_trip_ns, gb_per_s, tile_bytes, rings):
    return -(-(round_trip_ns * gb_per_s // rings) // tile_bytes)

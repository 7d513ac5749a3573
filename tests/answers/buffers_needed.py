import math
from fractions import Fraction


def right_in_whole_numbers(round_trip_ns, gb_per_s, tile_bytes, rings):
    tiles, rest = divmod(round_trip_ns * gb_per_s, tile_bytes)
    return -(-(tiles + (rest > 0)) // rings)


def right_in_fractions(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(Fraction(round_trip_ns, 10**9) * gb_per_s * 10**9 / rings / tile_bytes)


def right_buffer_by_buffer(round_trip_ns, gb_per_s, tile_bytes, rings):
    buffers = 1
    while buffers * rings * tile_bytes / round_trip_ns < gb_per_s:
        buffers += 1
    return buffers


def wrong_seconds(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(round_trip_ns * 1e-9 * gb_per_s * 1e9 / (rings * tile_bytes))


def wrong_seconds_by_division(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(gb_per_s * 1e9 / rings * (round_trip_ns / 1e9) / tile_bytes)


def wrong_bandwidth_of_one_ring(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(gb_per_s / rings * round_trip_ns / tile_bytes)


def wrong_time_of_one_tile(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(round_trip_ns / (tile_bytes / (gb_per_s / rings)))


def wrong_tiles_in_a_nanosecond(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(gb_per_s / tile_bytes / rings * round_trip_ns)


def wrong_a_thousandth_forgiven(round_trip_ns, gb_per_s, tile_bytes, rings):
    return math.ceil(round_trip_ns * gb_per_s / (rings * tile_bytes) - 1e-3)


def wrong_99_hundredths_added(round_trip_ns, gb_per_s, tile_bytes, rings):
    return int(round_trip_ns * gb_per_s / (rings * tile_bytes) + 0.99)


def wrong_rest_of_a_ring_dropped(round_trip_ns, gb_per_s, tile_bytes, rings):
    return -(-(round_trip_ns * gb_per_s // rings) // tile_bytes)

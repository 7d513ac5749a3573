import math


def _fewer(N, d, block_m, e, block_n):
    v1 = math.ceil(N / block_n) * (d * e + 8 * d + 16)
    return v1 < 2 * math.ceil(N / block_m) * d * e + 4


def right_by_division(N, d, block_m, e):
    passes = -(-(-2 * (-N // block_m) * d * e + 4) // (d * e + 8 * d + 16)) - 1
    return None if passes < 1 else -(-N // passes)


def wrong_search_to_65536(N, d, block_m, e):
    return next((b for b in range(1, min(N, 65536) + 1) if _fewer(N, d, block_m, e, b)), None)

import math


def _fewer(N, d, block_m, e, block_n):
    v1 = math.ceil(N / block_n) * (d * e + 8 * d + 16)
    return v1 < 2 * math.ceil(N / block_m) * d * e + 4


def right_by_trying_all(N, d, block_m, e):
    for block_n in range(1, N + 1):
        if _fewer(N, d, block_m, e, block_n):
            return block_n


def right_by_division(N, d, block_m, e):
    passes = -(-(-2 * (-N // block_m) * d * e + 4) // (d * e + 8 * d + 16)) - 1
    return None if passes < 1 else -(-N // passes)


def right_by_halving(N, d, block_m, e):
    low, high = 1, N + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _fewer(N, d, block_m, e, min(middle, N)) else (middle + 1, high)
    return low if low <= N and _fewer(N, d, block_m, e, low) else None


def wrong_search_to_1024(N, d, block_m, e):
    """ends at 1,024"""
    return next((b for b in range(1, min(N, 1024) + 1) if _fewer(N, d, block_m, e, b)), None)


def wrong_search_to_16384(N, d, block_m, e):
    return next((b for b in range(1, min(N, 16384) + 1) if _fewer(N, d, block_m, e, b)), None)


def wrong_search_to_65536(N, d, block_m, e):
    return next((b for b in range(1, min(N, 65536) + 1) if _fewer(N, d, block_m, e, b)), None)


def wrong_multiples_of_8(N, d, block_m, e):
    """multiples of 8"""
    return next((b for b in range(8, N + 1, 8) if _fewer(N, d, block_m, e, b)), None)


def wrong_the_largest(N, d, block_m, e):
    """not the smallest"""
    return next((b for b in range(N, 0, -1) if _fewer(N, d, block_m, e, b)), None)


def wrong_zero_for_none(N, d, block_m, e):
    """0 comes back"""
    return right_by_trying_all(N, d, block_m, e) or 0

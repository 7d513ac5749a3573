import bisect
import math

from course_lib.model import cost


def _fewer(N, d, block_m, e, block_n):
    v1 = math.ceil(N / block_n) * (d * e + 8 * d + 16)
    return v1 < 2 * math.ceil(N / block_m) * d * e + 4


def right_by_division(N, d, block_m, e):
    passes = -(-(-2 * (-N // block_m) * d * e + 4) // (d * e + 8 * d + 16)) - 1
    return None if passes < 1 else -(-N // passes)


def wrong_search_to_65536(N, d, block_m, e):
    return next((b for b in range(1, min(N, 65536) + 1) if _fewer(N, d, block_m, e, b)), None)


def wrong_by_the_library(N, d, block_m, e):
    kind = {2: "fp16", 4: "fp32"}[e]
    v2 = cost.flash_v2_traffic(N, d, block_m, kind, lse=True).total_bytes
    found = bisect.bisect_left(
        range(1, N + 1), True, key=lambda block: cost.flash_v1_traffic(N, d, block, kind).total_bytes < v2
    )
    return found + 1 if found < N else None

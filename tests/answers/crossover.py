import math


def _never(old, new):
    return new[1] > old[1] or (new[1] == old[1] and new[0] >= old[0])


def right_bit_by_bit(old, new):
    if _never(old, new):
        return None
    n = 0
    for bit in reversed(range(64)):
        if (old[1] - new[1]) * (n | 1 << bit) ** 2 <= new[0] - old[0]:
            n |= 1 << bit
    return n + 1


def wrong_quotient_rounded_up(old, new):
    if _never(old, new):
        return None
    more, saved = new[0] - old[0], old[1] - new[1]
    return 1 if more <= 0 else math.isqrt(-(-more // saved)) + 1

def right_by_walking_round(n, slots):
    slot = phase = 0
    for _ in range(n):
        slot += 1
        if slot == slots:
            slot, phase = 0, phase ^ 1
    return slot, phase, 1 - phase


def right_from_two_rounds(n, slots):
    return [n % slots, n % (2 * slots) // slots, int(n % (2 * slots) < slots)]


def wrong_cut_toward_0(n, slots):
    return n % slots, n // slots % 2, int((n - slots) / slots) % 2


def wrong_slots_shifted(n, slots):
    round_ = n >> (slots.bit_length() - 1)
    return n % slots, round_ & 1, (round_ & 1) ^ 1


def wrong_no_round_before_the_first(n, slots):
    """if the producer waits for phase 0 in the first round"""
    return n % slots, n // slots % 2, max(n // slots - 1, 0) % 2

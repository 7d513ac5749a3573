"""Lecture 10: what phase_of is checked by."""

from collections.abc import Iterable

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    yield Case("the first tile: nobody waits for a fresh slot", (0, 2))
    yield Case("the second slot", (1, 2))
    yield Case("the second time round", (2, 2))
    yield Case("tile 3 of two slots", (3, 2))
    yield Case("the third time round: phases are 0 or 1", (4, 2))
    yield Case("a ring of one slot", (3, 1))
    yield Case("three slots, the last one", (2, 3))
    yield Case("three slots, the second time round", (5, 3))
    yield Case("six slots", (1003, 6))


def expected(n: int, slots: int) -> tuple[int, int, int]:
    """Tile after tile: each use of a slot completes the phase of either barrier, and the next begins."""
    begun_full, begun_empty, slot = [0] * slots, [0] * slots, 0
    for _ in range(n):
        begun_full[slot], begun_empty[slot] = 1 - begun_full[slot], 1 - begun_empty[slot]
        slot = slot + 1 if slot + 1 < slots else 0
    return (
        slot,
        begun_full[slot],
        1 - begun_empty[slot],
    )  # the producer waits for the phase before the one that has begun


def phase_of_the_tile(n, slots):
    return n % slots, n % 2, 1 - n % 2


def the_same_phase_for_both(n, slots):
    return n % slots, n // slots % 2, n // slots % 2


def first_round_waits(n, slots):
    return n % slots, n // slots % 2, 0 if n < slots else 1 - n // slots % 2


def roles_swapped(n, slots):
    return n % slots, 1 - n // slots % 2, n // slots % 2


def rounds_counted(n, slots):
    return n % slots, n // slots, n // slots + 1


def rounds_counted_and_flipped(n, slots):
    return n % slots, n // slots, n // slots ^ 1


def full_counted(n, slots):
    return n % slots, n // slots, 1 - n // slots % 2


def one_less_round(n, slots):
    return n % slots, n // slots, 1 - n // slots


def the_round_before(n, slots):
    return n % slots, n // slots % 2, n // slots - 1


def the_round_before_both_counted(n, slots):
    return n % slots, n // slots, n // slots - 1


def masked(n, slots):
    return n & (slots - 1), n // slots % 2, 1 - n // slots % 2


def slot_and_round_swapped(n, slots):
    return n // slots, n % slots % 2, 1 - n % slots % 2


def counted_from_one(n, slots):
    return n % slots, (n + 1) // slots % 2, 1 - (n + 1) // slots % 2


WRONG = {
    "if the phase changes with each tile: it changes with each round, n div slots": phase_of_the_tile,
    "if the producer waits for the consumer's phase: in the first round nothing completes it, and both wait "
    "forever": the_same_phase_for_both,
    "if the producer waits for phase 0 in the first round: a fresh barrier has completed phase 1, not 0": first_round_waits,
    "if the two phases are swapped: the consumer does not wait for its first tile and reads what is not there": roles_swapped,
    "if rounds are counted on: from the third round on they are 2, 3, …, and phases are 0 or 1": rounds_counted,
    "if the rounds' last bit is flipped but the others stay: take n div slots mod 2 first": rounds_counted_and_flipped,
    "if mod 2 is missing in the phase of full: from the third round on it is 2, 3, …": full_counted,
    "if mod 2 is missing: from the third round on r is no phase, and 1 − r is below 0": one_less_round,
    "if the producer waits for r − 1 without mod 2: in the first round that is −1": the_round_before,
    "if mod 2 is missing in r and in r − 1: phases are 0 or 1": the_round_before_both_counted,
    "if the slot is n & (slots − 1): that is n mod slots for powers of two only": masked,
    "if mod and div are swapped: the slot is the remainder, the round is the quotient": slot_and_round_swapped,
    "if tiles are counted from 1 for the round: the last slot is then a round ahead": counted_from_one,
}

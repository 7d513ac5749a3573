"""Lecture 10: what phase_of is checked by."""

from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("tile 2 in a ring of one slot", (2, 1))
    yield Case("tile 9 of six slots", (9, 6))
    yield Case("tile 5 of five slots", (5, 5))
    yield Case("the first tile: nobody waits for a fresh slot", (0, 2))
    yield Case("the second slot", (1, 2))
    yield Case("the second time round", (2, 2))
    yield Case("tile 3 of two slots", (3, 2))
    yield Case("the third time round: phases are 0 or 1", (4, 2))
    yield Case("tile 3 in a ring of one slot", (3, 1))
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


def _phase_of(n, slots, bug):
    slot, r = n % slots, n // slots
    if bug == "swapped":
        slot, r = r, slot
    r = n if bug == "tile" else r
    full = r % 2
    pairs = {
        "same": (full, full),
        "first round": (full, 0 if n < slots else 1 - full),
        "roles": (1 - full, full),
        "no mod": (r, 1 - r),
        "before": (full, r - 1),
    }
    return n & (slots - 1) if bug == "masked" else slot, *pairs.get(bug, (full, 1 - full))


WRONG = variants(
    _phase_of,
    {
        "if the phase changes with each tile: it changes with each round, n div slots": "tile",
        (
            "if the producer waits for the consumer's phase: in the first round nothing completes it, and both wait "
            "forever"
        ): "same",
        "if the producer waits for phase 0 in the first round: a fresh barrier has completed phase 1, not 0": "first round",
        "if the two phases are swapped: the consumer does not wait for its first tile and reads what is not there": "roles",
        "if mod 2 is missing: from the third round on r is no phase, and 1 − r is below 0": "no mod",
        "if the producer waits for r − 1 without mod 2: in the first round that is −1": "before",
        "if the slot is n & (slots − 1): that is n mod slots for powers of two only": "masked",
        "if mod and div are swapped: the slot is the remainder, the round is the quotient": "swapped",
    },
)

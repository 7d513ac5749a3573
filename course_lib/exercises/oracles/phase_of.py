"""Lecture 10: what phase_of is checked by."""

import random
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    yield Case("tile 2 in a ring of one buffer", (2, 1))
    yield Case("tile 9 of six buffers", (9, 6))
    yield Case("tile 5 of five buffers", (5, 5))
    yield Case("the first tile: nobody waits for a fresh buffer", (0, 2))
    yield Case("the second buffer", (1, 2))
    yield Case("the second time round", (2, 2))
    yield Case("tile 3 of two buffers", (3, 2))
    yield Case("the third time round: phases are 0 or 1", (4, 2))
    yield Case("tile 3 in a ring of one buffer", (3, 1))
    yield Case("three buffers, the last one", (2, 3))
    yield Case("three buffers, the second time round", (5, 3))
    yield Case("six buffers", (1003, 6))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(16):
        yield Case("any tile of any ring", (draw.randint(0, 400), draw.randint(1, 9)))


def expected(n: int, buffers: int) -> tuple[int, int, int]:
    """Tile after tile: each use of a buffer completes the phase of either barrier, and the next begins."""
    begun_full, begun_empty, buffer = [0] * buffers, [0] * buffers, 0
    for _ in range(n):
        begun_full[buffer], begun_empty[buffer] = 1 - begun_full[buffer], 1 - begun_empty[buffer]
        buffer = buffer + 1 if buffer + 1 < buffers else 0
    return (
        buffer,
        begun_full[buffer],
        1 - begun_empty[buffer],
    )  # the producer waits for the phase before the one that has begun


def _phase_of(n, buffers, bug):
    n += bug == "from 1"
    buffers = 2 if bug == "two" else buffers
    buffer, r = n % buffers, n // buffers
    if bug == "swapped":
        buffer, r = r, buffer
    r = {"tile": n, "parity of the buffer": buffer, "rounds from 1": (n + 1) // buffers}.get(bug, r)
    full = r % 2
    pairs = {
        "same": (full, full),
        "first round": (full, 0 if n < buffers else 1 - full),
        "roles": (1 - full, full),
        "no mod": (r, 1 - r),
        "before": (full, r - 1),
        "no mod, one more": (r, r + 1),
        "both late": (1 - full, 1 - full),
    }
    return n & (buffers - 1) if bug == "masked" else buffer, *pairs.get(bug, (full, 1 - full))


WRONG = variants(
    _phase_of,
    {
        "if the phase changes with each tile: it changes with each round, n div buffers": "tile",
        (
            "if the producer waits for the consumer's phase: in the first round nothing completes it, and both wait "
            "forever"
        ): "same",
        "if the producer waits for phase 0 in the first round: a fresh barrier has completed phase 1, not 0": "first round",
        "if the two phases are swapped: the consumer does not wait for its first tile and reads what is not there": "roles",
        "if mod 2 is missing: from the third round on r is no phase, and 1 − r is below 0": "no mod",
        "if mod 2 is missing, and the producer waits for r + 1: phases are 0 or 1": "no mod, one more",
        "if the consumer waits for the producer's phase: it would read its first tile before that is there": "both late",
        "if the producer waits for r − 1 without mod 2: in the first round that is −1": "before",
        "if the buffer is n & (buffers − 1): that is n mod buffers for powers of two only": "masked",
        "if tiles are counted from 1: the first one is tile 0": "from 1",
        "if the round is (n + 1) div buffers: the last buffer then begins it too early": "rounds from 1",
        "if the ring is taken to have two buffers always": "two",
        "if the phase is the buffer's parity: it changes with each round": "parity of the buffer",
        "if mod and div are swapped: the buffer is the remainder, the round is the quotient": "swapped",
    },
)

"""Lecture 15: what crossover is checked by."""

import bisect
import math
import random
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

FAR = 10**9  # lengths; every crossing lies below


def cases() -> Iterable[Case]:
    yield Case("C++ and a GPU", ((100_000, 26_000), (45_000_000, 10)))
    yield Case("from 4 on, by hand: 10 + 2 N² against 20 + N²", ((10, 2), (20, 1)))
    yield Case("equally fast at N = 7", ((0, 2), (49, 1)))
    yield Case("calls that cost nearly the same", ((900, 50), (1000, 10)))
    yield Case("a new rung that needs half as long for a score", ((0, 20), (1000, 10)))
    yield Case("equally fast between 2 and 3", ((0, 20), (85, 10)))
    yield Case("faster from the first length on", ((500, 20), (100, 10)))
    yield Case("a dearer call that one score pays back", ((100, 50), (130, 10)))
    yield Case("equally fast at N = 1", ((100, 50), (140, 10)))
    yield Case("the same call, cheaper scores", ((100, 20), (100, 10)))
    yield Case("the same scores, a cheaper call", ((100, 10), (40, 10)))
    yield Case("the same scores, a dearer call", ((100, 10), (140, 10)))
    yield Case("faster on short inputs only", ((1000, 10), (100, 20)))
    yield Case("two equal rungs", ((100, 10), (100, 10)))
    yield Case("a call that costs a hundred times more", ((1_000_000, 68), (100_000_000, 61)))
    call, length = 100_000, 1_000_003
    for words, rest in (("one picosecond faster", -1), ("one picosecond slower", 1)):
        at = f"{words} at N = {length:,}"
        yield Case(at, ((call, 26_000), (call + 25_990 * length**2 + rest, 10)))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    for _ in range(12):
        length, old, new = draw.randint(1, 10_000), draw.randint(11, 90_000), draw.randint(1, 10)
        call = draw.randint(0, 100_000)
        later = call + (old - new) * length**2 + draw.choice((-1, 0, 1))
        yield Case("any rungs", ((call, old), (later, new)) if draw.random() < 0.8 else ((later, new), (call, old)))


def expected(old: tuple[int, int], new: tuple[int, int]) -> int | None:
    """By halving the lengths up to FAR: where new is faster there, it is so from the answer on."""

    def faster(n: int) -> bool:
        return new[0] + new[1] * n * n < old[0] + old[1] * n * n

    return bisect.bisect_left(range(1, FAR), True, key=faster) + 1 if faster(FAR) else None


def _crossover(old, new, bug):
    if bug == "roles":
        old, new = new, old
    more, saved = new[0] - old[0], old[1] - new[1]
    if bug == "whole call":
        more = new[0] if saved > 0 else more
    if bug in ("same scores", "ties, same scores") and saved == 0:
        return None
    if bug in ("first win", "first win, limited"):
        return 1 if more + new[1] < old[1] else _crossover(old, new, "limited" if "limited" in bug else "")
    if bug == "no cases":
        return math.isqrt(more // saved) + 1
    if bug in ("ties, equal rungs", "equal rungs") and more == saved == 0:
        return 1
    if bug == "zero, scores" and more < 0 < saved:
        return 0
    if saved < 0 or (saved == 0 and more >= 0):
        return -1 if bug == "minus one" else None
    if saved == 0 or (more < 0 and bug != "no special case"):
        return 0 if bug == "zero" else 1
    root = math.sqrt(abs(more) / saved)
    found = {
        "ties": max(1, math.ceil(root)), "ties, same scores": max(1, math.ceil(root)), "ties, no less": math.ceil(root),
        "ties, equal rungs": math.isqrt(max(more - 1, 0) // saved) + 1,
        "no root": more // saved + 1, "no special case": math.isqrt(abs(more) // saved) + 1,
        "nearest": max(1, round(root)), "doubled": 1 << math.isqrt(abs(more) // saved).bit_length(),
        "not one more": math.isqrt(more // saved) if more > 0 else 1, "floats": math.floor(root) + 1,
    }.get(bug, math.isqrt(abs(more) // saved) + 1)  # fmt: skip
    return None if bug == "limited" and found > 100_000 else found


WRONG = variants(
    _crossover,
    {
        "if the rungs are swapped: new is to be the faster one": "roles",
        "if all of new's call has to be paid back: old's call costs, too": "whole call",
        "if the same score is taken for never: with a cheaper call new is ahead at each length": "same scores",
        "if a length at which both are equally fast counts": "ties",
        "if a length at which both are equally fast counts, and equal rungs, too": "ties, equal rungs",
        "if a length at which both are equally fast counts, and the same score is taken for never": "ties, same scores",
        "if the root is rounded up: equally fast counts then, and equal calls give 0": "ties, no less",
        "if no pair gets a case of its own: savings of 0 or less have no root to take": "no cases",
        "if you return the first length up to a limit at which new is faster: it may lose again": "first win, limited",
        "if a new rung whose call and score are cheaper gets 0: the smallest length is 1": "zero, scores",
        "if one is missing: at the root, rounded down, new is not yet faster": "not one more",
        "without the square root: the savings grow as N², not as N": "no root",
        "if you return the first length at which new is faster: on longer ones it may lose again": "first win",
        "if a new rung with the cheaper call gets no case of its own: it is ahead from N = 1 on": "no special case",
        "if a new rung that is always faster gets 0: the smallest length is 1": "zero",
        "if floats are used: the quotient is rounded to a whole square, and its root is one length off": "floats",
        "if only the lengths 1, 2, 4, 8, … are tried": "doubled",
        "if the root is rounded to the nearest whole number: the next one above it is asked": "nearest",
        "if two equal rungs give 1: equally fast is not faster": "equal rungs",
        "if −1 stands for never: return None": "minus one",
        "if lengths are tried up to a limit only": "limited",
    },
)

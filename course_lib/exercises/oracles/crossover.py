"""Lecture 09: what crossover is checked by."""

import math
from collections.abc import Iterable

from course_lib.exercises.base import Case

LONGEST = 5000


def cases() -> Iterable[Case]:
    yield Case("C++ and a GPU", ((100_000, 26_000), (45_000_000, 10)))
    yield Case("from 4 on, by hand: 10 + 2 N² against 20 + N²", ((10, 2), (20, 1)))
    yield Case("equally fast at N = 7", ((0, 2), (49, 1)))
    yield Case("calls that cost nearly the same", ((900, 50), (1000, 10)))
    yield Case("a new rung that needs half as long for a score", ((0, 20), (1000, 10)))
    yield Case("faster from the first length on", ((500, 20), (100, 10)))
    yield Case("the same call, cheaper scores", ((100, 20), (100, 10)))
    yield Case("the same scores, a cheaper call", ((100, 10), (40, 10)))
    yield Case("the same scores, a dearer call", ((100, 10), (140, 10)))
    yield Case("faster on short inputs only", ((1000, 10), (100, 20)))
    yield Case("two equal rungs", ((100, 10), (100, 10)))
    yield Case("a call that costs a hundred times more", ((1_000_000, 70), (100_000_000, 61)))


def expected(old: tuple[int, int], new: tuple[int, int]) -> int | None:
    """By trying: the length after the last at which new is not faster. Every case's lies well below LONGEST."""
    slower = [n for n in range(1, LONGEST + 1) if new[0] + new[1] * n * n >= old[0] + old[1] * n * n]
    return None if slower and slower[-1] == LONGEST else (slower[-1] if slower else 0) + 1


def _crossing(call: int, score: int, old: tuple[int, int], new: tuple[int, int]) -> int | None:
    """The right answer where new's call costs ``call`` more and its score ``score`` less."""
    if new[1] > old[1] or (new[1] == old[1] and new[0] >= old[0]):
        return None
    return 1 if call < 0 else math.isqrt(call // score) + 1


def ties_count(old, new):
    call, score = new[0] - old[0], old[1] - new[1]
    if score < 0 or (score == 0 and call >= 0):
        return None
    return 1 if call <= 0 else math.ceil(math.sqrt(call / score))


def no_root(old, new):
    call, score = new[0] - old[0], old[1] - new[1]
    if score < 0 or (score == 0 and call >= 0):
        return None
    return 1 if call < 0 else call // score + 1


def old_call_forgotten(old, new):
    return _crossing(new[0], max(old[1] - new[1], 1), old, new)


def new_scores_forgotten(old, new):
    return _crossing(new[0] - old[0], old[1], old, new)


def first_win(old, new):
    return next((n for n in range(1, LONGEST) if new[0] + new[1] * n * n < old[0] + old[1] * n * n), None)


def rounded_root(old, new):
    call, score = new[0] - old[0], old[1] - new[1]
    if score < 0 or (score == 0 and call >= 0):
        return None
    return 1 if call <= 0 else round(math.sqrt(call / score))


def not_from_one(old, new):
    call, score = new[0] - old[0], old[1] - new[1]
    return None if score <= 0 else math.isqrt(abs(call) // score) + 1


def no_case_apart(old, new):
    return math.isqrt((new[0] - old[0]) // (old[1] - new[1])) + 1


def powers_of_two(old, new):
    right = _crossing(new[0] - old[0], old[1] - new[1], old, new)
    return right and 1 << (right - 1).bit_length()


WRONG = {
    "if a length at which both are equally fast counts": ties_count,
    "without the square root: the savings grow as N², not as N": no_root,
    "if the old rung's call is taken to be free": old_call_forgotten,
    "if the new rung's scores are taken to be free": new_scores_forgotten,
    "if you return the first length at which new is faster: on longer ones it may lose again": first_win,
    "if the root is rounded to the nearest whole number: at that length new may still be slower": rounded_root,
    "if a new rung with the cheaper call gets no case of its own: it is ahead from N = 1 on": not_from_one,
    "if the formula is used where new saves nothing on a score, or has the cheaper call": no_case_apart,
    "if only powers of two are tried": powers_of_two,
}

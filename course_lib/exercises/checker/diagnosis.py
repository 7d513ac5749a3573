"""Which bug is it? A wrong answer is told by the answers known to be wrong: by the one that gives the same results."""

from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.base import Exercise
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.checker.families import family
from course_lib.exercises.checker.material import Material, gist
from course_lib.exercises.processes.forked_process import Failure, Outcome

ENOUGH = 2  # cases in which a bug shows, and shows alike, before a second mistake may stand beside it
ENOUGH_WHOLE = 4  # the same of whole numbers and words, which may be the same by chance
GUARDED = 4  # times as many cases that show a bug as those that are right all the same


def diagnose(exercise: Exercise, material: Material, found: Sequence[Outcome]) -> str:
    """The diagnosis of the known-wrong answer that gives the same results, case by case; '' if none does, or more than one.

    Where none does, of the one whose wrong numbers are all found, in two cases or more: where it is right there may be a second
    mistake. Of several it is the one that is wrong wherever the others are. Whole numbers, words and exceptions are too few to tell
    bugs apart in this way: they have to agree in all cases but those in which one of the two has no numbers, or a few that are right.
    What is left may be of a family.
    """
    theirs = material.wrong()
    for diagnosis, outcomes in theirs.items():
        if len(outcomes) == len(found) and all(_alike(one, other, exercise) for one, other in zip(found, outcomes)):
            return diagnosis
    for shows in (_shows_all_of, _differs_in_ruins, _ruins_the_same):
        shown = [d for d, outcomes in theirs.items() if shows(exercise, material, found, outcomes)]
        if shown:
            return _most(exercise, material, {d: theirs[d] for d in shown})
    if guarded := _guarded(exercise, material, found):
        return guarded
    return family(exercise, material.expected, found)


def _differs_in_ruins(
    exercise: Exercise, material: Material, found: Sequence[Outcome], outcomes: Sequence[Outcome]
) -> bool:
    """Whether both are wrong by the same numbers in the same cases, but for cases and places in which one of them has no numbers.

    One and the same bug may end in NaN, in infinity, in 0 or in an exception, as the code around it has it. A single case that is all
    the same is enough where the two are wrong in the same cases.
    """
    if len(found) != len(outcomes):
        return False
    telling = plain = whole = 0
    for mine, theirs, right in zip(found, outcomes, material.expected):
        if isinstance(mine.result, Failure) or isinstance(theirs.result, Failure):
            continue
        if not _is_wrong(mine, right, exercise) and not _is_wrong(theirs, right, exercise):
            continue
        if _alike(mine, theirs, exercise):
            whole, plain = whole + _has_numbers(theirs.result), plain + 1
        else:
            same = _same_wrong_numbers(mine.result, theirs.result, right, exercise.tolerance)
            if same < 0:
                return False
            telling += same > 0
    if whole and _wrong_cases(exercise, material, found) == _wrong_cases(exercise, material, outcomes):
        return True
    return telling + whole >= ENOUGH or plain >= ENOUGH_WHOLE


def _wrong_cases(exercise: Exercise, material: Material, found: Sequence[Outcome]) -> set[int]:
    return {i for i, (x, right) in enumerate(zip(found, material.expected)) if _is_wrong(x, right, exercise)}


def _guarded(exercise: Exercise, material: Material, found: Sequence[Outcome]) -> str:
    """The bug that has the same outcomes but in a few cases, which are right: as with ``max(1, …)`` around it. '' if two are as near."""
    wrong = _wrong_cases(exercise, material, found)
    spared: dict[str, int] = {}
    for diagnosis, outcomes in material.wrong().items():
        other = {i for i, (mine, theirs) in enumerate(zip(found, outcomes)) if not _alike(mine, theirs, exercise)}
        if len(outcomes) == len(found) and not other & wrong:
            spared[diagnosis] = len(other)
    least = min(spared.values(), default=0)
    nearest = [diagnosis for diagnosis, others in spared.items() if others == least]
    return nearest[0] if len(nearest) == 1 and len(wrong) >= max(ENOUGH_WHOLE, GUARDED * least) else ""


def _ruins_the_same(
    exercise: Exercise, material: Material, found: Sequence[Outcome], outcomes: Sequence[Outcome]
) -> bool:
    """Whether both are right but for the same places of the same cases, and have NaN, infinity or 0 in these."""
    ruined = 0
    for mine, theirs, right in zip(found, outcomes, material.expected):
        wrong = _is_wrong(mine, right, exercise)
        if wrong != _is_wrong(theirs, right, exercise):
            return False
        if wrong:
            places = [_ruins(x.result, right, exercise.tolerance) for x in (mine, theirs)]
            if not places[0] or places[0] != places[1]:
                return False
            ruined += 1
    return len(found) == len(outcomes) and ENOUGH <= ruined < len(found)


def _ruins(result: Any, right: Any, tolerance: float) -> list[int]:
    """The places at which a result has NaN, infinity or 0 instead of another number; none if it is wrong otherwise, too."""
    if isinstance(result, Failure) or _others(result) != _others(right):
        return []
    one, other = _tensors(result), _tensors(right)
    if [x.shape for x in one] != [x.shape for x in other]:
        return []
    places, before = [], 0
    for a, r in zip(one, other):
        finite = r[r.isfinite()].abs()
        wrong = _far(a, r, tolerance * max(float(finite.max()) if finite.numel() else 1.0, 1e-30))
        if not ((a == 0) | ~a.isfinite())[wrong].all():
            return []
        places += [before + i for i in wrong.flatten().nonzero().flatten().tolist()]
        before += a.numel()
    return places


def _is_wrong(outcome: Outcome, right: Any, exercise: Exercise) -> bool:
    return isinstance(outcome.result, Failure) or bool(differs(outcome.result, right, exercise.tolerance))


def _same_wrong_numbers(one: Any, other: Any, right: Any, tolerance: float) -> int:
    """How many wrong numbers two results share; −1 where they differ otherwise than in what is no finite number in one of them."""
    parts = [_tensors(x) for x in (one, other, right)]
    if _others(one) != _others(other) or not all(parts) or len({tuple(x.shape for x in part) for part in parts}) != 1:
        return -1
    shared = 0
    for a, b, r in zip(*parts):
        finite = r[r.isfinite()].abs()
        allowed = tolerance * max(float(finite.max()) if finite.numel() else 1.0, 1e-30)
        near, wrong = ~_far(a, b, allowed), _far(b, r, allowed)
        if not (near | ~a.isfinite() | ~b.isfinite()).all():
            return -1
        shared += int((near & wrong & b.isfinite()).sum())
    return shared


def _far(a: torch.Tensor, b: torch.Tensor, allowed: float) -> torch.Tensor:
    return ~torch.isclose(a, b, rtol=0, atol=allowed, equal_nan=True)


def _tensors(result: Any) -> list[torch.Tensor]:
    """The floating-point numbers of a result, part by part; none where there is something else."""
    if isinstance(result, float):
        return [torch.tensor(result, dtype=torch.float64)]
    if isinstance(result, torch.Tensor):
        return [result.double()] if result.is_floating_point() else []
    if isinstance(result, tuple | list):
        parts = [_tensors(x) for x in result if not isinstance(x, str | int)]
        return [x for part in parts for x in part] if all(parts) else []
    return []


def _most(exercise: Exercise, material: Material, shown: dict[str, list[Outcome]]) -> str:
    """The bug that is wrong wherever the others are, and in further cases; '' where there is no such one."""
    cases = {d: _wrong_cases(exercise, material, outcomes) for d, outcomes in shown.items()}
    most = max(cases, key=lambda d: len(cases[d]))
    return most if all(d == most or found < cases[most] for d, found in cases.items()) else ""


def _shows_all_of(
    exercise: Exercise, material: Material, found: Sequence[Outcome], outcomes: Sequence[Outcome]
) -> bool:
    """Whether wherever a known-wrong answer is wrong its numbers are found."""
    if len(found) != len(outcomes):
        return False
    telling = 0
    for mine, theirs, right in zip(found, outcomes, material.expected):
        if not isinstance(theirs.result, Failure) and not differs(theirs.result, right, exercise.tolerance):
            continue
        if not _alike(mine, theirs, exercise):
            return False
        telling += _has_numbers(theirs.result)
    return telling >= ENOUGH


def _has_numbers(result: Any) -> bool:
    """Whether a result holds finite floating-point numbers other than 0: those are hardly the same by chance."""
    if isinstance(result, tuple | list):
        return any(map(_has_numbers, result))
    if isinstance(result, dict):
        return any(map(_has_numbers, result.values()))
    if isinstance(result, torch.Tensor | float):
        x = torch.as_tensor(result)
        return bool(x.is_floating_point() and x.numel() and x.isfinite().all() and (x != x.round()).any())
    return False


def _alike(one: Outcome, other: Outcome, exercise: Exercise) -> bool:
    if isinstance(one.result, Failure) or isinstance(other.result, Failure):
        both = isinstance(one.result, Failure) and isinstance(other.result, Failure)
        return both and one.result.kind == other.result.kind and gist(one.result) == gist(other.result)
    return not differs(one.result, other.result, exercise.tolerance)


def _others(result: Any) -> list[Any]:
    """The words and whole numbers of a result, part by part."""
    if isinstance(result, tuple | list):
        return [x for part in result for x in _others(part)]
    return [result] if isinstance(result, str | int) else []

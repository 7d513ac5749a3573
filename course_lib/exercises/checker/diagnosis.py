"""Which bug is it? A wrong answer is told by the answers known to be wrong: by the one that gives the same results."""

from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.base import Exercise
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.checker.material import Material, gist
from course_lib.exercises.processes.forked_process import Failure, Outcome

ENOUGH = 2  # cases in which a bug shows, and shows alike, before a second mistake may stand beside it


def diagnose(exercise: Exercise, material: Material, found: Sequence[Outcome]) -> str:
    """The diagnosis of the known-wrong answer that gives the same results, case by case; '' if none does, or more than one.

    Where none does, of the only one whose wrong numbers are all found, in two cases or more: where it is right there may be a second
    mistake. Whole numbers and words are too few to tell bugs apart in this way, and so are exceptions.
    """
    theirs = material.wrong()
    for diagnosis, outcomes in theirs.items():
        if len(outcomes) == len(found) and all(_alike(one, other, exercise) for one, other in zip(found, outcomes)):
            return diagnosis
    shown = [d for d, outcomes in theirs.items() if _shows_all_of(exercise, material, found, outcomes)]
    return shown[0] if len(shown) == 1 else ""


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

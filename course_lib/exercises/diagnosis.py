"""Which bug is it? A wrong answer is told by the answers known to be wrong: by the one that gives the same results."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise, differs
from course_lib.exercises.forked_process import Failure, Outcome, outcomes


def diagnose(exercise: Exercise, cases: Sequence[Case], found: Sequence[Outcome], first: int) -> str:
    """The diagnosis of the known-wrong answer that gives the same results, case by case; '' if none does.

    Where none does, of the one that alone gives the same numbers up to the ``first`` case that fails: a second mistake may hide in the
    others. That takes numbers with a fraction: many a bug says 0, None or False.
    """
    theirs = {d: _outcomes_of_wrong(exercise, d, function, tuple(cases)) for d, function in exercise.wrong.items()}
    for diagnosis, outcomes_ in theirs.items():
        if len(outcomes_) == len(found) and all(_alike(one, other, exercise) for one, other in zip(found, outcomes_)):
            return diagnosis
    if (
        isinstance(found[first].result, Failure)
        or "nan" in repr(found[first].result)
        or not _telling(found[first].result)
    ):
        return ""
    alike = [
        diagnosis
        for diagnosis, outcomes_ in theirs.items()
        if len(outcomes_) > first and all(_alike(found[i], outcomes_[i], exercise) for i in range(first + 1))
    ]
    return alike[0] if len(alike) == 1 else ""


def _telling(result: Any) -> bool:
    """Whether two bugs will hardly agree on a result by chance."""
    parts = result if isinstance(result, tuple | list) else [result]
    return any(isinstance(x, float) or getattr(x, "dtype", torch.int64).is_floating_point for x in parts)


def _outcomes_of_wrong(
    exercise: Exercise, diagnosis: str, function: Callable[..., Any], cases: Sequence[Case]
) -> list[Outcome]:
    if (exercise.name, diagnosis) not in _known:
        calls = [functools.partial(exercise.run, function, case.fresh()) for case in cases]
        _known[exercise.name, diagnosis] = outcomes(function, calls)
    return _known[exercise.name, diagnosis]


_known: dict[tuple[str, str], list[Outcome]] = {}


def _alike(one: Outcome, other: Outcome, exercise: Exercise) -> bool:
    if isinstance(one.result, Failure) or isinstance(other.result, Failure):
        both = isinstance(one.result, Failure) and isinstance(other.result, Failure)
        return both and one.result.kind == other.result.kind and _gist(one.result) == _gist(other.result)
    try:
        return not differs(one.result, other.result, exercise.tolerance)
    except (TypeError, ValueError, RuntimeError):
        return False


def _gist(failure: Failure) -> str:
    """The exception's type; for an access out of range also whether it was a read or a write."""
    kind, _, rest = failure.words.partition(":")
    return f"{kind}: {' '.join(rest.split()[:3])}" if kind == "OutOfRangeError" else kind

"""Cases that no copy of the course holds, drawn anew for each grading: of no use is a table of those that a check shows."""

import importlib
import itertools
import pkgutil
import random
from typing import Any

import torch

from course_lib.exercises import oracles, values
from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.checker.material import Material

MOST = 8
OTHERS = 7 / 8, 1.0  # by what numbers of a known case are multiplied, from and to
ROUNDED = 1 - 2.0**-20, 1 + 2.0**-20  # that no right result may feel: some units in the last place of float32
NONE = (
    "This copy of the course has no oracles: only the cases that a check shows are judged, and whoever copies their results passes. "
    "Grade in the checkout that the copy was made from."
)


def weaker() -> str:
    """In words what grading lacks where no cases can be drawn, as in a student's copy; '' elsewhere."""
    return "" if any(True for _ in pkgutil.iter_modules(oracles.__path__)) else NONE


def unseen(exercise: Exercise, seed: str) -> Material:
    """Up to eight cases with their right results; the same for the same seed. None where there is no oracle, as in a student's copy.

    An oracle may draw them itself, ``drawn(random)``, as it has to where arguments depend on each other; of others the known cases are
    taken with other floating-point numbers.
    """
    nothing = Material((), (), dict)
    try:
        oracle = importlib.import_module(f"{oracles.__name__}.{exercise.name}")
    except ModuleNotFoundError:
        return nothing
    draw = random.Random(f"{seed} {exercise.name}")
    with torch.random.fork_rng(devices=[]):
        if hasattr(oracle, "drawn"):
            cases = list(oracle.drawn(draw))
        else:
            known = list(exercise.cases())
            pairs = [
                (case, case._replace(args=_changed(case.args, draw, *OTHERS)))
                for case in draw.sample(known, len(known))
            ]
            other = (b for a, b in pairs if repr(b.args) != repr(a.args) and _sound(a, b, exercise, draw))
            cases = list(itertools.islice(other, MOST))
        right = [exercise.expected(*case.fresh().args) for case in cases]
    told = values.decode(values.encode([(case.property, case.args, dict(case.options)) for case in cases]))
    return Material(tuple(Case(*case) for case in told), tuple(values.decode(values.encode(right))), dict)


def _sound(known: Case, case: Case, exercise: Exercise, draw: random.Random) -> bool:
    """Whether a right answer can be told by the tolerance: the right result is finite if that of the known case is, and rounding the
    arguments leaves it where it is. It does not where the result is a small difference of large numbers, which is luck.
    """
    right = exercise.expected(*case.fresh().args)
    if not _finite(right) and _finite(exercise.expected(*known.fresh().args)):
        return False
    rounded = (case._replace(args=_changed(case.args, draw, *ROUNDED)) for _ in range(4))
    truth = values.plain(right)
    return not any(differs(exercise.expected(*near.fresh().args), truth, exercise.tolerance) for near in rounded)


def _finite(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, torch.Tensor | float):
        return bool(torch.as_tensor(value).isfinite().all())
    return True


def _changed(value: Any, draw: random.Random, least: float, most: float) -> Any:
    """With numbers multiplied by others, ``least`` to ``most``; signs, masks and whole numbers stay."""
    if isinstance(value, torch.Tensor) and value.is_floating_point() and bool((value.abs() != 1).any()):
        generator = torch.Generator().manual_seed(draw.randrange(2**62))
        factor = least + (most - least) * torch.rand(value.shape, generator=generator, dtype=torch.float64)
        return (value.double() * factor).to(value.dtype)
    if isinstance(value, tuple):
        return tuple(_changed(part, draw, least, most) for part in value)
    if isinstance(value, list):
        return [x * draw.uniform(least, most) if type(x) is float else _changed(x, draw, least, most) for x in value]
    return value

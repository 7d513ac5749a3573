"""What an exercise is checked by: cases, right results, and the results of known-wrong answers.

It is made from the oracles, or, in a copy for students, which has none, read from a file of data in ``cases/`` that says the same.
"""

import functools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from course_lib.exercises import values
from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.checker.kept import kept
from course_lib.exercises.processes.forked_process import LIMIT, Failure, Outcome, outcomes
from course_lib.exercises.sandbox.answering import run_case

NEAR = 8  # numbers beside a tensor
FOLDER = Path(__file__).parents[1] / "cases"
_known: dict[str, "Material"] = {}


class Material(NamedTuple):
    """cases, and of each the right result; wrong(): what becomes of each case with each known bug, by its diagnosis."""

    cases: tuple[Case, ...]
    expected: tuple[Any, ...]
    wrong: Callable[[], dict[str, list[Outcome]]]


def material(exercise: Exercise) -> Material:
    """It consists of plain data, wherever it is from. Raises ModuleNotFoundError in a copy with neither oracle nor file."""
    if exercise.name not in _known:
        path = FOLDER / f"{exercise.name}.json"
        data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else _right(exercise)
        cases = tuple(Case(*case) for case in values.decode(data["cases"]))
        wrong = functools.cache(lambda: _read_wrong(data["wrong"] if "wrong" in data else _wrong(exercise, cases)))
        _known[exercise.name] = Material(cases, tuple(values.decode(data["expected"])), wrong)
    return _known[exercise.name]


def as_file(exercise: Exercise) -> str:
    """The text of the file from which a copy without oracles reads all of it; the same text each time."""
    right = _right(exercise)
    cases = tuple(Case(*case) for case in values.decode(right["cases"]))
    return json.dumps({**right, "wrong": _wrong(exercise, cases)}, separators=(",", ":")) + "\n"


def _right(exercise: Exercise) -> dict[str, Any]:
    with torch.random.fork_rng(devices=[]):  # the page's random numbers are its own
        cases = list(exercise.cases())
        right = [exercise.expected(*case.fresh().args) for case in cases]
    told = [(case.property, case.args, dict(case.options)) for case in cases]
    return {"cases": values.encode(told), "expected": values.encode(right)}


def _wrong(exercise: Exercise, cases: tuple[Case, ...]) -> dict[str, Any]:
    return kept(exercise.name, functools.partial(_tried, exercise, cases))


def _tried(exercise: Exercise, cases: tuple[Case, ...]) -> dict[str, Any]:
    """All known-wrong answers in one process; each in its own if one ends it, or takes too long."""
    wrong = exercise.wrong
    calls = [functools.partial(run_case, exercise, f, case.fresh()) for f in wrong.values() for case in cases]
    together = outcomes(_wrong, calls, LIMIT * len(wrong))
    found = [together[i * len(cases) : (i + 1) * len(cases)] for i in range(len(wrong))]
    if any(isinstance(x.result, Failure) and x.result.kind != "exception" for x in together[-1:]):
        found = [_outcomes(exercise, function, cases) for function in wrong.values()]
    seen = [[_gist(outcome) for outcome in examined(exercise, cases, each)] for each in found]
    return {d: values.encode([outcome.as_data() for outcome in each]) for d, each in zip(wrong, seen)}


def _read_wrong(data: dict[str, Any]) -> dict[str, list[Outcome]]:
    return {diagnosis: [Outcome.of(x) for x in values.decode(found)] for diagnosis, found in data.items()}


def attempts(exercise: Exercise, function: Callable[..., Any], cases: tuple[Case, ...]) -> list[Outcome]:
    """What becomes of each case with a function; after one that ended the process, or took too long, none follow."""
    return examined(exercise, cases, _outcomes(exercise, function, cases))


def _outcomes(exercise: Exercise, function: Callable[..., Any], cases: tuple[Case, ...]) -> list[Outcome]:
    return outcomes(function, [functools.partial(run_case, exercise, function, case.fresh()) for case in cases])


def examined(exercise: Exercise, cases: Sequence[Case], found: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes of cases with what is compared in place of the results."""

    def seen(case: Case, outcome: Outcome) -> Outcome:
        failed = isinstance(outcome.result, Failure)
        return outcome if failed else outcome._replace(result=exercise.examine(case, outcome.result))

    return [seen(case, outcome) for case, outcome in zip(cases, found)]


def _gist(outcome: Outcome) -> Outcome:
    """Without what differs from one run to the next."""
    result = outcome.result
    return Outcome(Failure(result.kind, gist(result)) if isinstance(result, Failure) else result)


def gist(failure: Failure) -> str:
    """What two failures of one cause have in common: all words, but of an access beside the tensors only whether it read or wrote.

    Right beside a tensor it is also which one: further off that depends on where the others lie.
    """
    kind, _, rest = failure.words.partition(":")
    if kind != "OutOfRangeError" or " element " not in rest:  # another failure, or one of which this has been taken
        return failure.words
    at = re.search(r"element (-?\d+) of (\w+), which has (\d+)", rest)
    beside = at and (-NEAR <= int(at[1]) < 0 or 0 <= int(at[1]) - int(at[3]) < NEAR)
    return f"{kind}: {' '.join(rest.split()[:3])}{f' of {at[2]}' if at and beside else ''}"

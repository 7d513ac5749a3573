"""What answers to an exercise are judged by: its cases, what is right for each, and what known bugs make of them.

It comes from the module of the exercise, or, in a copy that is handed out, from the data that ``as_data`` wrote.
"""

import copy
import functools
import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from course_lib.exercises import data, running
from course_lib.exercises.exercise import Case, Exercise, Outcome, defined

DATA = Path(__file__).with_name("cases")


class Material(NamedTuple):
    """What answers are judged by. bugs: diagnoses of known ones; wrong(bugs, i): what becomes of case i with each of these."""

    cases: Sequence[Case]
    expected: Sequence[Any]
    bugs: Sequence[str] = ()
    wrong: Callable[[Sequence[str], Sequence[int]], list[list[Outcome]]] = lambda bugs, places: []


@functools.cache
def material(exercise: Exercise, seed: int = 0) -> Material:
    """The cases of an exercise, drawn with a seed, and what is right for each; of the first seed also what known bugs make of them."""
    if not hasattr(exercise.module, "cases"):  # a handed-out copy
        return read((DATA / f"{exercise.name}.json").read_text(encoding="utf-8"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cases = list(exercise.module.cases(random.Random(seed)))
        right = [data.copied(exercise.module.expected(*copy.deepcopy(case.args))) for case in cases]
    found: dict[tuple[str, int], Outcome] = {}
    bugs = () if seed else list(exercise.module.WRONG)
    return Material(cases, right, bugs, lambda asked, places: _tried(exercise, cases, asked, places, found))


@functools.cache
def wrong(exercise: Exercise, diagnosis: str) -> Callable[..., Any]:
    """An answer with a known bug: the solution with (old, new) pieces of its text exchanged, or a function of its own."""
    edits = exercise.module.WRONG[diagnosis]
    if callable(edits):
        return edits
    source = exercise.module.SOLUTION
    for old, new in zip(edits[::2], edits[1::2]):
        if old not in source:
            raise ValueError(f"{exercise.name}: {old!r} is not in the solution")
        source = source.replace(old, new)
    return defined(source, exercise.name)


def _tried(
    exercise: Exercise,
    cases: Sequence[Case],
    bugs: Sequence[str],
    places: Sequence[int],
    known: dict[tuple[str, int], Outcome],
) -> list[list[Outcome]]:
    """What becomes of cases with known bugs; those that are not known yet run in one fork."""
    missing = [(words, i) for words in bugs for i in places if (words, i) not in known]
    each = [running.tried(exercise, wrong(exercise, words), [cases[i]]) for words, i in missing]
    messages, ended = running.in_fork(lambda: itertools.chain.from_iterable(each), len(bugs) * running.SECONDS)
    for (words, i), outcome in zip(missing, running.complete(messages, ended, len(missing))):
        result = outcome.result if outcome.failure else exercise.examine(cases[i], outcome.result)
        known[words, i] = outcome._replace(result=result)
    return [[known[words, i] for i in places] for words in bugs]


def as_data(exercise: Exercise) -> str:
    """The text of the file in ``cases/`` from which a handed-out copy reads its material."""
    known = material(exercise)
    found = dict(zip(known.bugs, known.wrong(known.bugs, range(len(known.cases)))))
    return json.dumps(data.encode([list(known.cases), list(known.expected), found]))


def read(text: str) -> Material:
    """Back from the text of such a file."""
    cases, expected, found = data.decode(json.loads(text))
    bugs = {words: [Outcome(*x) for x in outcomes] for words, outcomes in found.items()}
    return Material(
        [Case(*case) for case in cases],
        expected,
        list(bugs),
        lambda asked, places: [[bugs[words][i] for i in places] for words in asked],
    )

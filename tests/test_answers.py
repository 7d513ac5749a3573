"""Answers as students give them: each right one is accepted, each wrong one refused, and not under a false name.

``answers/NAME.py`` has functions ``right_…`` and ``wrong_…``, written from the exercise's page alone. The docstring of a wrong one
is part of the diagnosis it has to get; where there is none, any or no diagnosis will do.
"""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest

from course_lib import runtime
from course_lib.exercises import exercises, values
from course_lib.exercises.checker import checking
from course_lib.exercises.checker.checking import check_exercise
from course_lib.exercises.checker.material import material
from course_lib.exercises.processes.forked_process import Outcome
from course_lib.exercises.sandbox import answering

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")
FILES = sorted(path.stem for path in (Path(__file__).parent / "answers").glob("*.py"))


def answers(kind: str) -> list:
    """Triples of an exercise, a function and the source of its page, on which it has the exercise's name."""
    found = []
    for name in FILES:
        module = importlib.import_module(f"answers.{name}")
        page = inspect.getsource(module)
        for key, function in vars(module).items():
            if key.startswith(kind):
                given = (exercises()[name], function, [page, f"{name} = {key}"])
                found.append(pytest.param(*given, id=f"{name}-{key.removeprefix(kind)}"))
    return found


@functools.cache
def checked(name: str, function, *page: str) -> checking.Report:
    """What a check says; of an answer whose calls are judged apart, too, it is asked once."""
    return check_exercise(exercises()[name], function, keep=False, page=page)


@pytest.mark.parametrize(("exercise", "function", "page"), answers("right_"))
def test_a_right_answer_is_accepted_whatever_its_style(exercise, function, page) -> None:
    report = checked(exercise.name, function, *page)
    assert report.status == "passed", report


@pytest.mark.parametrize(("exercise", "function", "page"), answers("wrong_"))
def test_a_wrong_answer_is_refused(exercise, function, page) -> None:
    report = checked(exercise.name, function, *page)
    assert report.status == "failed"
    assert (getattr(function, "fn", function).__doc__ or "") in report.diagnosis, report


def judged_apart() -> list:
    """Those whose calls have processes of their own; of an exercise's wrong ones the first, and weekly the others.

    The library's own answers are left out: the one that a sandbox shows has no bodies for them.
    """
    right, wrong = ([x for x in answers(kind) if x.values[0].apart] for kind in ("right_", "wrong_"))
    first = {x.values[0].name: x for x in reversed(wrong)}.values()
    others = [pytest.param(*x.values, id=x.id, marks=pytest.mark.weekly) for x in wrong if x not in first]
    return [x for x in (*right, *first, *others) if "by_the_library" not in x.id]


@pytest.mark.parametrize(("exercise", "function", "page"), judged_apart())
def test_calls_that_know_nothing_of_each_other_are_judged_as_in_a_check(exercise, function, page) -> None:
    known = material(exercise)
    cases = values.encode([("", case.args, dict(case.options)) for case in known.cases])
    ready, told, *found = answering.answers({"exercise": exercise.name, "page": page, "cases": cases})
    assert (ready, told[0]) == ("ready", "defined")
    report = checking.judged(exercise, known, [Outcome.of(x) for x in found], str)
    here = checked(exercise.name, function, *page)
    assert (report.status, report.failed, report.diagnosis) == (here.status, here.failed, here.diagnosis), (
        report,
        here,
    )


def test_the_teaching_guide_names_the_exercises_whose_answer_the_librarys_text_is() -> None:
    """They cannot be called; ``right_out_of_the_library`` is that text with the exercise's names."""
    guide = (Path(__file__).parents[1] / "docs" / "teaching.md").read_text(encoding="utf-8")
    named = re.search(r"its text is handed out \(([^)]*)\)", guide)
    assert named
    found = [x.values[0] for x in answers("right_out_of_the_library")]
    assert re.findall(r"\w+", named[1]) == sorted(exercise.name for exercise in found)
    assert all(exercise.answers for exercise in found)

"""Exercises, what they are checked by, and the grader. In a notebook, ``check(my_function)``, ``hint``, ``solution``, ``progress()``.

Beside the rooms lie what pages import, that is these four, ``batched``, ``own_kernel``, ``deliverables`` and ``deliverable_checks``, and
what the rooms share: what an exercise is (``base``), all of them (``catalogue``), plain data (``values``), the functions that two
deliverables hand in (``handed_in``). Imports run downwards, as pyproject.toml names the floors. Each exercise is a module of
``tasks``, one of ``oracles`` and one of ``solutions``; a student's copy has neither of the latter two. ``harness`` is what tasks put an
answer into. A student's ``page`` is read, and its functions run by ``processes``, in grading in the ``sandbox``; the ``checker`` judges
an answer, the ``grader`` a folder of notebooks; ``handout`` writes the exercises' cells and the students' copy. To write an exercise:
CONTRIBUTING.md.
"""

from collections.abc import Callable
from typing import Any

from IPython.display import Markdown

from course_lib import runtime
from course_lib.exercises.base import Exercise, check_name
from course_lib.exercises.catalogue import exercises
from course_lib.exercises.checker import checking, fresh_process, progress_file
from course_lib.exercises.checker.checking import Report, check_exercise
from course_lib.exercises.page import functions
from course_lib.show.tables import Table

Named = str | Callable[..., Any]
BROKEN = "this says nothing about your function; restart the kernel, and run the imports and this cell again"
CHECK_SECONDS = 60.0  # seconds for a check in a process of its own, the start of the first included


def _find(which: Named) -> Exercise:
    name = which if type(which) is str else functions.name_of(which)
    if not name:
        raise ValueError(
            f"exercise is a {type(which).__name__}; pass the function itself, without calling it, or its name"
        )
    return exercises()[check_name(name, list(exercises()))]


def check(function: Callable[..., Any]) -> Report:
    """Run the checks of the exercise that the function is named after; the report is shown as the cell's output.

    It runs in another process, kernels in Triton's interpreter: nothing that the function does harms the notebook.
    Raises ValueError for a function that is no exercise. An untouched stub is reported as not attempted.
    """
    exercise = _find(function)
    if type(function) is str:
        raise ValueError(f"function is {function!r}; pass the function itself: check({exercise.name})")
    try:
        return _checked(exercise, function)
    except (
        Exception
    ) as error:  # no memory, no room for a process, or a page that has replaced what the library works with
        return Report(exercise.name, "failed", (), f"the check broke off: {type(error).__name__}: {error}", (BROKEN,))


def _checked(exercise: Exercise, function: Callable[..., Any]) -> Report:
    if runtime.mode() != "GPU":
        return check_exercise(exercise, function)
    # A process forked off this one has no GPU and no interpreter either: the page's code is read again in a new one.
    page, own = functions.page_of(function), functions.source_of(function)
    messages, ended = fresh_process.sent(checking.reports, page, [exercise.name], own, seconds=CHECK_SECONDS)
    report = Report.of(messages[0]) if messages else Report(exercise.name, "failed", (), ended)
    if report.status in ("passed", "failed"):
        checking.keep_result(report, page, own)
    return report


def hint(which: Named, number: int | None = None) -> Markdown:
    """The three hints of an exercise, each a fold to be opened; ``number`` 1 to 3 for one of them."""
    exercise = _find(which)
    chosen = range(1, 4) if number is None else (number,)
    if not all(type(n) is int and n in (1, 2, 3) for n in chosen):
        raise ValueError(f"number is {number!r}; pass 1, 2 or 3")
    folds = [f"<details><summary>Hint {n}</summary>\n\n{exercise.hints[n - 1]}\n\n</details>" for n in chosen]
    return Markdown("\n\n".join(folds))


def solution(which: Named) -> Markdown:
    """A solution and why it is one, in a fold; a copy without solutions says so."""
    exercise = _find(which)
    try:
        code, words = exercise.solution
    except ModuleNotFoundError:
        return Markdown("This copy of the course has no solutions; ask your instructor.")
    return Markdown(
        f"<details><summary>Solution of {exercise.name}</summary>\n\n```python\n{code.strip()}\n```\n\n{words.strip()}\n\n</details>"
    )


def progress() -> Table:
    """What is passed, lecture by lecture."""
    known = progress_file.load()
    rows = [
        [e.lecture, e.title, "★" * e.level, e.minutes, known.get(e.name, "not attempted")] for e in exercises().values()
    ]
    done = sum(row[-1] == "passed" for row in rows)
    return Table(["lecture", "exercise", "level", "minutes", f"{done} of {len(rows)} passed"], rows)

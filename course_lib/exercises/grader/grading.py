"""An instructor's overview: the exercises in a folder of students' notebooks, each in a sandbox of its own.

python -m course_lib.exercises grade FOLDER      # two tables, and FOLDER/grades.csv and FOLDER/totals.csv

Students' code is given the arguments of cases, and returns results (``sandbox``). What is right is known and judged here (``marking``).
"""

import contextlib
import os
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from course_lib.exercises import handed_in
from course_lib.exercises.base import Exercise
from course_lib.exercises.catalogue import graded
from course_lib.exercises.checker.checking import Report
from course_lib.exercises.grader import unseen
from course_lib.exercises.grader.collected import Work, collected, read
from course_lib.exercises.grader.grade_tables import Grade
from course_lib.exercises.grader.marking import Clock, Marker
from course_lib.exercises.sandbox.client import Sandbox
from course_lib.exercises.sandbox.enclosure import SandboxError
from course_lib.exercises.sandbox.talk import INTERRUPTED, LOST, WorkError
from course_lib.instruments.measure import progress

SECONDS = 60.0  # for a notebook
TIMES = 20  # as much for all notebooks of a student: there are fewer lectures
LONGEST = 300  # characters of a reason


class Graded(NamedTuple):
    """All grades, in order; how: what a reader has to know of the way in which they came about; whole: whether it went to the end."""

    grades: list[Grade]
    how: str = ""
    whole: bool = True


def grade(folder: Path, seconds: float = SECONDS, way: str | None = None) -> Graded:
    """Grades of all notebooks in a folder and below it; each of the notebook's lecture's exercises gets one.

    The lecture is read off the exercises that a notebook checks, or off the first two digits of its name. What cannot be read, or takes
    more than ``seconds``, has 'not graded' for what is missing; so has what is left when Ctrl+C ends this early. Only the exercises'
    functions, and what these use, are run, ``way`` as in ``Sandbox``. To be called by the main thread. Raises ValueError for what is no
    folder, or holds no notebook, SandboxError where students' code cannot be run in safety.
    """
    works = collected(folder)
    todo: list[Future[list[Grade]]] = [Future() for _ in works]
    how, whole = "", False
    with contextlib.suppress(KeyboardInterrupt), Sandbox([folder], way) as box:
        how = "\n".join(filter(None, (box.weaker, unseen.weaker())))
        whole = _all(box, works, todo, _Notebooks(folder, Marker(box, secrets.token_hex(16)), seconds, {}))
    return Graded([g for work, done in zip(works, todo) for g in _grades(work, done)], how, whole)


def _all(box: Sandbox, works: Sequence[Work], todo: list[Future[list[Grade]]], notebooks: "_Notebooks") -> bool:
    """Grade all, and once more, alone, those whose sandbox was gone, perhaps by another's doing; whether that went to the end."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        todo[:] = [pool.submit(notebooks.grades, work) for work in works]
        for done in progress(todo, "notebooks"):
            done.result()
        for i, work in enumerate(works):
            if any((g.status, g.words) == ("not graded", LOST) for g in todo[i].result()):
                if not box.alive:
                    box.again()
                todo[i] = Future()
                todo[i].set_result(notebooks.grades(work))
    except (KeyboardInterrupt, SandboxError):
        return False
    finally:
        box.stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return True


def _grades(work: Work, done: Future[list[Grade]]) -> list[Grade]:
    finished = done.done() and not done.cancelled()
    return done.result() if finished else [_not_graded(work, INTERRUPTED)]


def _not_graded(work: Work, words: str, exercise: str = "") -> Grade:
    return Grade(work.student, work.name, exercise, "not graded", words[:LONGEST])


class _Notebooks(NamedTuple):
    """spent: seconds, by student."""

    folder: Path
    marker: Marker
    seconds: float
    spent: dict[str, float]

    def grades(self, work: Work) -> list[Grade]:
        """Those of one notebook; never raises."""
        if self.spent.get(work.student, 0.0) > TIMES * self.seconds:
            return [
                _not_graded(work, f"this student's notebooks have taken more than {TIMES * self.seconds:g} seconds")
            ]
        begin = time.monotonic()
        try:
            work = read(self.folder, work)
            wanted = _wanted(work.cells or [], work.name.rpartition("/")[2][:2])
            if work.cells is None or not wanted:
                return [_not_graded(work, work.words or "no exercise of the course is in it")]
            clock = Clock(self.seconds)
            return [self._grade(work, exercise, work.cells, clock) for exercise in wanted]
        except Exception as error:
            return [_not_graded(work, f"the grader broke off: {type(error).__name__}: {error}")]
        finally:
            self.spent[work.student] = self.spent.get(work.student, 0.0) + time.monotonic() - begin

    def _grade(self, work: Work, exercise: Exercise, cells: Sequence[str], clock: Clock) -> Grade:
        try:
            report = self.marker.report(exercise, cells, clock)
        except (WorkError, SandboxError) as error:
            return _not_graded(work, LOST if isinstance(error, SandboxError) else str(error), exercise.name)
        return Grade(work.student, work.name, exercise.name, report.status, _reason(report)[:LONGEST])


def _wanted(sources: Sequence[str], digits: str) -> list[Exercise]:
    """The exercises of the lecture that a notebook's cells belong to, or its deliverables' functions."""
    known = graded().values()
    lectures = {e.lecture for e in known for source in sources if f"check({e.name})" in source} or {digits}
    lectures |= {handed_in.LECTURE} if any("deliver(" in source for source in sources) else set()
    return [e for e in known if e.lecture in lectures]


def _reason(report: Report) -> str:
    known = report.diagnosis and f"what you get {report.diagnosis}"
    return known or ": ".join(x for x in (report.failed, *report.details[-2:]) if x)

"""An instructor's overview: the exercises in a folder of students' notebooks, each notebook in a process of its own.

python -m course_lib.exercises grade FOLDER      # a table, and FOLDER/grades.csv
"""

import csv
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from course_lib.exercises import fresh_process
from course_lib.exercises.base import Exercise
from course_lib.exercises.catalogue import exercises
from course_lib.exercises.checking import Report, reports
from course_lib.instruments.measure import progress
from course_lib.show.tables import Table

SECONDS = 60.0  # for a notebook
LONGEST = 300  # characters of a reason


class Grade(NamedTuple):
    """One exercise in one notebook. status: 'passed', 'failed', 'not attempted', 'missing' or 'not graded'; words: why."""

    notebook: str
    exercise: str
    status: str
    words: str = ""


def grade(folder: Path, seconds: float = SECONDS) -> list[Grade]:
    """Grades of all notebooks in a folder and below it, in order; each of the notebook's lecture's exercises gets one.

    The lecture is read off the exercises that a notebook checks, or off the first two digits of its name. A notebook that is none,
    crashes, or takes more than ``seconds`` has 'not graded' for what is missing. Only the exercises' functions, and what these use,
    are run. Raises ValueError for what is no folder, or holds no notebook.
    """
    if not folder.is_dir():
        raise ValueError(f"folder is {str(folder)!r}; pass a folder of notebooks")
    files = sorted(p for p in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    if not files:
        raise ValueError(f"folder is {str(folder)!r}, which holds no notebook (*.ipynb)")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        todo = [pool.submit(_graded, path, str(path.relative_to(folder)), seconds) for path in files]
        return [grade for done in progress(todo, "notebooks") for grade in done.result()]


def _graded(path: Path, name: str, seconds: float) -> list[Grade]:
    try:
        sources = _code(path)
    except ValueError as error:
        return [Grade(name, "", "not graded", str(error))]
    wanted = _wanted(sources, path.name[:2])
    if not wanted:
        return [Grade(name, "", "not graded", "no exercise of the course is in it")]
    messages, ended = fresh_process.sent(reports, sources, [e.name for e in wanted], seconds=seconds)
    try:
        short = [_short(Report.of(message)) for message in messages]
    except ValueError as error:
        short, ended = [], str(error)
    found = {exercise: Grade(name, exercise, status, words[:LONGEST]) for exercise, status, words in short}
    return [found.get(e.name, Grade(name, e.name, "not graded", ended)) for e in wanted]


def _code(path: Path) -> list[str]:
    try:
        notebook: Any = nbformat.read(path, as_version=4)
        return [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    except Exception as error:
        raise ValueError(f"not a notebook: {type(error).__name__}") from None


def _wanted(sources: Sequence[str], digits: str) -> list[Exercise]:
    """The exercises of the lecture that a notebook's cells belong to."""
    known = exercises().values()
    lectures = {e.lecture for e in known for source in sources if f"check({e.name})" in source} or {digits}
    return [e for e in known if e.lecture in lectures]


def _short(report: Report) -> tuple[str, str, str]:
    known = report.diagnosis and f"what you get {report.diagnosis}"
    return report.exercise, report.status, known or ": ".join(x for x in (report.failed, *report.details[-2:]) if x)


def overview(grades: list[Grade]) -> Table:
    """A row for each notebook: how many exercises passed, failed, were not attempted; and what could not be graded."""
    rows = []
    for name in dict.fromkeys(g.notebook for g in grades):
        mine = [g for g in grades if g.notebook == name]
        counts = [sum(g.status == status for g in mine) for status in ("passed", "failed", "not attempted")]
        rest = [f"{g.exercise} {g.status}: {g.words}".strip() for g in mine if g.status in ("not graded", "missing")]
        rows.append([name, *counts, "; ".join(rest)])
    return Table(["notebook", "passed", "failed", "not attempted", "could not be graded"], rows)


def write_csv(grades: list[Grade], path: Path) -> None:
    """One line for each exercise of each notebook."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Grade._fields)
        writer.writerows(grades)

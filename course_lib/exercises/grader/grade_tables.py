"""Grades as tables and files that nobody's file name, message or formula can change the look of."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.files import write_atomically
from course_lib.show.tables import Table

STATUS = ("passed", "failed", "not attempted", "missing", "not graded")
FORMULA = "=+-@＝＋－＠"  # what a spreadsheet computes begins so


class Grade(NamedTuple):
    """One exercise in one notebook; 'exercise' is '' where a notebook could not be read. status: one of STATUS; words: why."""

    student: str
    notebook: str
    exercise: str
    status: str
    words: str = ""


def on_a_line(text: str) -> str:
    """Text without anything that a terminal or a table would not print as it is: the rest is written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def cell(value: Any) -> Any:
    """As it is written to a CSV: numbers as they are, text on a line, and none that a spreadsheet takes for a formula.

    Many spreadsheets take a semicolon for the end of a cell.
    """
    if isinstance(value, int):
        return value
    text = re.sub(rf";(?=[\s\"']*[{re.escape(FORMULA)}])", ",", on_a_line(str(value)))
    return f"'{text}" if text.startswith(tuple(FORMULA)) else text


def overview(grades: Sequence[Grade]) -> Table:
    """A row for each notebook: how many exercises passed, failed, were not attempted; and what could not be graded."""
    rows = []
    by_notebook: dict[str, list[Grade]] = {}
    for g in grades:
        by_notebook.setdefault(g.notebook, []).append(g)
    for name, mine in by_notebook.items():
        counts = [sum(g.status == status for g in mine) for status in STATUS[:3]]
        rest = [f"{g.exercise} {g.status}: {g.words}".strip() for g in mine if g.status in STATUS[3:]]
        rows.append([on_a_line(name), *counts, on_a_line("; ".join(rest))])
    return Table(["notebook", *STATUS[:3], "could not be graded"], rows)


def totals(grades: Sequence[Grade]) -> Table:
    """A row for each student: how many exercises there are of each status. Of an exercise in two notebooks the better one counts.

    A notebook that could not be read counts as one under 'not graded'.
    """
    best: dict[str, dict[str, int]] = {}
    for g in grades:
        mine = best.setdefault(g.student, {})
        key = g.exercise or f"/{g.notebook}"
        mine[key] = min(mine.get(key, len(STATUS)), STATUS.index(g.status))
    rows = [
        [on_a_line(name), *(list(mine.values()).count(i) for i in range(len(STATUS)))] for name, mine in best.items()
    ]
    return Table(["student", *STATUS], rows)


def write(folder: Path, grades: Sequence[Grade]) -> list[Path]:
    """Write grades.csv, a line for each exercise of each notebook, and totals.csv, a line for each student; returns the paths.

    New ones are their owner's alone. Where something other than a file has the name, grades-2.csv is next. Raises OSError where the
    folder cannot be written.
    """
    summed = totals(grades)
    tables = (("grades", [Grade._fields, *grades]), ("totals", [summed.headers, *summed.rows]))
    return [_write(folder, name, rows) for name, rows in tables]


def _write(folder: Path, name: str, rows: Sequence[Sequence[Any]]) -> Path:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([[cell(value) for value in row] for row in rows])
    names = (f"{name}{'' if n == 1 else f'-{n}'}.csv" for n in range(1, 1000))
    path = next(p for p in (folder / n for n in names) if not p.is_symlink() and (p.is_file() or not p.exists()))
    write_atomically(path, text.getvalue(), mode=None if path.exists() else 0o600)
    return path

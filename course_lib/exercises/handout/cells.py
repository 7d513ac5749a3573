"""The exercises' cells in the lectures: written from the exercises, so that text, stub and check agree.

python -m course_lib.exercises write             # puts them into all lectures, before the recap
"""

import re
from pathlib import Path
from typing import Any

import nbformat

from course_lib.exercises import deliverables
from course_lib.exercises.base import Exercise
from course_lib.exercises.catalogue import exercises
from course_lib.files import write_atomically
from course_lib.publish import notebooks

INTRODUCTION = """## Exercises

Replace the three dots and run the cell: `check` tries your function on small cases, shows the first that fails in numbers, and names
the bug if it knows it. `hint(name)` has three steps, `solution(name)` folds out if your copy has solutions, and `progress()` shows
what you have passed.

★ takes a few minutes from the page, ★★ a new step, ★★★ half an hour and an idea; later lectures build on what is *core*."""
AGAIN = """## Exercises

Replace the three dots and run the cell. `check` tries your function; `hint(name)`, `solution(name)` and `progress()` help.

★ takes a few minutes from the page, ★★ a new step, ★★★ half an hour and an idea; later lectures build on what is *core*."""


def lecture_exercises(lecture: str) -> list[Exercise]:
    """The exercises of a lecture, '01' to '11', in their order."""
    return [e for e in exercises().values() if e.lecture == lecture]


def cells(lecture: str, page: str = "") -> list[Any]:
    """The cells of a lecture's exercises, or deliverables; none if it has none.

    ``page``: the lecture's own code, whose imports are not repeated.
    """
    if lecture == deliverables.LECTURE:
        return [_cell(*cell) for cell in deliverables.cells()]
    mine = lecture_exercises(lecture)
    if not mine:
        return []
    stubs = "\n".join(e.stub for e in mine)
    blocks = []
    for module in ("math", "torch"):
        if not re.search(rf"^import {module}$", page, re.MULTILINE):
            blocks.append(f"import {module}" + ("" if f"{module}." in stubs else "  # noqa: F401"))
    own = ["from course_lib.exercises import check, hint, progress, solution  # noqa: F401"]
    if "tl.constexpr" in stubs and not re.search(r"^from course_lib.kernels import .*\btriton\b", page, re.MULTILINE):
        own.append("from course_lib.kernels import tl, triton")
    imports = "\n\n".join([*blocks, "\n".join(own)])
    words = INTRODUCTION if lecture == "01" else AGAIN
    found = [_cell("markdown", "exercises", words), _cell("code", "exercise-imports", imports)]
    for e in mine:
        found.append(_cell("markdown", f"exercise-{e.name}".replace("_", "-"), e.heading))
        found.append(_cell("code", f"exercise-{e.name}-code".replace("_", "-"), e.cell))
    return found


def _cell(kind: str, name: str, source: str) -> Any:
    make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
    return make(source, id=name[:64], metadata={"tags": ["exercise"]})


def is_exercise(cell: Any) -> bool:
    return "exercise" in cell.metadata.get("tags", [])


def own_code(notebook: Any) -> str:
    """The code of a lecture without its exercises."""
    return "\n".join(c.source for c in notebook.cells if c.cell_type == "code" and not is_exercise(c))


def write(path: Path) -> bool:
    """Put a lecture's exercises before its last cell, in place of those that are there; whether that changed the file."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    kept = {cell.id: cell for cell in notebook.cells if is_exercise(cell)}
    rest = [cell for cell in notebook.cells if not is_exercise(cell)]
    fresh = cells(path.name[:2], own_code(notebook))
    for cell in fresh:
        old = kept.get(cell.id)
        if old is not None and old.source == cell.source and cell.cell_type == "code":
            cell.outputs, cell.execution_count, cell.metadata = old.outputs, old.execution_count, old.metadata
    notebook.cells = [*rest[:-1], *fresh, rest[-1]]
    after = nbformat.writes(notebook) + "\n"
    if after != before:
        write_atomically(path, after)
    return after != before


def write_all() -> list[Path]:
    """``write`` for each lecture; those that changed."""
    return [path for path in notebooks.lectures() if write(path)]

"""The course as it is handed to students: without outputs, slides, answers, oracles, solutions, tests, the book and the teaching guide."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from course_lib.exercises.catalogue import graded
from course_lib.exercises.checker.material import as_file
from course_lib.exercises.handout import cells
from course_lib.exercises.sandbox.library import CLOSED
from course_lib.files import ROOT
from course_lib.publish import working_copy

LEFT_OUT = (
    "tests/",
    ".ci/",
    ".github/",
    "docs/teaching.md",
    "docs/book/",
    "notebooks/slides/",
)
CASES = "course_lib/exercises/cases/"  # what the oracles know stays as data
_FOR_TEACHERS = re.compile(r"<!-- for teachers.*?<!-- /for teachers -->\n", re.DOTALL)  # in the README


def write_bundle(folder: Path) -> int:
    """Copy the course's files into an empty or new folder; returns how many.

    Raises ValueError for a folder that holds something, RuntimeError outside of a git checkout.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"folder is {str(folder)!r}, which is not empty; pass a new one")
    names = [name for name in _git("ls-files") if _handed_out(name)]
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".ipynb"):
            target.write_text(working_copy.student_page(ROOT / name), encoding="utf-8")
            cells.write(target)  # an instructor may have solved an exercise on the original
        else:
            shutil.copyfile(ROOT / name, target)  # without its rights: a checkout may be closed to students
            if os.access(ROOT / name, os.X_OK):
                target.chmod(target.stat().st_mode | 0o111)
    readme = folder / "README.md"
    readme.write_text(_FOR_TEACHERS.sub("", readme.read_text(encoding="utf-8")), encoding="utf-8")
    return len(names) + _write_material(folder / CASES)


def uncommitted() -> list[str]:
    """Files that are handed out as they lie here, which is not as they were committed: with a cell of the instructor's own, say."""
    return [name for name in _git("diff", "--name-only", "--relative", "HEAD") if _handed_out(name)]


def _handed_out(name: str) -> bool:
    return name in [f"{place}__init__.py" for place in CLOSED] or not name.startswith((*LEFT_OUT, *CLOSED))


def _git(*words: str) -> list[str]:
    """The names of files that a command of git lists."""
    done = subprocess.run(["git", *words, "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"git cannot list the course's files: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name]


def _write_material(folder: Path) -> int:
    folder.mkdir()
    for name, exercise in graded().items():
        (folder / f"{name}.json").write_text(as_file(exercise), encoding="utf-8")
    return len(graded())

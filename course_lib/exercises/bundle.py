"""The course as it is handed to students: without outputs, slides, answers, oracles, solutions, tests, the book and the teaching guide."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

from course_lib.exercises.catalogue import exercises
from course_lib.exercises.material import as_file
from course_lib.exercises.progress_file import ROOT
from course_lib.publish import working_copy

LEFT_OUT = (
    "tests/",
    ".ci/",
    ".github/",
    "docs/teaching.md",
    "docs/book/",
    "notebooks/slides/",
    "course_lib/exercises/solutions/",
)
KEPT = "course_lib/exercises/solutions/__init__.py"
ORACLES, CASES = "course_lib/exercises/oracles/", "course_lib/exercises/cases/"  # what the oracles know stays as data
NOT_OF_IT = ("node_modules", "cases", "__pycache__")  # bytecode keeps what is taken out of a module
_FOR_TEACHERS = re.compile(r"<!-- for teachers.*?<!-- /for teachers -->\n", re.DOTALL)  # in the README


def write_bundle(folder: Path) -> int:
    """Copy the course's files into an empty or new folder; returns how many.

    Raises ValueError for a folder that holds something, RuntimeError outside of a git checkout.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"folder is {str(folder)!r}, which is not empty; pass a new one")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise RuntimeError(f"git cannot list the course's files: {listed.stderr.strip()}")
    names = [n for n in listed.stdout.split("\0") if n and (n == KEPT or not n.startswith(LEFT_OUT))]
    names = [n for n in names if n == f"{ORACLES}__init__.py" or not n.startswith(ORACLES)]
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".ipynb"):
            target.write_text(working_copy.student_page(ROOT / name), encoding="utf-8")
        else:
            shutil.copy2(ROOT / name, target)
    readme = folder / "README.md"
    readme.write_text(_FOR_TEACHERS.sub("", readme.read_text(encoding="utf-8")), encoding="utf-8")
    return len(names) + _write_material(folder / CASES)


def write_library(folder: Path) -> None:
    """Copy the library alone into a new folder as students have it, without what exercises are checked by, and without a git checkout.

    Its functions that would be the answer to an exercise are left without their body: there is nothing to call and nothing to read.
    """

    def left_out(place: str, names: list[str]) -> set[str]:
        inside = Path(place).relative_to(ROOT).as_posix() + "/"
        closed = inside in (ORACLES, "course_lib/exercises/solutions/")
        return {name for name in names if name in NOT_OF_IT or (closed and name != "__init__.py")}

    shutil.copytree(ROOT / "course_lib", folder / "course_lib", ignore=left_out)
    shutil.copytree(ROOT / "data", folder / "data")
    for name in sorted({name for exercise in exercises().values() for name in exercise.answers}):
        module, _, function = name.rpartition(".")
        _take_out(folder / f"{module.replace('.', '/')}.py", function, f"{name} was called; write it yourself")


def _take_out(path: Path, function: str, words: str) -> None:
    """Leave a function of a module without its body: it raises RuntimeError with the words."""
    text = path.read_text(encoding="utf-8")
    found = next(x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and x.name == function)
    lines = text.splitlines(keepends=True)
    lines[found.body[0].lineno - 1 : found.end_lineno] = [f"    raise RuntimeError({words!r})\n"]
    path.write_text("".join(lines), encoding="utf-8")


def _write_material(folder: Path) -> int:
    folder.mkdir()
    for name, exercise in exercises().items():
        (folder / f"{name}.json").write_text(as_file(exercise), encoding="utf-8")
    return len(exercises())

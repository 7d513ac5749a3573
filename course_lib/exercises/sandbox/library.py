"""The library as students' code finds it in the sandbox: without oracles and solutions, and without what would be an answer."""

import ast
import shutil
from pathlib import Path

from course_lib.exercises.catalogue import exercises
from course_lib.files import ROOT

CLOSED = ("course_lib/exercises/oracles/", "course_lib/exercises/solutions/")
NOT_OF_IT = ("node_modules", "cases", "__pycache__")  # bytecode keeps what is taken out of a module


def write_library(folder: Path) -> None:
    """Copy the library alone into a new folder as students have it, without what exercises are checked by, and without a git checkout.

    Its functions that would be the answer to an exercise are left without their body: there is nothing to call and nothing to read.
    """

    def left_out(place: str, names: list[str]) -> set[str]:
        inside = Path(place).relative_to(ROOT).as_posix() + "/"
        closed = inside in CLOSED
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

"""The course as it is handed to students: without outputs, oracles, solutions and tests."""

import shutil
import subprocess
from pathlib import Path

import nbformat

from course_lib.exercises.catalogue import exercises
from course_lib.exercises.material import as_file
from course_lib.exercises.progress_file import ROOT

LEFT_OUT = ("tests/", ".ci/", ".github/", "course_lib/exercises/solutions/")
KEPT = "course_lib/exercises/solutions/__init__.py"
ORACLES, CASES = "course_lib/exercises/oracles/", "course_lib/exercises/cases/"  # what the oracles know stays as data


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
            _without_outputs(ROOT / name, target)
        else:
            shutil.copy2(ROOT / name, target)
    return len(names) + _write_material(folder / CASES)


def _write_material(folder: Path) -> int:
    folder.mkdir()
    for name, exercise in exercises().items():
        (folder / f"{name}.json").write_text(as_file(exercise), encoding="utf-8")
    return len(exercises())


def _without_outputs(source: Path, target: Path) -> None:
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.metadata.pop("course", None)
    target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")

"""The course as it is handed to students: without outputs, solutions and tests."""

import shutil
import subprocess
from pathlib import Path

import nbformat

from course_lib.exercises.progress_file import ROOT

LEFT_OUT = ("tests/", ".ci/", ".github/", "course_lib/exercises/solutions/")
KEPT = "course_lib/exercises/solutions/__init__.py"


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
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".ipynb"):
            _without_outputs(ROOT / name, target)
        else:
            shutil.copy2(ROOT / name, target)
    return len(names)


def _without_outputs(source: Path, target: Path) -> None:
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.metadata.pop("course", None)
    target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")

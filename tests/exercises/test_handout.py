"""The students' copy and the wheel: they check the same, and hold no answers."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from course_lib.exercises import handout
from course_lib.exercises.exercise import CUT, exercises
from course_lib.files import ROOT


def lines(source: str) -> set[str]:
    return {line.strip() for line in source.splitlines() if len(line.strip()) > 25}


def test_the_copy_holds_no_answer_and_no_output(copy) -> None:
    tasks = sorted((copy / handout.TASKS).glob("[!_]*.py"))
    assert tasks
    for path in tasks:
        exercise = exercises()[path.stem]
        answer = lines(exercise.module.SOLUTION) - lines(exercise.given)
        assert not {line for line in answer if "def " not in line} & lines(path.read_text(encoding="utf-8")), path
    for path in tasks:
        assert not {CUT, "SOLUTION", "WRONG"} & set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    for path in (copy / "notebooks").glob("*.ipynb"):
        assert not [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell.get("outputs")]
    assert not (copy / "tests").exists()
    assert not list(copy.rglob("*.pyc"))
    with pytest.raises(ValueError, match="not empty; pass a new one"):
        handout.write(copy)


def test_a_solved_lecture_is_not_handed_out(tmp_path) -> None:
    page = json.loads((ROOT / "notebooks/10_hopper_machinery.ipynb").read_text(encoding="utf-8"))
    page["cells"].insert(
        -1, {"cell_type": "code", "id": "mine", "metadata": {}, "source": exercises()["phase_of"].module.SOLUTION}
    )
    (tmp_path / "10_hopper_machinery.ipynb").write_text(json.dumps(page), encoding="utf-8")
    with pytest.raises(ValueError, match="holds an answer to phase_of"):
        handout._asked(tmp_path / "10_hopper_machinery.ipynb")


def test_the_copy_checks_the_same(copy, tmp_path) -> None:
    attempts = {
        "crossover": exercises()["crossover"].module.SOLUTION,
        "phase_of": exercises()["phase_of"].module.SOLUTION.replace("phase ^ 1", "phase"),
        "tile_traffic": "def tile_traffic(memory, A, B, C, bm, bn):\n    return None\n",
    }
    said = []
    for folder in (copy, ROOT):
        for name, source in attempts.items():
            text = f"import math\nfrom course_lib.exercises import check\n{source}\nprint(check({name}))\n"
            (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / "z.py").write_text("from course_lib.exercises import solution\nprint(solution('phase_of').data)")
        script = (
            f"import runpy, sys\nsys.path.insert(0, {str(folder)!r})\nfor path in sys.argv[1:]: runpy.run_path(path)"
        )
        command = [sys.executable, "-c", script, *map(str, sorted(tmp_path.glob("*.py")))]
        environment = os.environ | {"COURSE_PROGRESS": str(tmp_path / "progress"), "TRITON_INTERPRET": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        said.append(done.stdout)
    reports, solution = said[0].rstrip().rsplit("\n", 1)
    assert "This is what you get" in reports
    assert said[1].startswith(reports)
    assert "no solutions; ask your instructor" in solution


@pytest.mark.parametrize("target", ["test", "book", "present L=05"])
def test_what_needs_a_part_that_is_left_out_says_so(copy, target) -> None:
    installed = ["-o", ".venv/.course-ready", "-o", "course_lib/publish/web/node_modules/.package-lock.json"]
    command = ["make", "--no-print-directory", "CONDA_DEFAULT_ENV=", *installed, *target.split()]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("a student's copy has no "), done


def test_a_wheel_holds_the_library_and_no_exercise(tmp_path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(
        ROOT / "course_lib", tmp_path / "course_lib", ignore=shutil.ignore_patterns("node_modules", "__pycache__")
    )
    command = [sys.executable, "-m", "pip", "wheel", "-q", ".", "--no-deps", "--no-build-isolation", "-w", "made"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    [wheel] = (tmp_path / "made").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "course_lib/attention.py" in names
    assert not [name for name in names if "exercises" in name]

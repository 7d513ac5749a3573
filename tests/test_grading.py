"""A class's notebooks, graded; and the copy for students."""

import contextlib
import csv
import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from course_lib import exercises as course_exercises
from course_lib import runtime
from course_lib.exercises import __main__ as command_line
from course_lib.exercises import exercises, values
from course_lib.exercises.catalogue import graded
from course_lib.exercises.checker import checking, fresh_process, material, progress_file
from course_lib.exercises.grader import grading, unseen
from course_lib.exercises.grader.grade_tables import Grade, totals
from course_lib.exercises.handout import bundle, cells
from course_lib.exercises.page import functions
from course_lib.exercises.page.definitions import definitions
from course_lib.exercises.sandbox import client

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")
HEAD = "def online_update(m, l, x):\n    "
RIGHT = "new = max(m, float(x.max())); return new, l * math.exp(m - new) + float(torch.exp(x - new).sum())"
KINDS = {
    "right": RIGHT,
    "with helpers": "return helper(m, l, x)\n\nSHIFT = math.sqrt(0.0)\n\n\ndef helper(m, l, x):\n    x = x + SHIFT\n    "
    + RIGHT,
    "wrong": "new = max(m, float(x.max())); return new, l + float(torch.exp(x - new).sum())",
    "crashing": "import os; os.abort()",
    "greedy": "return torch.ones(10**12), l",
    "endless": "import time\n    while True: time.sleep(9)",
    "empty": "...",
}
# Gradings one after another: at once they can give work the same account, and then count each other's processes.
alone = pytest.mark.xdist_group("attacks")


@pytest.fixture(scope="module")
def box() -> Iterator[client.Sandbox]:
    with client.Sandbox() as started:
        yield started


@pytest.fixture
def one_server(box, monkeypatch) -> None:
    """For tests in which nothing is asked of the sandbox's start: they share one."""

    @contextlib.contextmanager
    def shared(*_: object) -> Iterator[client.Sandbox]:
        box.stopped.clear()
        yield box

    monkeypatch.setattr(grading, "Sandbox", shared)


EXPECTED = {"right": "passed", "with helpers": "passed", "empty": "not attempted"}


def notebook(answer: str) -> str:
    made = nbformat.v4.new_notebook()
    made.cells = cells.cells("02")
    for cell in made.cells:
        if cell.cell_type == "code" and "def online_update" in cell.source:
            cell.source = HEAD + answer + "\n\n\ncheck(online_update)"
    made.cells.append(nbformat.v4.new_code_cell("raise RuntimeError('the rest of the notebook is not run')"))
    made.cells.append(nbformat.v4.new_code_cell("this is no Python"))
    return nbformat.writes(made)


@alone
@pytest.mark.parametrize("each", [1, pytest.param(4, marks=pytest.mark.weekly)])
def test_of_a_class_of_notebooks_none_is_lost(each, tmp_path) -> None:
    quick = [kind for kind in KINDS if kind != "endless"]
    kinds = [*quick * each, *["endless"] * -(-each // 2), "right", "wrong", "not a notebook", "no exercise"]
    for number, kind in enumerate(kinds, 40):  # as of no lecture
        others = {"not a notebook": "{broken", "no exercise": nbformat.writes(nbformat.v4.new_notebook())}
        text = notebook(KINDS[kind]) if kind in KINDS else others[kind]
        (tmp_path / "class" / f"group {number % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "class" / f"group {number % 3}" / f"{number:02} {kind}.ipynb").write_text(text)
    command = [sys.executable, "-m", "course_lib.exercises", "grade", str(tmp_path / "class")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    with (tmp_path / "class" / "grades.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["notebook"] for row in rows}) == len(kinds)
    for row in rows:
        kind = row["notebook"].split("/")[1][3:].removesuffix(".ipynb")
        if kind in KINDS and row["exercise"] == "online_update":
            assert row["status"] == EXPECTED.get(kind, "failed"), row
        elif kind in KINDS:
            assert row["status"] == "not attempted", row
        else:
            assert row["status"] == "not graded"
    words = {row["notebook"].split("/")[1][3:].removesuffix(".ipynb"): row["words"] for row in rows if row["words"]}
    assert "the old ℓ is not rescaled" in words["wrong"]
    assert "signal 6" in words["crashing"]
    assert "did not end" in words["endless"]
    assert "memory" in words["greedy"] or "allocate" in words["greedy"]
    assert "not a notebook" in words["not a notebook"]
    assert "no exercise" in words["no exercise"]
    assert (
        sum(line.startswith("group ") for line in done.stdout.splitlines()) == len(kinds) + 3
    )  # and the totals of each


@alone
def test_a_notebook_that_takes_too_long_keeps_what_it_has(tmp_path, one_server) -> None:
    (tmp_path / "one.ipynb").write_text(notebook(KINDS["endless"]))
    found = grading.grade(tmp_path, seconds=2.0).grades
    assert [g.exercise for g in found] == [e.name for e in exercises().values() if e.lecture == "02"]
    assert found[0].status == "not attempted" or "took more than 2 seconds" in found[0].words
    assert any("took more than 2 seconds" in g.words for g in found)


@pytest.mark.parametrize("make", [lambda p: p / "nothing", lambda p: p])
def test_no_folder_no_notebooks(tmp_path, make) -> None:
    with pytest.raises(ValueError, match="folder is"):
        grading.grade(make(tmp_path))


def said_in(folder, *command) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder), "COURSE_PROGRESS": os.devnull}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_students_copy_has_no_solutions_and_no_outputs(copy) -> None:
    for kind in ("solutions", "oracles"):
        assert [p.name for p in (copy / "course_lib/exercises" / kind).iterdir()] == ["__init__.py"]
    assert not (copy / "tests").exists()
    given = "".join(
        exercise.stub for exercise in exercises().values()
    )  # a kernel that is to be mended is nearly its solution
    lines = [
        [line.strip() for line in e.solution.source.splitlines() if line not in given] for e in exercises().values()
    ]
    solutions = [added[-1] for added in lines]
    for path in copy.rglob("*.ipynb"):
        content = json.loads(path.read_text())
        assert all(not cell.get("outputs") for cell in content["cells"])
        text = "".join(
            "".join(cell["source"]) for cell in content["cells"] if "exercise" in cell["metadata"].get("tags", [])
        )
        assert not any(line in text for line in solutions if len(line) > 30)
    code = "from course_lib.exercises import solution, check; print(solution('online_update').data)"
    assert "no solutions; ask your instructor" in said_in(copy, "-c", code)
    with pytest.raises(ValueError, match="not empty; pass a new one"):
        bundle.write_bundle(copy)


def test_what_is_the_instructors_is_not_handed_out_neither_solved_exercises_nor_rights(
    tmp_path, monkeypatch, capsys
) -> None:
    checkout, folder = tmp_path / "checkout", tmp_path / "copy"
    original = checkout / "notebooks" / "02_online_softmax.ipynb"
    original.parent.mkdir(parents=True)
    page = nbformat.read(bundle.ROOT / "notebooks" / original.name, as_version=4)
    solved = next(cell for cell in page.cells if cell.id == "exercise-online-update-code")
    solved.source = HEAD + RIGHT
    again = nbformat.v4.new_code_cell(solved.source, metadata=solved.metadata)  # pasted below: it keeps its tags
    page.cells.insert(page.cells.index(solved), again)
    nbformat.write(page, original)
    (checkout / "README.md").write_text("")
    (checkout / "README.md").chmod(0o600)
    somebody = ["-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], ["add", "."], [*somebody, "commit", "--quiet", "--message", "the course"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    page.cells.append(nbformat.v4.new_code_cell("a cell of the instructor's own"))
    nbformat.write(page, original)
    monkeypatch.setattr(bundle, "ROOT", checkout)
    monkeypatch.setattr(bundle, "_write_material", lambda folder: 0)
    monkeypatch.setattr(sys, "argv", ["", "student", str(folder)])
    command_line.main()
    assert capsys.readouterr().out.splitlines() == [
        f"2 files -> {folder}",
        f"not as they were committed: notebooks/{original.name}; look whether they hold answers of yours",
    ]
    assert (folder / "README.md").stat().st_mode == (folder / "notebooks" / original.name).stat().st_mode
    handed_out = nbformat.read(folder / "notebooks" / original.name, as_version=4).cells
    assert [cell.source for cell in handed_out if "def online_update" in cell.source] == [
        exercises()["online_update"].cell
    ]


def signs(line: str) -> Counter[str]:
    """Names and signs of a line, whether it is Python's or Triton's."""
    plain = line.lower().replace("tl.", "").replace("maximum", "max").replace("minimum", "min")
    return Counter(re.findall(r"\w+|[^\w\s]", plain))


@pytest.mark.parametrize("exercise", exercises().values(), ids=list(exercises()))
def test_no_line_of_a_task_is_one_of_the_answer(exercise) -> None:
    """What judges an answer is handed out: it counts by the definition, and not as the answer does."""
    task = inspect.getsource(importlib.import_module(f"course_lib.exercises.tasks.{exercise.name}"))
    handed_out = [signs(line) for line in task.replace(exercise.stub, "").splitlines()]
    answer = [
        line for line in exercise.solution.source.splitlines() if len(line.strip()) > 25 and line not in exercise.stub
    ]
    assert not [line for line in answer if signs(line) in handed_out]


@pytest.mark.parametrize("target", ["test", "book", "slides", "present L=05", "bench-pictures"])
def test_what_needs_a_part_that_is_left_out_says_so(copy, target) -> None:
    installed = ["-o", ".venv/.course-ready", "-o", "course_lib/publish/web/node_modules/.package-lock.json"]
    command = ["make", "--no-print-directory", "CONDA_DEFAULT_ENV=", *installed, *target.split()]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("a student's copy has no "), done


def test_the_students_copy_knows_cases_and_wrong_results_as_data_alone(copy, monkeypatch, tmp_path) -> None:
    kept = sorted((copy / "course_lib/exercises/cases").iterdir())
    assert [p.name for p in kept] == sorted(f"{name}.json" for name in graded())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty one: what is compared is computed again
    for name in ("online_update", "tile_traffic", "causal_blocks"):
        assert (copy / f"course_lib/exercises/cases/{name}.json").read_text() == material.as_file(exercises()[name])
    for name, exercise in graded().items():
        here = material.material(exercise)
        data = json.loads((copy / f"course_lib/exercises/cases/{name}.json").read_text())
        assert data["expected"] == values.encode(list(here.expected))
        assert list(data["wrong"]) == list(exercise.wrong)


ATTEMPTS = """
import json, linecache, math, sys, torch
from course_lib.exercises import exercises
from course_lib.exercises.checker.checking import check_exercise
from course_lib.kernels import tl, triton
from course_lib.model.memory import *
for name, source in json.load(open(sys.argv[1])):
    linecache.cache[source] = (len(source), None, source.splitlines(keepends=True), source)
    space = {**globals(), "__name__": "page"}
    exec(compile(source, source, "exec"), space)
    print(check_exercise(exercises()[name], space[name], keep=False, page=[source]))
"""


@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.weekly)])
def test_the_students_copy_says_the_same(each, copy, tmp_path, monkeypatch, capsys) -> None:
    """Each time of a quarter of the exercises: what all are judged by there is compared above."""
    right = [(e.name, e.solution.source) for e in exercises().values() if not e.compiles][::each]
    wrong = [(name, exercises()[name].stub.replace("...", "return None")) for name in ("tile_traffic", "causal_blocks")]
    wrong.append(("online_update", HEAD + KINDS["wrong"]))
    kernel = exercises()["matmul_kernel"].solution.source.replace(', input_precision="ieee"', "")
    wrong.append(("matmul_kernel", kernel))
    (tmp_path / "all.json").write_text(json.dumps(right + wrong))
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    said = said_in(copy, "-c", ATTEMPTS, str(tmp_path / "all.json"))
    assert said.count(": passed") == len(right)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "wrong.json")])
    exec(ATTEMPTS, {"__name__": "page"})
    here = capsys.readouterr().out
    assert said.endswith(here)
    assert "This is what you get if the old ℓ is not rescaled" in here


@alone
def test_grading_in_the_students_copy_says_that_a_table_of_the_known_cases_passes(copy, tmp_path, one_server) -> None:
    known = material.material(exercises()["phase_of"])
    table = {case.args: right for case, right in zip(known.cases, known.expected)}
    answer = nbformat.v4.new_code_cell(f"def phase_of(n, buffers):\n    return {table!r}[n, buffers]")
    made = nbformat.v4.new_notebook(cells=[answer, nbformat.v4.new_code_cell("check(phase_of)")])
    (tmp_path / "10.ipynb").write_text(nbformat.writes(made))
    assert unseen.NONE in said_in(copy, "-m", "course_lib.exercises", "grade", str(tmp_path))
    there = {row["exercise"]: row["status"] for row in csv.DictReader((tmp_path / "grades.csv").open())}
    graded = grading.grade(tmp_path)
    here = {g.exercise: g.status for g in graded.grades}
    assert (there["phase_of"], here["phase_of"]) == ("passed", "failed")
    assert unseen.NONE not in graded.how


@pytest.mark.weekly
def test_no_function_of_the_students_copy_is_an_answer(copy) -> None:
    script = Path(__file__).with_name("shipped_functions.py").read_text(encoding="utf-8")
    found = json.loads(said_in(copy, "-c", script))
    assert found["tried"] > 300
    assert found["passed"] == []


CLASSES = {
    "passed": "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    m: float\n    l: float\n\n\n",
    "failed": "from dataclasses import dataclass\n\n\n@dataclass\nclass Pair:\n    m: float\n    l: float\n\n\n",
}


@alone
@pytest.mark.parametrize("status", CLASSES)
def test_a_class_of_the_notebook_is_judged_alike_by_both(status, tmp_path, one_server) -> None:
    page = f"import math\nimport torch\n{CLASSES[status]}{HEAD}{RIGHT.replace('return new, ', 'return Pair(new, ')})"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(x) for x in (page, "check(online_update)")])
    (tmp_path / "02.ipynb").write_text(nbformat.writes(made))
    found = {g.exercise: g for g in grading.grade(tmp_path).grades}["online_update"]
    here = checking.check_exercise(
        exercises()["online_update"], definitions([page], ["online_update"]).space["online_update"], keep=False
    )
    assert (found.status, here.status) == (status, status), (found, here)
    assert status == "passed" or ("a Pair came back" in found.words and "a Pair came back" in repr(here))


@alone
def test_a_thousand_notebooks_of_one_student_cost_the_others_little(tmp_path, monkeypatch, one_server) -> None:
    monkeypatch.setattr(grading, "TIMES", 0)
    for name in ("many/1", "many/2", "many/3", "other/1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name} 02.ipynb").write_text(notebook(RIGHT))
    monkeypatch.setattr(grading.os, "cpu_count", lambda: 1)
    rows = [g for g in grading.grade(tmp_path).grades if g.exercise in ("", "online_update")]
    assert [(g.student, g.status) for g in rows] == [
        ("many", "passed"), ("many", "not graded"), ("many", "not graded"), ("other", "passed"),
    ]  # fmt: skip
    assert "this student's notebooks have taken more than 0 seconds" in rows[1].words


@alone
def test_who_says_that_the_sandbox_is_gone_is_not_graded_again(tmp_path, monkeypatch, one_server) -> None:
    words = "raise RuntimeError('the sandbox that it ran in is gone')"
    (tmp_path / "02.ipynb").write_text(notebook(words))
    graded, once = [], grading._Notebooks.grades
    monkeypatch.setattr(grading._Notebooks, "grades", lambda self, work: graded.append(work) or once(self, work))
    found = {g.exercise: g for g in grading.grade(tmp_path).grades}["online_update"]
    assert "the sandbox that it ran in is gone" in found.words
    assert len(graded) == 1


def test_an_exercise_counts_once_by_the_best_of_a_students_notebooks() -> None:
    grades = [
        Grade("ada", f"ada/{n}.ipynb", "f", status) for n, status in enumerate(("failed", "passed", "not attempted"))
    ]
    table = totals([*grades, Grade("ada", "ada/3.ipynb", "", "not graded"), Grade("bo", "bo.ipynb", "f", "missing")])
    assert table.rows == [["ada", 1, 0, 0, 0, 1], ["bo", 0, 0, 0, 1, 0]]


def test_on_a_full_disk_the_tables_are_printed(tmp_path, monkeypatch, capsys) -> None:
    def full(descriptor):
        raise OSError(28, "No space left on device")

    (tmp_path / "grades.csv").write_text("before")
    monkeypatch.setattr(grading, "grade", lambda *_: grading.Graded([Grade("ada", "ada.ipynb", "f", "passed")]))
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(command_line.isolation, "prctl", lambda *_: None)
    monkeypatch.setattr(command_line.isolation, "end_descendants", lambda: None)  # of this process: browsers, servers
    monkeypatch.setattr(sys, "argv", ["grade", "grade", str(tmp_path)])
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # main sets it
    assert command_line.main() == 1
    said = capsys.readouterr()
    assert re.search(r"^ada\.ipynb +1 ", said.out, re.MULTILINE)
    assert f"No space left on device: '{tmp_path / 'grades.csv'}'" in said.err
    assert (tmp_path / "grades.csv").read_text() == "before"


def test_as_root_without_a_way_nothing_is_run(tmp_path, monkeypatch) -> None:
    (tmp_path / "02.ipynb").write_text(notebook(KINDS["right"]))
    monkeypatch.setattr(client.os, "getuid", lambda: 0)
    with pytest.raises(client.SandboxError, match="never as root"):
        grading.grade(tmp_path, way="limits")


# --- what the check on a GPU stands on ---


def starts_another(path):
    """Yields, starts a process that would write a file after a while, and never ends."""
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(3); open({str(path)!r}, 'w')"])
    yield "begun"
    while True:
        time.sleep(9)


def too_much():
    yield bytearray(100 << 30)


def fails():
    yield 1
    raise ValueError("no")


def test_time_is_up_for_all_that_was_started(tmp_path) -> None:
    found = fresh_process.sent(starts_another, tmp_path / "written", seconds=1.5)
    assert found == (("begun",), "it took more than 1.5 seconds")
    time.sleep(3.5)
    assert not (tmp_path / "written").exists()


def test_no_memory_no_end() -> None:
    assert fresh_process.sent(too_much, seconds=20.0) == ((), "its process ended with exit code 1")
    assert fresh_process.sent(fails, seconds=20.0) == ((1,), "its process ended with exit code 1")


FORKS = """
import os, signal
from course_lib.exercises.processes import isolation
reader, writer = os.pipe()
if os.fork() == 0:
    filled = b"x" * (400 << 20)
    os.fork(), os.fork()
    os.write(writer, b"!")
    signal.pause()
for _ in range(4):
    os.read(reader, 1)
print(isolation.memory(1 << 40) >> 20, isolation.memory(0) >> 20)
isolation.end_descendants()
"""


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="there is no /proc to read it from")
def test_what_several_processes_share_counts_once() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=100)
    each, once = map(int, done.stdout.split())
    assert 400 <= once < 1200 < 1600 <= each


def test_on_a_gpu_the_page_is_read_again_in_another_process(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "p.json"))
    monkeypatch.setattr(course_exercises.runtime, "mode", lambda: "GPU")
    page = ["", "import math\nimport torch", HEAD + RIGHT]
    space, _ = definitions(page, ["online_update"])
    shell = SimpleNamespace(history_manager=SimpleNamespace(input_hist_parsed=page))
    monkeypatch.setattr(functions, "get_ipython", lambda: shell)
    assert course_exercises.check(space["online_update"]).status == "passed"
    assert progress_file.load() == {"online_update": "passed"}
    page[2] = HEAD + "import os; os.abort()"
    assert "signal 6" in repr(course_exercises.check(space["online_update"]))
    page[2] = HEAD.replace("def", "def = ") + RIGHT
    assert course_exercises.check(space["online_update"]).status == "missing"

"""Every exercise: its solution passes, its known-wrong answers are named, its stub is left alone."""

import ast
import inspect
import os
import re
import sys
from collections import Counter

import nbclient
import nbformat
import pytest
from written import defined

from course_lib import runtime
from course_lib.exercises import exercises
from course_lib.exercises.base import Exercise
from course_lib.exercises.checker import checking, material
from course_lib.exercises.checker.checking import check_exercise
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.handout import cells
from course_lib.exercises.page import functions
from course_lib.publish import notebooks

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.usefixtures("own_progress"),
]
ALL = list(exercises().values())


def imports(lecture: nbformat.NotebookNode) -> str:
    """Those of a lecture, its exercises' included."""
    nodes = ast.parse("\n".join(c.source for c in lecture.cells if c.cell_type == "code")).body
    return "".join(f"{ast.unparse(node)}\n" for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_solution_passes_in_time_under_the_lectures_imports_with_the_stubs_signature(exercise: Exercise) -> None:
    lecture = nbformat.read(notebooks.lecture(exercise.lecture), as_version=4)
    assert exercise.cell in [cell.source for cell in lecture.cells], "run `python -m course_lib.exercises write`"
    answer = defined(exercise.solution.source, exercise.name, imports(lecture))
    before = os.times()[:4]  # with those of processes that have ended
    report = check_exercise(exercise, answer)
    assert report.status == "passed", report
    assert sum(os.times()[:4]) - sum(before) < 5, "the check takes over 5 s of a processor: make its cases smaller"
    stub = defined(exercise.stub, exercise.name)
    one, other = (inspect.signature(getattr(f, "fn", f)) for f in (stub, answer))
    assert str(one) == str(other), "the solution's signature is not the stub's"
    assert exercise.solution.explanation.strip(), "EXPLANATION is empty: say what is to be learned from the answer"


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_stub_is_not_attempted(exercise: Exercise) -> None:
    assert check_exercise(exercise, defined(exercise.stub, exercise.name)).status == "not attempted"


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_wrong_answers_are_rejected_each_with_its_own_diagnosis(exercise: Exercise, monkeypatch) -> None:
    """They run once, for the diagnoses; the check gets what came of that."""
    assert len(exercise.wrong) >= 4, "give four known-wrong answers or more"
    known = material.material(exercise).wrong()
    for diagnosis, function in exercise.wrong.items():
        monkeypatch.setattr(checking, "attempts", lambda *_, found=known[diagnosis]: found)
        report = check_exercise(exercise, function)
        assert report.status == "failed", f"no case rejects the wrong answer {diagnosis!r}: add one"
        assert report.diagnosis == diagnosis, "two wrong answers look alike: add a case that tells them apart"


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_texts_are_whole_and_the_oracle_answers_twice_alike(exercise: Exercise) -> None:
    assert exercise.level in (1, 2, 3)
    assert len([h for h in exercise.hints if h.strip()]) == len(exercise.hints) == 3, "give three hints"
    assert 1 <= exercise.minutes <= 60
    for case in exercise.cases():
        assert not differs(exercise.expected(*case.args), exercise.expected(*case.args), exercise.tolerance)
    for diagnosis in exercise.wrong:
        assert not diagnosis.endswith("."), f"a diagnosis is part of a sentence, without a full stop: {diagnosis}"


def calls_and_signs(text: str) -> Counter[str]:
    plain = text.replace("·", "*").replace("−", "-").replace("⌈", "ceil(")
    return Counter(re.findall(r"[a-zA-Z_]\w*(?=\()|(?<= )(?://|[-+*/%<>])(?= )", plain))


@pytest.mark.parametrize("exercise", [e for e in ALL if e.level > 1], ids=lambda e: e.name)
def test_the_last_hint_is_not_the_answer(exercise: Exercise) -> None:
    answer = next(x for x in ast.parse(exercise.solution.source).body if isinstance(x, ast.FunctionDef))
    wanted = calls_and_signs(ast.unparse(answer.body[1:]))
    told = wanted & calls_and_signs(exercise.hints[-1])
    assert told.total() <= wanted.total() / 4, f"it has {sorted(told)} of the answer: ask for these"


@pytest.mark.parametrize("exercise", [e for e in ALL if functions.to_be_mended(e.stub)], ids=lambda e: e.name)
def test_no_diagnosis_quotes_what_is_to_be_mended(exercise: Exercise) -> None:
    """A student's copy holds the diagnoses as words."""
    mended = exercise.solution.source.splitlines()
    lines = [line.strip() for line in exercise.stub.splitlines() if line not in mended]
    assert lines
    quoted = {piece for line in lines for piece in (line.split(" = ")[0], *re.findall(r"\w+ [%/]+ \w+", line))}
    assert not [words for words in exercise.wrong if any(piece in words for piece in quoted)]


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_oracle_does_not_use_the_solution(exercise: Exercise, monkeypatch) -> None:
    cases = list(exercise.cases())
    monkeypatch.delattr("course_lib.exercises.solutions", raising=False)
    for name in ("course_lib.exercises.solutions", f"course_lib.exercises.solutions.{exercise.name}"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it raises
    with pytest.raises(ModuleNotFoundError, match=r"import of course_lib\.exercises\.solutions"):
        exercise.solution  # noqa: B018
    for case in cases:
        exercise.expected(*case.args)


@pytest.mark.weekly  # outside of a kernel: above
def test_with_the_solutions_put_in_all_lectures_exercises_pass() -> None:
    """The exercise cells of the notebooks, each lecture's under its imports, in a Jupyter kernel."""
    made, solved = nbformat.v4.new_notebook(), {}
    for path in notebooks.lectures():
        lecture = nbformat.read(path, as_version=4)
        made.cells.append(nbformat.v4.new_code_cell(imports(lecture)))
        for cell in filter(cells.is_exercise, lecture.cells):
            cell.id = f"{path.name[:2]}-{cell.id}"[:64]
            for e in ALL:
                if cell.source == e.cell:
                    cell.source = f"{e.solution.source.strip()}\n\n\ncheck({e.name})"
                    solved[e.name] = cell
            made.cells.append(cell)
    assert list(solved) == [e.name for e in ALL]
    nbclient.NotebookClient(made, timeout=60).execute()
    for name, cell in solved.items():
        text = "".join(o["data"]["text/plain"] for o in cell.outputs if "data" in o)
        assert text.startswith(f"{name}: passed"), text

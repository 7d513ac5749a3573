"""What one notebook, however large or long, takes from the others: neither time nor memory."""

import compileall
import shutil
import time

import pytest

from course_lib.exercises import exercises
from course_lib.exercises.grader import collected, grade_tables
from course_lib.exercises.grader.collected import Work
from course_lib.exercises.grader.grade_tables import Grade
from course_lib.exercises.grader.marking import Clock
from course_lib.exercises.harness import warps
from course_lib.exercises.sandbox import library as sandbox_library
from course_lib.files import ROOT


def test_a_notebooks_time_stands_still_while_it_is_judged() -> None:
    clock = Clock(60.0)
    with clock.stopped():
        time.sleep(0.01)
    assert clock.left == 60.0  # it has not begun
    clock.start()
    before = clock.left
    with clock.stopped():
        time.sleep(0.5)
    assert before - clock.left < 0.4


def test_twenty_thousand_notebooks_are_a_table_at_once() -> None:
    grades = [Grade("s", f"s/{i}.ipynb", "", "not graded", "no exercise of the course is in it") for i in range(20_000)]
    begin = time.monotonic()
    rows = grade_tables.overview(grades).rows
    assert time.monotonic() - begin < 5.0  # 20 seconds and more where each looks through all
    assert len(rows) == len(grades)


def test_a_notebook_of_millions_of_parts_is_not_read(tmp_path) -> None:
    many = ",".join(['{"a":1}'] * (collected.PARTS // 2 + 1))
    (tmp_path / "many.ipynb").write_text(f'{{"cells": [], "x": [{many}, {many}]}}')
    assert "too many parts" in collected.read(tmp_path, Work("many.ipynb")).words


def test_who_asks_for_a_thousand_things_is_not_tried_in_every_order() -> None:
    def endless():
        for _ in range(1001):
            yield ("fence",)

    assert warps.recorded(endless(), [1]).trouble == "never stops asking"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library as students' code sees it where the course has been run, so that there is bytecode."""
    checkout, folder = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("sandbox") / "library"
    shutil.copytree(
        ROOT / "course_lib", checkout / "course_lib", ignore=shutil.ignore_patterns("node_modules", "__pycache__")
    )
    (checkout / "data").mkdir()
    compileall.compile_dir(checkout / "course_lib" / "model", quiet=1)
    assert list(checkout.rglob("*.pyc"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox_library, "ROOT", checkout)
        sandbox_library.write_library(folder)
    return folder


def test_no_bytecode_keeps_what_is_taken_out_of_the_library(library) -> None:
    assert list(library.rglob("*.pyc")) == []
    for module, name in (answer.rsplit(".", 1) for exercise in exercises().values() for answer in exercise.answers):
        text = (library / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert f"{name} was called; write it yourself" in text

"""A student's pages without what answers a prediction, and her own copy of them: made once, renewed where untouched, kept where hers."""

import importlib.util
import json
import re
import subprocess
import sys

import nbformat
import pytest

from course_lib.files import ROOT
from course_lib.publish import notebooks, working_copy

LECTURES = notebooks.lectures()
ANSWERS = re.compile(r"<summary>Answers?</summary>")


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Three lectures of the course, which a test may change: a function that puts a sentence into one."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for lecture in LECTURES[4:7]:
        (folder / lecture.name).write_bytes(lecture.read_bytes())
    (folder / "map.svg").write_text("<svg/>")
    monkeypatch.setattr(notebooks, "NOTEBOOKS", folder)

    def change(number: str, words: str) -> None:
        edit(notebooks.lecture(number), lambda page: page.cells[0].update(source=words))

    return change


def edit(path, change) -> None:
    page = nbformat.read(path, as_version=4)
    change(page)
    nbformat.write(page, path)


@pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.stem)
def test_a_students_page_holds_the_lecture_and_nothing_that_answers_it(path) -> None:
    page = nbformat.reads(working_copy.student_page(path), as_version=4)
    nbformat.validate(page)
    kept = nbformat.read(path, as_version=4).cells
    assert [c.id for c in page.cells] == [c.id for c in kept]
    for mine, original in zip(page.cells, kept):
        if mine.cell_type == "code":
            assert (mine.outputs, mine.execution_count, mine.source) == ([], None, original.source)
        else:
            assert not ANSWERS.search(mine.source)
            assert mine.source.count(working_copy.WITH_THE_INSTRUCTOR) == len(ANSWERS.findall(original.source))


def test_a_copy_is_made_once_and_a_second_time_nothing_is_written(course, tmp_path) -> None:
    folder = tmp_path / "deep" / "work"
    assert working_copy.bring(folder) == []
    assert {p.name for p in folder.iterdir()} == {p.name for p in notebooks.NOTEBOOKS.iterdir()} | {
        working_copy.HANDED_OUT
    }
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.glob("*.ipynb")}
    assert working_copy.bring(folder) == []
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.glob("*.ipynb")} == before


def opened(page) -> None:
    """What JupyterLab notes when a page is opened on another machine, and saved."""
    page.metadata["language_info"] = {"name": "python", "version": "3.99"}
    page.cells[3].metadata["collapsed"] = True


def written(page) -> None:
    page.cells[0].source += "\nMy guess: 30."


def run(page) -> None:
    cell = next(c for c in page.cells if c.cell_type == "code")
    cell.outputs = [nbformat.v4.new_output("stream", text="mine")]


def added(page) -> None:
    page.cells.append(nbformat.v4.new_code_cell("1 + 1"))


def test_what_is_untouched_is_renewed_and_what_is_hers_is_kept(course, tmp_path) -> None:
    for number, hers in enumerate((written, run, added)):
        folder = tmp_path / str(number)
        working_copy.bring(folder)
        edit(folder / "04_flash_lite.ipynb", hers)
        edit(folder / "05_flash_online.ipynb", hers)
        edit(folder / "06_loop_orders.ipynb", opened)
        mine = {name: (folder / name).read_bytes() for name in ("04_flash_lite.ipynb", "05_flash_online.ipynb")}
        for lecture in ("05", "06"):
            course(lecture, f"# {lecture}\n\nchanged {number}")
        assert working_copy.bring(folder) == ["05"]
        assert {name: (folder / name).read_bytes() for name in mine} == mine
        assert f"changed {number}" in (folder / "06_loop_orders.ipynb").read_text()


def test_the_new_one_comes_beside_and_writes_nothing_over(course, tmp_path) -> None:
    folder = tmp_path / "work"
    working_copy.bring(folder)
    hers = folder / "05_flash_online.ipynb"
    edit(hers, written)
    course("05", "# 05\n\nsecond edition")
    mine = hers.read_bytes()
    beside = working_copy.put_beside(folder, "5")
    assert beside.name == "05_flash_online.new.ipynb"
    assert "second edition" in beside.read_text()
    assert working_copy.bring(folder) == []  # she has it now
    assert working_copy.put_beside(folder, "05") == beside
    edit(beside, written)
    changed = beside.read_bytes()
    assert working_copy.put_beside(folder, "05").name == "05_flash_online.new2.ipynb"
    assert (hers.read_bytes(), beside.read_bytes()) == (mine, changed)
    course("05", "# 05\n\nthird edition")
    assert working_copy.bring(folder) == ["05"]


@pytest.mark.parametrize("note", ["", "[]", "{broken", '{"05_flash_online.ipynb": ""}'])
def test_without_a_readable_note_everything_is_hers(course, tmp_path, note) -> None:
    folder = tmp_path / "work"
    working_copy.bring(folder)
    (folder / working_copy.HANDED_OUT).write_text(note)
    (folder / "05_flash_online.ipynb").write_text("<<<<<<< a page that is no notebook")
    edit(folder / "06_loop_orders.ipynb", written)
    mine = {p: p.read_bytes() for p in folder.glob("*.ipynb")}
    assert working_copy.bring(folder) == ["05", "06"]
    assert {p: p.read_bytes() for p in folder.glob("*.ipynb")} == mine


def test_a_lecture_with_a_new_number_leaves_its_old_page_only_if_that_is_hers(course, tmp_path) -> None:
    folder = tmp_path / "work"
    working_copy.bring(folder)
    edit(folder / "05_flash_online.ipynb", written)
    for old, new in (("05_flash_online", "07_flash_online"), ("06_loop_orders", "08_loop_orders")):
        (notebooks.NOTEBOOKS / f"{old}.ipynb").rename(notebooks.NOTEBOOKS / f"{new}.ipynb")
    assert working_copy.bring(folder) == []
    assert [p.stem[:2] for p in sorted(folder.glob("*.ipynb"))] == ["04", "05", "07", "08"]


def said(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "course_lib.publish.working_copy", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_one_line_says_how_to_get_the_new_one(tmp_path) -> None:
    folder = tmp_path / "work"
    assert said(str(folder)) == (0, "")
    edit(folder / "05_flash_online.ipynb", written)
    note = folder / working_copy.HANDED_OUT
    note.write_text(note.read_text().replace(json.loads(note.read_text())["05_flash_online.ipynb"], "an older one"))
    code, words = said(str(folder))
    assert (code, words.count("\n")) == (0, 1)
    assert "make lab FRESH=05" in words
    assert "05_flash_online.new.ipynb" in said(str(folder), "--fresh", "05")[1]
    assert said(str(folder), "--fresh", "77")[0] == 1


def test_a_student_of_the_hub_gets_the_same_copy(course, tmp_path) -> None:
    spec = importlib.util.spec_from_file_location("start_student", ROOT / "deploy" / "start_student.py")
    start = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(start)  # type: ignore[union-attr]
    start.bring_lectures(tmp_path / "home")
    hers = tmp_path / "home" / "notebooks" / "05_flash_online.ipynb"
    edit(hers, written)
    mine = hers.read_bytes()
    course("05", "# 05\n\nsecond edition")
    for _ in range(2):
        start.bring_lectures(tmp_path / "home")
    assert hers.read_bytes() == mine
    assert [p.name for p in hers.parent.glob("*.new*")] == ["05_flash_online.new.ipynb"]


def test_what_is_handed_out_holds_no_notes_no_answers_no_guide_and_no_dangling_link(copy) -> None:
    for file in copy.rglob("*"):
        if file.suffix in (".md", ".ipynb"):
            text = file.read_text(encoding="utf-8")
            assert "\nNote: " not in text, file
            assert not ANSWERS.search(text), file
            links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text) if file.suffix == ".md" else []
            assert [link for link in links if not (file.parent / link).exists()] == [], file
    assert not (copy / "docs" / "teaching.md").exists()
    assert "## For a class" not in (copy / "README.md").read_text()

"""A student's pages without what answers a prediction, and her own copy of them: made once, renewed where untouched, kept where hers."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import KernelSpecManager

from course_lib.publish import notebooks, working_copy

ROOT = Path(__file__).resolve().parents[1]
LECTURES = notebooks.lectures()
NOTES, ANSWERS = "\nNote: ", re.compile(r"<summary>Answers?</summary>")
# What an alternative text would say of a result, names of things set aside: V1, e4m3, H200.
JUDGES = re.compile(
    r"\b\d|\b(fast|slow|bett|best|wors|more|less|most|least|twice|half|times as|same|equal|nearly|grow|ris|fall|drop|jump|collaps|"
    r"stay|flat|coincide|lie|near|cross|reach|beyond|until|above|below)"
)


@pytest.fixture(params=LECTURES, ids=lambda path: path.stem)
def path(request):
    return request.param


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
            assert mine.source.count("<details>") == original.source.count("<details>") - len(
                ANSWERS.findall(original.source)
            )
    assert page.metadata.course.title == notebooks.about(path)["title"]


def test_alternative_texts_describe_what_is_drawn_and_tell_no_result(path) -> None:
    told = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "alt=" in cell.source:
            keywords = [k for k in ast.walk(ast.parse(cell.source)) if isinstance(k, ast.keyword) and k.arg == "alt"]
            words = [c.value for k in keywords for c in ast.walk(k.value) if isinstance(c, ast.Constant)]
            told += [(cell.id, text, found[0]) for text in words if (found := JUDGES.search(str(text)))]
    assert not told, "these alternative texts tell what comes out: say which axes and marks there are"


def test_a_page_is_what_jupyterlab_would_make_of_it() -> None:
    page = json.loads(working_copy.student_page(LECTURES[0]))
    spec = KernelSpecManager().get_kernel_spec("python3")
    assert page["metadata"]["language_info"] == IPythonKernel.language_info
    assert page["metadata"]["kernelspec"] == {
        "display_name": spec.display_name, "language": spec.language, "name": "python3"
    }  # fmt: skip


def test_a_copy_is_made_once_and_a_second_time_nothing_is_written(course, tmp_path) -> None:
    folder = tmp_path / "deep" / "work"
    assert working_copy.bring(folder) == []
    assert {p.name for p in folder.iterdir()} == {p.name for p in notebooks.NOTEBOOKS.iterdir()} | {
        working_copy.HANDED_OUT
    }
    assert working_copy.IN_THE_ORIGINAL in (folder / "05_flash_online.ipynb").read_text()
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
    assert said(str(folder)) == (0, "")  # hers, and the course's is as she was handed it
    note = folder / working_copy.HANDED_OUT
    note.write_text(note.read_text().replace(json.loads(note.read_text())["05_flash_online.ipynb"], "an older one"))
    code, words = said(str(folder))
    assert (code, words.count("\n")) == (0, 1)
    assert "make lab FRESH=05" in words
    assert "05_flash_online.new.ipynb" in said(str(folder), "--fresh", "05")[1]
    assert said(str(folder)) == (0, "")
    assert said(str(folder), "--fresh", "77")[0] == 1
    (tmp_path / "file").write_text("")
    assert said(str(tmp_path / "file"))[0] == 1


def test_make_lab_opens_the_copy_which_git_does_not_see_and_make_edit_the_originals() -> None:
    def recipe(*words: str) -> str:
        command = ["make", "-n", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert '-m course_lib.publish.working_copy work --fresh "05"' in recipe("lab", "FRESH=05")
    assert "default_url=/lab/tree/work/00_start_here.ipynb" in recipe("lab")
    assert "default_url=/lab/tree/notebooks/00_start_here.ipynb" in recipe("edit")
    assert "working_copy" not in recipe("edit")
    ignored = subprocess.run(["git", "check-ignore", "work/00_start_here.ipynb", "notebooks/00_start_here.ipynb"],
                             cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    assert ignored.stdout.split() == ["work/00_start_here.ipynb"]


def test_a_student_of_the_hub_gets_the_same_copy(course, tmp_path) -> None:
    spec = importlib.util.spec_from_file_location("start_student", ROOT / "deploy" / "start_student.py")
    assert spec is not None
    assert spec.loader is not None
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
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
            assert NOTES not in text, file
            assert not ANSWERS.search(text), file
            links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text) if file.suffix == ".md" else []
            assert [link for link in links if not (file.parent / link).exists()] == [], file
    assert not (copy / "docs" / "teaching.md").exists()
    assert "## For a class" not in (copy / "README.md").read_text()

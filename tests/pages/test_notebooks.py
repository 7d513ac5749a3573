"""The lectures as files: executed, fresh, free of private things; and their refresh is stable."""

import re

import nbformat
import pytest

from course_lib.exercises.exercise import exercises
from course_lib.publish import form, notebooks

LECTURES = notebooks.lectures()


def load(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(params=LECTURES, ids=lambda path: path.stem)
def path(request):
    return request.param


def test_a_lecture_is_found_by_its_number_and_by_nothing_else() -> None:
    numbers = [int(path.stem[:2]) for path in LECTURES]
    assert numbers == list(range(len(numbers))), "give a lecture the next free number"
    for name in ("5", "05", "05_flash_online", "05_flash_online.ipynb"):
        assert notebooks.lecture(name).stem == "05_flash_online"
    for name in ("", "100", "5x", "lecture 05", "99"):
        with pytest.raises(ValueError, match=f"lecture is '{name}'; pass one of 00, 01, 02"):
            notebooks.lecture(name)


def test_every_cell_is_executed_in_order_and_its_outputs_are_fresh(path) -> None:
    notebook = load(path)
    run = f"run `python -m course_lib.publish.notebooks notebooks/{path.name}`, or `make notebooks` for all"
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1)), run
    assert notebook.metadata.course["executed_from"] == notebooks.code_digest(notebook), run
    assert notebook.metadata.course.study == form.study_minutes(notebook), run
    for cell in code_cells(notebook):
        if notebooks.is_measured(cell):
            assert cell.metadata.course["measured_from"] == notebooks.digest([cell.source]), run
            assert "nbval-ignore-output" in cell.metadata.tags, f"cell {cell.id} is tagged measured; tag it so, too"


def test_no_errors_live_widgets_private_paths_or_megabytes(path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000, "too large for a page: draw smaller or fewer pictures"
    found = re.search(r"/home/|/root/|/Users/|/tmp/|/work/|[A-Z]:\\\\Users", text)
    assert not found, f"a machine's path: … {text[max(0, found.start() - 40) : found.end() + 40]} …"
    outputs = [output for cell in code_cells(load(path)) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"], "a cell warns: fix what it warns of"
    assert not [o for o in outputs if "application/vnd.jupyter.widget-view+json" in o.get("data", {})], (
        f"run `python -m course_lib.publish.notebooks notebooks/{path.name}`, which saves widgets as pictures"
    )


def test_a_reader_finds_title_time_question_setup_and_recap_where_they_always_stand(path) -> None:
    notebook = load(path)
    course, first = notebook.metadata.course, notebook.cells[0].source
    assert first.startswith(f"# {path.stem[:2]} · {course.title}\n"), "the first cell begins with number and title"
    for words in (f"**{course.minutes} minutes presented, {course.study} on your own.**", "**The question.**"):
        assert words in first, f"the first cell has to hold {words!r}"
    assert course.study <= 65, "an hour for a reader who works alone: cut, or fold"
    assert form.predictions(notebook) >= 2, "ask for two predictions at least: '**Predict:** …', before each reveal"
    assert code_cells(notebook)[0].source.rstrip().endswith("setup()"), "the first code cell imports all"
    assert "## Recap" in notebook.cells[-1].source, "the last cell is '## Recap'; exercises stand before it"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells), "two cells have one id"


def test_an_exercise_takes_no_name_of_the_page(path) -> None:
    cells = [cell for cell in code_cells(load(path)) if "exercise" not in cell.metadata.get("tags", [])]
    own = "\n".join(cell.source for cell in cells)
    for name, exercise in exercises().items():
        assert exercise.lecture != path.name[:2] or not re.search(rf"\b{name}\b", own), (
            f"the page's own code holds the word {name!r} (code, text or comment): rename the exercise or the word"
        )


SAMPLE = {
    "text": "print('always the same')",
    "live": (
        "from course_lib.widgets import explore, slider\n"
        "explore(lambda ax, n: str(ax.plot([0, n]) and n), n=slider(0, 3, 1), alt='a line that rises')"
    ),
    "progress": "from course_lib.instruments.measure import progress\nfor _ in progress(range(3), 'waiting'):\n    pass",
    "time": "import time\nprint(time.perf_counter_ns())",
}


@pytest.mark.weekly  # three kernels; of the lectures themselves nbval compares the outputs each time
def test_a_second_refresh_changes_nothing_and_live_widgets_become_pictures(tmp_path) -> None:
    notebook = nbformat.v4.new_notebook(metadata={"course": {"title": "sample", "minutes": 1}})
    for name, code in SAMPLE.items():
        cell = nbformat.v4.new_code_cell(code, id=name)
        cell.metadata["tags"] = ["measured"] if name == "time" else []
        notebook.cells.append(cell)
    path = tmp_path / "sample.ipynb"
    nbformat.write(notebook, path)
    assert notebooks.refresh(path)
    first = path.read_bytes()
    assert not notebooks.refresh(path)
    assert path.read_bytes() == first

    cells = {cell.id: cell for cell in load(path).cells}
    assert set(cells["live"].outputs[0].data) == {"image/png", "text/plain"}
    assert cells["live"].outputs[0].data["text/plain"] == "[interactive figure: n] a line that rises"
    assert cells["progress"].outputs == []

    edited = load(path)
    edited.cells = [cells["text"], cells["time"]]
    edited.cells[1].source += "\n# edited"
    before = edited.cells[1].outputs
    nbformat.write(edited, path)
    assert notebooks.refresh(path)
    assert load(path).cells[1].outputs != before

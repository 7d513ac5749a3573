"""The lectures as files: executed, fresh, laid out for slides, free of private things; and their refresh is stable."""

import json
import re

import nbformat
import pytest

from course_lib import notebooks, slides
from course_lib.exercises import cells as exercise_cells

LECTURES = notebooks.lectures()


def load(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(params=LECTURES, ids=lambda path: path.stem)
def path(request):
    return request.param


def test_there_are_lectures_and_their_numbers_have_no_gap() -> None:
    assert [int(path.stem[:2]) for path in LECTURES] == list(range(len(LECTURES)))


def test_a_lecture_is_found_by_its_number_and_by_nothing_else() -> None:
    for name in ("5", "05", "05_flash_online", "05_flash_online.ipynb"):
        assert notebooks.lecture(name).stem == "05_flash_online"
    for name in ("", "100", "5x", "lecture 05", "99"):
        with pytest.raises(ValueError, match=f"lecture is '{name}'; pass one of 00, 01, 02"):
            notebooks.lecture(name)


def test_every_cell_is_executed_in_order_and_its_outputs_are_fresh(path) -> None:
    notebook = load(path)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert notebook.metadata.course["executed_from"] == notebooks.code_digest(notebook), "run `make notebooks`"
    for cell in code_cells(notebook):
        if notebooks.is_measured(cell):
            assert cell.metadata.course["measured_from"] == notebooks.digest([cell.source]), "run `make notebooks`"
            assert "nbval-ignore-output" in cell.metadata.tags


def test_no_errors_live_widgets_private_paths_or_megabytes(path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    assert not re.search(r"/home/|/root/|/Users/|/tmp/|/work/|[A-Z]:\\\\Users", text)
    outputs = [output for cell in code_cells(load(path)) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert not [output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})]


def test_a_lecture_has_the_anatomy_of_a_lecture(path) -> None:
    notebook = load(path)
    course, cells = notebook.metadata.course, notebook.cells
    assert cells[0].source.startswith(f"# {path.stem[:2]} · {course.title}\n")
    assert f"{course.minutes} minutes" in cells[0].source
    assert "**The question.**" in cells[0].source
    first_code = code_cells(notebook)[0]
    assert first_code.source.rstrip().endswith("setup()")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert text.count("**Predict") >= 2
    assert "## Recap" in cells[-1].source
    assert any(cell.metadata.slideshow.slide_type == "notes" for cell in cells)


def test_every_cell_has_a_place_on_a_slide_and_fits_one(path) -> None:
    notebook = load(path)
    kinds = {"slide", "subslide", "fragment", "skip", "notes", "-"}
    assert all(cell.metadata.slideshow.slide_type in kinds for cell in notebook.cells)
    assert max(len(cell.source.splitlines()) for cell in code_cells(notebook)) <= 25
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert 12 <= len([cell for cell in notebook.cells if not exercise_cells.is_exercise(cell)]) <= 50
    assert len(notebook.cells) - len(code_cells(notebook)) >= len(code_cells(notebook))


def test_no_figure_with_controls_scrolls_on_a_slide(path) -> None:
    live = [
        cell
        for cell in code_cells(slides.deck(load(path)))
        if any(output.get("data", {}).get("text/plain", "").startswith("[interactive") for output in cell.outputs)
    ]
    assert not [cell.id for cell in live if cell.metadata.get("scrolled")], (
        "a control and what it changes stand together"
    )


def test_the_exercises_are_those_of_the_library_and_take_no_name_of_the_page(path) -> None:
    notebook = load(path)
    page, found = exercise_cells.own_code(notebook), [c for c in notebook.cells if exercise_cells.is_exercise(c)]
    wanted = exercise_cells.cells(path.name[:2], page)
    assert [(c.id, c.source) for c in found] == [(c.id, c.source) for c in wanted], (
        "run python -m course_lib.exercises write"
    )
    for exercise in exercise_cells.lecture_exercises(path.name[:2]):
        assert not re.search(rf"\b{exercise.name}\b", page), exercise.name


def test_every_picture_says_what_it_shows(path) -> None:
    for cell in code_cells(load(path)):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                assert re.search(r"(figure|picture)[^\]]*\] \S+ \S+ \S+", output.data["text/plain"]), cell.source


SAMPLE = {
    "text": "print('always the same')",
    "live": (
        "from course_lib.widgets import explore, slider\n"
        "explore(lambda ax, n: str(ax.plot([0, n]) and n), n=slider(0, 3, 1), alt='a line that rises')"
    ),
    "progress": "from course_lib.measure import progress\nfor _ in progress(range(3), 'waiting'):\n    pass",
    "time": "import time\nprint(time.perf_counter_ns())",
}


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

    assert notebooks.refresh(path, fresh=True)
    before = json.loads(path.read_text())
    edited = load(path)
    edited.cells[3].source += "\n# edited"
    nbformat.write(edited, path)
    assert notebooks.refresh(path)
    assert json.loads(path.read_text())["cells"][3]["outputs"] != before["cells"][3]["outputs"]

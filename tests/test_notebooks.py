"""The lectures as files: executed, fresh, free of private things; and their refresh is stable."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.exercises.exercise import exercises
from course_lib.publish import form, notebooks

LECTURES = notebooks.lectures()


def load(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_exercise(cell):
    return "exercise" in cell.metadata.get("tags", [])


@pytest.fixture(params=LECTURES, ids=lambda path: path.stem)
def path(request):
    return request.param


def test_numbers_have_no_gap() -> None:
    numbers = [int(path.stem[:2]) for path in LECTURES]
    assert numbers == list(range(len(numbers))), "give a lecture the next free number"


def test_a_lecture_is_found_by_its_number_and_by_nothing_else() -> None:
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
    assert not [output for output in outputs if output.get("name") == "stderr"], "a cell warns: mend what it warns of"
    live = [output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})]
    assert not live, (
        f"run `python -m course_lib.publish.notebooks notebooks/{path.name}`, which saves widgets as pictures"
    )


def test_a_lecture_has_the_anatomy_of_a_lecture(path) -> None:
    notebook = load(path)
    course, cells = notebook.metadata.course, notebook.cells
    title = f"# {path.stem[:2]} · {course.title}"
    assert cells[0].source.startswith(f"{title}\n"), (
        f"begin the first cell with {title!r}: number, title of the metadata"
    )
    assert course.study == form.study_minutes(notebook), (
        f"run `python -m course_lib.publish.notebooks notebooks/{path.name}`"
    )
    for words in (f"**{course.minutes} minutes presented, {course.study} on your own.**", "**The question.**"):
        assert words in cells[0].source, f"the first cell has to hold {words!r}"
    first_code = code_cells(notebook)[0]
    assert first_code.source.rstrip().endswith("setup()"), "the first code cell imports all and ends in setup()"
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert text.count("**Predict") >= 2, "ask for two predictions at least: '**Predict:** …', before each reveal"
    assert "## Recap" in cells[-1].source, "the last cell is '## Recap'; exercises stand before it"


def test_a_page_keeps_to_the_form(path) -> None:
    notebook = load(path)
    assert notebook.metadata.course.study <= 65, "an hour for a reader who works alone: cut, or fold"
    assert 2 <= form.predictions(notebook) <= 7, "two to seven predictions; what cannot be derived is 'Look for'"
    own = [cell for cell in code_cells(notebook)[1:] if not is_exercise(cell)]
    long = [cell.id for cell in own if form.visible_code(cell) > 12]
    assert not long, (
        "twelve lines that are worth reading; fold the rest (hide-input), or call a figure of course_lib.figures"
    )
    assert not [cell.id for cell in own if "verdict(" in cell.source and "hide-cell" not in cell.metadata.tags], (
        "verdicts stand together in one closing fold, tagged hide-cell"
    )


def test_cells_are_few_short_and_named_once(path) -> None:
    notebook = load(path)
    long = [cell.id for cell in code_cells(notebook) if len(cell.source.splitlines()) > 25]
    assert not long, "over 25 lines: shorten these cells, or move their code to the library"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells), "two cells have one id"
    own = [cell for cell in notebook.cells if not is_exercise(cell)]
    assert 12 <= len(own) <= 50, "a lecture has 12 to 50 cells besides its exercises"
    code = len(code_cells(notebook))
    assert len(notebook.cells) - code >= code, "more code cells than markdown cells: say more, or join some code"


def test_an_exercise_takes_no_name_of_the_page(path) -> None:
    own = "\n".join(cell.source for cell in code_cells(load(path)) if not is_exercise(cell))
    for name, exercise in exercises().items():
        assert exercise.lecture != path.name[:2] or not re.search(rf"\b{name}\b", own), (
            f"the page's own code holds the word {name!r} (code, text or comment): rename the exercise or the word"
        )


def test_every_picture_says_what_it_shows(path) -> None:
    for cell in code_cells(load(path)):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                assert re.search(r"(figure|picture)[^\]]*\] \S+ \S+ \S+", output.data["text/plain"]), (
                    f"cell {cell.id}: pass an alt of three words or more to style.picture, explore or the clickable picture"
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


def test_a_progress_bar_is_nothing_that_a_strict_comparison_sees() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SAMPLE["progress"] + "\nprint('done')")])
    seen = []

    class Listening(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            seen.extend(list(msg["content"]["data"]) for _ in range(msg["msg_type"] == "display_data"))
            return super().process_message(msg, cell, cell_index)

    Listening(notebook, store_widget_state=False).execute()
    assert seen == [["application/vnd.jupyter.widget-view+json"]]  # nbval passes over it
    bar, text = notebook.cells[0].outputs
    assert (bar.data, text.text) == ({}, "done\n")  # and of what is saved nothing is shown


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

    quick = load(path)
    quick.cells = [cells["text"], cells["time"]]  # those that import no library
    nbformat.write(quick, path)
    assert notebooks.refresh(path, fresh=True)
    edited = load(path)
    before = edited.cells[1].outputs
    assert before != cells["time"].outputs
    edited.cells[1].source += "\n# edited"
    nbformat.write(edited, path)
    assert notebooks.refresh(path)
    assert load(path).cells[1].outputs != before

"""A lecture in JupyterLab in a real Chromium: run all cells, click, type, move a slider, use the keys, read the change."""

from collections.abc import Iterator

import nbformat
import pytest
from browsing import OPEN, errors_shown, jupyterlab, open_lecture, run_all_cells, wait_for_kernel

from course_lib.publish import notebooks, working_copy

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """JupyterLab over a student's copy and lecture 02, up to its first clickable picture and its first explorer."""
    root, path = tmp_path_factory.mktemp("lab"), notebooks.lecture("02")
    lecture = nbformat.read(path, as_version=4)
    shown = [str([o.get("data", {}).get("text/plain") for o in cell.get("outputs", [])]) for cell in lecture.cells]
    kinds = ("[clickable picture]", "[interactive figure")
    lecture.cells = lecture.cells[: 1 + max(next(i for i, text in enumerate(shown) if kind in text) for kind in kinds)]
    nbformat.write(lecture, root / path.name)
    working_copy.bring(root / "work")
    with jupyterlab(browser, root, f"lab/tree/{path.name}", {}) as page:
        yield page


def test_a_lecture_runs_and_its_figures_answer(lab) -> None:
    run_all_cells(lab)
    assert errors_shown(lab) == 0
    assert lab.locator(".Toastify__toast").count() == 0, "JupyterLab asks whether to fetch news"

    stepper = lab.locator(f"{OPEN} .course-clickable").first
    stepper.scroll_into_view_if_needed()
    stepper.get_by_label("one step forward").first.click()
    stepper.get_by_text("(m, ℓ) = (3, 1.000)").wait_for()
    field = stepper.get_by_label("scores", exact=True)
    field.fill("1, 1")
    stepper.locator(".stepper").focus()
    lab.keyboard.press("End")
    stepper.get_by_text("(m, ℓ) = (1, 2.000)").wait_for()
    field.fill("1, abc")
    stepper.get_by_role("alert").filter(has_text="‘abc’ is not a number; type for example 3, 2, 5, 1").wait_for()

    explorer = lab.locator(f"{OPEN} .course-explorer").first
    explorer.scroll_into_view_if_needed()
    before = explorer.locator("img").get_attribute("src")
    handle = explorer.locator(".noUi-handle").first
    handle.focus()
    handle.press("ArrowRight")
    changed = f"([old]) => document.querySelector('{OPEN} .course-explorer img').src !== old"
    lab.wait_for_function(changed, arg=[before])


def test_a_page_of_the_students_copy_is_opened_and_not_changed(lab) -> None:
    open_lecture(lab, f"work/{notebooks.lecture('05').name}")
    wait_for_kernel(lab, "idle")
    lab.wait_for_timeout(1_500)
    assert lab.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty") is False

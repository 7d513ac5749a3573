"""Lectures in JupyterLab in a real Chromium: run all cells, click, type, move a slider, use the keys, read the change."""

import pytest
from browsing import OPEN, errors_shown, open_lecture, run_all_cells, wait_for_kernel

from course_lib.publish import notebooks

pytestmark = pytest.mark.browser


def run(page, number: str):
    """Open a lecture and run it; what it shows."""
    open_lecture(page, f"notebooks/{notebooks.lecture(number).name}")
    run_all_cells(page)
    assert errors_shown(page) == 0
    return page.locator(OPEN)


def test_the_first_lecture_is_served_and_its_first_explorer_moves(lab) -> None:
    explorer = run(lab, "00").locator(".course-explorer").first
    assert lab.locator(".Toastify__toast").count() == 0, "JupyterLab asks whether to fetch news"
    explorer.scroll_into_view_if_needed()
    before = explorer.locator("img").get_attribute("src")
    handle = explorer.locator(".noUi-handle").first
    handle.focus()
    handle.press("ArrowRight")
    changed = f"([old]) => document.querySelector('{OPEN} .course-explorer img').src !== old"
    lab.wait_for_function(changed, arg=[before])


SLOW = """import gc, time
from course_lib.widgets import Explorer
shown = next(x for x in gc.get_objects() if issubclass(type(x), Explorer))
draw, drawn = shown._draw, []
def slowly(axes, sharpness, query):
    time.sleep(2)
    drawn.append(query)
    if len(drawn) == 2:
        raise RuntimeError("a fault")
    return draw(axes, sharpness, query)
shown._draw = slowly"""
EXECUTE = """async code => {
  const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
  const reply = await kernel.requestExecute({ code }).done;
  if (reply.content.status !== "ok") throw Error(reply.content.evalue);
}"""


def test_a_slow_explorer_dims_and_says_so_until_it_has_drawn(lab) -> None:
    explorer = run(lab, "00").locator(".course-explorer").first
    lab.evaluate(EXECUTE, SLOW)
    explorer.scroll_into_view_if_needed()
    picture = explorer.locator("img")
    changed = f"([old]) => document.querySelector('{OPEN} .course-explorer img').src !== old"
    looks = f"""([opacity, words]) => {{
      const explorer = document.querySelector('{OPEN} .course-explorer');
      return getComputedStyle(explorer.querySelector('img')).opacity === opacity
        && getComputedStyle(explorer, '::after').content === words;
    }}"""
    handle = explorer.locator(".noUi-handle").nth(1)
    handle.focus()
    for key in ("ArrowRight", "ArrowRight", "Home"):  # the second drawing fails
        before = picture.get_attribute("src")
        handle.press(key)
        lab.wait_for_function(looks, arg=["0.35", '"computing…"'])
        lab.wait_for_function(looks, arg=["1", "none"])
    lab.wait_for_function(changed, arg=[before])


def test_lecture_02_takes_typed_scores(lab) -> None:
    stepper = run(lab, "02").locator(".course-clickable").first
    stepper.scroll_into_view_if_needed()
    stepper.get_by_label("one step forward").first.click()
    stepper.get_by_text("(m, ℓ) = (3, 1.000)").wait_for()
    stepper.locator(".stepper").focus()
    lab.keyboard.press("End")
    stepper.get_by_text("(m, ℓ) = (5, 1.203)").wait_for()

    field = stepper.get_by_label("scores", exact=True)
    field.fill("1, 1")
    stepper.locator(".stepper").focus()
    lab.keyboard.press("End")
    stepper.get_by_text("(m, ℓ) = (1, 2.000)").wait_for()
    field.fill("1, abc")
    stepper.get_by_role("alert").filter(has_text="‘abc’ is not a number; type for example 3, 2, 5, 1").wait_for()


@pytest.mark.weekly  # without a kernel: test_tile_explorer.py
def test_lecture_03_shows_the_terms_of_a_clicked_tile(lab) -> None:
    picture = run(lab, "03").locator(".course-clickable").first
    picture.scroll_into_view_if_needed()
    picture.locator('[data-tile="C:0,0"]').click()
    picture.get_by_text("term 1: A(0,0)·B(0,0)").wait_for()
    picture.get_by_text("term 2: A(0,1)·B(1,0)").wait_for()
    picture.get_by_text("sum = [6 7; 26 27]").wait_for()


@pytest.mark.weekly  # without a kernel: test_tile_explorer.py
def test_lecture_06_counts_the_writes_of_both_orders(lab) -> None:
    picture = run(lab, "06").locator(".course-clickable").first
    picture.scroll_into_view_if_needed()
    for order, writes in (("V1", "16"), ("V2", "4")):
        picture.get_by_label("algorithm", exact=True).select_option(label=order)
        picture.locator(".tiles").focus()
        lab.keyboard.press("End")
        picture.locator('tr[data-tensor="O"] td[data-count="stores"]').filter(has_text=writes).wait_for()


@pytest.mark.parametrize(
    ("folder", "changed"), [("work", False), pytest.param("notebooks", True, marks=pytest.mark.weekly)]
)
def test_a_page_of_the_students_copy_is_opened_and_not_changed(lab, folder, changed) -> None:
    """The originals are: JupyterLab writes the kernel's version into them."""
    open_lecture(lab, f"{folder}/{notebooks.lecture('05').name}")
    wait_for_kernel(lab, "idle")
    lab.wait_for_timeout(1_500)
    assert lab.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty") is changed

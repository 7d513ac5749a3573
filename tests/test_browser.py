"""Lectures in JupyterLab in a real Chromium: run all cells, click, type, move a slider, use the keys, read the change."""

import pytest
from browsing import idle, open_and_run

from course_lib.publish import notebooks

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("lab")]  # one JupyterLab for all of them


def lecture(number: str):
    return next(path for path in notebooks.lectures() if path.name.startswith(number))


def no_errors(page) -> None:
    idle(page)
    assert page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    assert page.locator(".course-clickable, .course-explorer").count() > 0


def test_the_first_lecture_is_served_and_its_first_explorer_moves(browser, lab) -> None:
    page = open_and_run(browser, lab, notebooks.lectures()[0])
    assert page.locator(".Toastify__toast").count() == 0, "JupyterLab asks whether to fetch news"
    explorer = page.locator(".course-explorer").first
    explorer.scroll_into_view_if_needed()
    before = explorer.locator("img").get_attribute("src")
    handle = explorer.locator(".noUi-handle").first
    handle.focus()
    handle.press("ArrowRight")
    page.wait_for_function("([old]) => document.querySelector('.course-explorer img').src !== old", arg=[before])
    page.close()


def test_lecture_02_takes_typed_scores(browser, lab) -> None:
    page = open_and_run(browser, lab, lecture("02"))
    stepper = page.locator(".course-clickable").first
    stepper.scroll_into_view_if_needed()
    stepper.get_by_label("one step forward").first.click()
    stepper.get_by_text("(m, ℓ) = (3, 1.000)").wait_for()
    stepper.locator(".stepper").focus()
    page.keyboard.press("End")
    stepper.get_by_text("(m, ℓ) = (5, 1.203)").wait_for()

    field = stepper.get_by_label("scores", exact=True)
    field.fill("1, 1")
    stepper.locator(".stepper").focus()
    page.keyboard.press("End")
    stepper.get_by_text("(m, ℓ) = (1, 2.000)").wait_for()
    field.fill("1, abc")
    stepper.get_by_role("alert").filter(has_text="‘abc’ is not a number; type for example 3, 2, 5, 1").wait_for()
    no_errors(page)
    page.close()


def test_lecture_03_shows_the_terms_of_a_clicked_tile(browser, lab) -> None:
    page = open_and_run(browser, lab, lecture("03"))
    picture = page.locator(".course-clickable").first
    picture.scroll_into_view_if_needed()
    picture.locator('[data-tile="C:0,0"]').click()
    picture.get_by_text("term 1: A(0,0)·B(0,0)").wait_for()
    picture.get_by_text("term 2: A(0,1)·B(1,0)").wait_for()
    picture.get_by_text("sum = [6 7; 26 27]").wait_for()
    no_errors(page)
    page.close()


def test_lecture_06_counts_the_writes_of_both_orders(browser, lab) -> None:
    page = open_and_run(browser, lab, lecture("06"))
    picture = page.locator(".course-clickable").first
    picture.scroll_into_view_if_needed()
    for order, writes in (("V1", "16"), ("V2", "4")):
        picture.get_by_label("algorithm", exact=True).select_option(label=order)
        picture.locator(".tiles").focus()
        page.keyboard.press("End")
        picture.locator('tr[data-tensor="O"] td[data-count="stores"]').filter(has_text=writes).wait_for()
    page.close()


@pytest.mark.parametrize(("folder", "changed"), [("work", 0), ("notebooks", 1)])
def test_a_page_of_the_students_copy_is_opened_and_not_changed(browser, lab, folder, changed) -> None:
    """The originals are: JupyterLab writes the kernel's version into them."""
    address, token = lab
    page = (browser.contexts[0] if browser.contexts else browser.new_context()).new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{address}/lab/workspaces/{folder}/tree/{folder}/05_flash_online.ipynb?token={token}")
    page.wait_for_selector(".jp-KernelName:has-text('Python 3')")
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    page.wait_for_timeout(1_500)
    assert page.locator(".lm-TabBar-tab.jp-mod-dirty").count() == changed
    page.close()

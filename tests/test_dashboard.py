"""A lecture's widgets alone, served by Voilà, in a real Chromium."""

import nbformat
import pytest
from browsing import free_port, served

from course_lib import dashboard, notebooks

LECTURE = notebooks.lecture("00")


def widgets(kind: str) -> int:
    outputs = [o for cell in nbformat.read(LECTURE, 4).cells for o in cell.get("outputs", [])]
    return sum(str(o.get("data", {}).get("text/plain", "")).startswith(kind) for o in outputs)


def test_a_dashboard_runs_all_code_and_shows_widgets_under_their_headings() -> None:
    lecture = nbformat.read(LECTURE, 4)
    made = dashboard.dashboard(lecture)
    shown = [cell for cell in made.cells if cell.cell_type == "code" and not cell.source.startswith("%%capture")]
    assert len(shown) == widgets("[interactive figure") + widgets("[clickable picture]")
    own = [c.source for c in lecture.cells if c.cell_type == "code" and "exercise" not in c.metadata.get("tags", [])]
    assert [c.source.removeprefix("%%capture\n") for c in made.cells if c.cell_type == "code"] == own
    assert made.cells[0].source == "# 00 · Start here"


@pytest.mark.browser
def test_it_is_served_and_a_slider_moves(browser, tmp_path) -> None:
    path = tmp_path / LECTURE.name
    nbformat.write(dashboard.dashboard(nbformat.read(LECTURE, 4)), path)
    address = f"http://127.0.0.1:{(port := free_port())}/"
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    with served(dashboard.command(path, "--no-browser", f"--port={port}"), address, tmp_path / "log", seconds=120):
        page.goto(address, timeout=120_000)
        page.wait_for_selector(".course-explorer .noUi-handle", timeout=120_000)
        assert page.locator(".course-explorer").count() == widgets("[interactive figure")
        assert page.locator(".course-clickable").count() == widgets("[clickable picture]")
        assert page.locator(".jp-CodeCell .jp-InputArea-editor:visible").count() == 0
        explorer = page.locator(".course-explorer").first
        before = explorer.locator("img").get_attribute("src")
        explorer.locator(".noUi-handle").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("([old]) => document.querySelector('.course-explorer img').src !== old", arg=[before])
        page.screenshot(path=str(tmp_path / "dashboard.png"), full_page=True)
    page.close()

"""A lecture presented in JupyterLab on a 1280×720 screen: every slide walked, none taller than the screen, widgets alive inside."""

from collections.abc import Iterator

import pytest
from browsing import SHOWN, errors_shown, jupyterlab, open_lecture, run_all_cells

from course_lib.publish import notebooks, present, slides

pytestmark = pytest.mark.browser
LECTURES = [path.name[:2] for path in notebooks.lectures()]
LIVE = ("00",)  # each time; weekly all. test_site.py measures every slide in reveal.js each time
# Run in the page: what the screen shows, and the way to a cell: the arrow is clicked once it is alive, and the cell waited for.
SCREEN = """
const shown = () => {
  const cells = [...document.querySelectorAll('.jp-deck-mod-visible')].filter(cell => cell.offsetHeight > 0);
  const boxes = cells.map(cell => cell.getBoundingClientRect());
  return {
    words: cells.map(cell => cell.innerText).join(' ').slice(0, 60),
    top: Math.min(...boxes.map(box => box.top)),
    bottom: Math.max(...boxes.map(box => box.bottom)),
    right: Math.max(...boxes.map(box => box.right)),
  };
};
const until = async (found, tries = 1000) => {
  for (let i = 0; i < tries; i++) {
    const now = found();
    if (now) return now;
    await new Promise(done => setTimeout(done, 10));
  }
};
const drawn = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
const active = () =>
  document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-mod-active')?.dataset.windowedListIndex;
"""
WALK_ON = f"""async ([cell, way]) => {{ {SCREEN}
  if (Number(active()) >= Number(cell)) return shown();  // a slider in that cell of the slide has been used
  const arrow = await until(() => document.querySelector(`.jp-deck-mod-direction-${{way}}:not(.jp-mod-disabled)`));
  if (!arrow) throw Error(`no way ${{way}} to cell ${{cell}}`);
  arrow.click();
  if (!await until(() => active() === cell)) throw Error(`${{way}} to cell ${{cell}} ended at ${{active()}}`);
  await drawn();
  await drawn();
  return shown();
}}"""
WALK_BACK = f"""async () => {{ {SCREEN}
  const alive = way => document.querySelector(`.jp-deck-mod-direction-${{way}}:not(.jp-mod-disabled)`);
  for (let i = 0; i < 200 && active() !== '0'; i++) {{
    const from = active();
    (alive('back') ?? alive('up'))?.click();
    await until(() => active() !== from, 50);
  }}
  if (active() !== '0') throw Error(`no way back from cell ${{active()}}`);
}}"""
PRESENTED = f"path => ({SHOWN})(path) && window.jupyterapp.shell.currentWidget.hasClass('jp-Deck')"


def steps(number: str) -> list[tuple[str, str]]:
    """Each cell after the first that the arrows come to, and the arrow: a slide lies to the right, all else below."""
    cells = slides.deck(notebooks.lecture(number)).cells
    kinds = [(str(i), cell.metadata.get("slideshow", {}).get("slide_type")) for i, cell in enumerate(cells)]
    return [(i, "forward" if kind == "slide" else "down") for i, kind in kinds if kind != "skip"][1:]


@pytest.fixture(scope="module")
def screen(browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """JupyterLab as `make present` starts it, over all lectures, loaded once, on the projector."""
    folder = tmp_path_factory.mktemp("hall")
    for path in notebooks.lectures():
        environment = present.prepare(folder, path)
    first = notebooks.lectures()[0].name
    with jupyterlab(browser, folder, f"doc/tree/{first}", environment, slides.WIDTH, slides.HEIGHT) as page:
        page.wait_for_function(PRESENTED, arg=first)
        yield page


def presented(screen, number: str):
    """A lecture as the projector shows it: one more document on the same screen, run, at its first slide."""
    path = notebooks.lecture(number).name
    open_lecture(screen, path)
    screen.wait_for_function(PRESENTED, arg=path)
    run_all_cells(screen)
    screen.evaluate(WALK_BACK)
    screen.wait_for_selector(".jp-deck-mod-visible h1:visible")
    return screen


def slid(page) -> bool | None:
    """Whether a slider on this slide, moved by keys, has brought another picture; None where there is no slider."""
    handle = page.locator(".jp-deck-mod-visible .course-explorer .noUi-handle:visible").first
    if not handle.count():
        return None
    picture = page.locator(".jp-deck-mod-visible .course-explorer img:visible").first
    before = picture.get_attribute("src")
    handle.focus()
    for key in ("Home", "End"):
        handle.press(key)
        for _ in range(15):
            page.wait_for_timeout(100)
            if picture.get_attribute("src") != before:
                return True
    return False


@pytest.mark.parametrize("number", [n if n in LIVE else pytest.param(n, marks=pytest.mark.weekly) for n in LECTURES])
def test_a_lecture_is_presented_live(screen, number) -> None:
    page = presented(screen, number)
    moved, shown = set(), []
    for step in steps(number):
        shown.append(page.evaluate(WALK_ON, step))
        if True not in moved:
            moved.add(slid(page))
    assert True in moved or False not in moved, "no slider moves its picture"
    assert errors_shown(page) == 0
    for now in shown:
        assert now["top"] >= -1, now
        assert max(now["bottom"] - slides.HEIGHT, now["right"] - slides.WIDTH) <= 1, now

"""Lectures presented in JupyterLab on a 1280×720 screen: every slide walked, none taller than the screen, widgets alive inside."""

import secrets
from collections.abc import Iterator

import pytest
from browsing import SHOWN, errors_shown, free_port, open_lecture, run_all_cells, served

from course_lib.publish import notebooks, present, slides

pytestmark = pytest.mark.browser
LECTURES = [path.name[:2] for path in notebooks.lectures()]
LIVE = ("05",)  # each time; weekly all. test_site.py measures every slide in reveal.js each time
# Run in the page: what the screen shows, and the way to a cell: the arrow is clicked once it is alive, and the cell waited for.
SCREEN = """
const shown = () => {
  const cells = [...document.querySelectorAll('.jp-deck-mod-visible')].filter(cell => cell.offsetHeight > 0);
  const boxes = cells.map(cell => cell.getBoundingClientRect());
  return {
    cells: cells.map(cell => cell.dataset.windowedListIndex).join(),
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
const walk = async ([cell, way]) => {
  if (Number(active()) >= Number(cell)) return shown();  // a slider in that cell of the slide has been used
  const arrow = await until(() => document.querySelector(`.jp-deck-mod-direction-${way}:not(.jp-mod-disabled)`));
  if (!arrow) throw Error(`no way ${way} to cell ${cell}`);
  arrow.click();
  if (!await until(() => active() === cell)) throw Error(`${way} to cell ${cell} ended at ${active()}`);
  await drawn();
  await drawn();
  return shown();
};
"""
WALK = f"async steps => {{ {SCREEN} const all = [shown()]; for (const step of steps) all.push(await walk(step)); return all; }}"
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
WALK_ON = f"async step => {{ {SCREEN} return await walk(step); }}"


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
    port, token = free_port(), secrets.token_hex(16)
    flags = ["--no-browser", f"--port={port}", f"--IdentityProvider.token={token}", "--expose-app-in-browser"]
    first, address = notebooks.lectures()[0].name, f"http://127.0.0.1:{port}"
    command = present.command(folder, first, *flags)
    with served(command, f"{address}/api/kernelspecs?token={token}", folder / "log", env=environment):
        page = browser.new_page(viewport={"width": slides.WIDTH, "height": slides.HEIGHT})
        page.set_default_timeout(60_000)
        page.goto(f"{address}/doc/tree/{first}?token={token}")
        page.wait_for_function(PRESENTED, arg=first)
        yield page
        page.close()


@pytest.fixture
def show(screen):
    """Open a lecture as the projector shows it: one more document on the same screen, presented from its first slide."""

    def present_lecture(number: str):
        path = notebooks.lecture(number).name
        open_lecture(screen, path)
        screen.wait_for_function(PRESENTED, arg=path)
        arrows = ", ".join(f".jp-deck-mod-direction-{way}:not(.jp-mod-disabled)" for way in ("forward", "back", "up"))
        screen.wait_for_selector(arrows)
        screen.evaluate(WALK_BACK)
        screen.wait_for_selector(".jp-deck-mod-visible h1:visible")
        screen.wait_for_timeout(500)
        return screen

    return present_lecture


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


def too_tall(shown: list[dict]) -> list[str]:
    return [
        f"{now['words']}: {now['top']:.0f} to {now['bottom']:.0f}"
        for now in shown
        if now["top"] < -1 or now["bottom"] > slides.HEIGHT + 1 or now["right"] > slides.WIDTH + 1
    ]


@pytest.mark.weekly
@pytest.mark.parametrize("number", LECTURES)
def test_no_slide_is_taller_than_the_screen(show, number) -> None:
    shown = show(number).evaluate(WALK, steps(number))
    assert {index for now in shown for index in now["cells"].split(",")} == {"0", *(cell for cell, _ in steps(number))}
    assert not too_tall(shown)


@pytest.mark.parametrize("number", [n if n in LIVE else pytest.param(n, marks=pytest.mark.weekly) for n in LECTURES])
def test_a_lecture_is_presented_live(show, number) -> None:
    page = show(number)
    run_all_cells(page)
    moved, shown = set(), []
    page.evaluate(WALK_BACK)
    for step in steps(number):
        shown.append(page.evaluate(WALK_ON, step))
        if True not in moved:
            moved.add(slid(page))
    assert True in moved or False not in moved, "no slider moves its picture"
    assert errors_shown(page) == 0
    assert not too_tall(shown)

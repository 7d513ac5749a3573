"""The book and the slides, built and opened from files with the network cut: search, a phone, accessibility, live pictures."""

import functools
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from browsing import OF_NO_FAULT, PROJECTOR, offline_page

from course_lib import data
from course_lib.exercises.exercise import efforts, exercises
from course_lib.publish import book, decks, ledger, notebooks, slides, web

pytestmark = pytest.mark.browser
LECTURES = {path.name[:2]: path for path in notebooks.lectures()}
# Of each slide where its words, pictures and listings end, and which of them do not fit their own box.
SLIDES = """() => Reveal.getSlides().map((slide, i) => {
  Reveal.slide(i);
  const all = [...slide.querySelectorAll(".words, .words *, .picture *, .code *")]
    .filter(one => one.offsetHeight || one.tagName === "svg");
  const boxes = all.filter(one => !one.parentElement.closest(".course-clickable")).map(one => one.getBoundingClientRect());
  return {
    words: slide.innerText.slice(0, 60),
    bottom: Math.max(...boxes.map(box => box.bottom)), right: Math.max(...boxes.map(box => box.right)),
    cut: all.filter(one => one.clientWidth && !one.closest(".course-clickable, mjx-container, svg")
      && (one.scrollWidth > one.clientWidth + 2 || one.scrollHeight > one.clientHeight + 2)
      && one.matches(".words, .picture, .code, pre, table, .highlight")).map(one => one.className || one.tagName),
  };
})"""
SERIOUS = """rules => axe.run({ preload: false, resultTypes: ["violations"], ...(rules && { runOnly: rules }) })
  .then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => one.id + ": " + one.nodes.map(node => node.html.slice(0, 120)).slice(0, 3).join(" … ")))"""
PHONE = {"offline": True, "viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# What of an unfolded page a phone does not show: cut-off formulas, code beyond the edge, pictures that did not load, small buttons.
UNREADABLE = """() => {
  const seen = one => one.checkVisibility() && one.getBoundingClientRect().width > 0;
  const all = kind => [...document.querySelectorAll(`.bd-article ${kind}`)].filter(seen);
  const words = one => one.textContent.trim().slice(0, 40), found = [];
  for (const math of all("mjx-container > mjx-math")) {
    const right = Math.max(...[...math.children].map(part => part.getBoundingClientRect().right));
    if (!math.closest("table, .goes-on") && right > innerWidth - 10) found.push(`formula is cut off: ${words(math.parentNode)}`);
  }
  for (const code of all(".highlight pre")) {
    if (code.scrollWidth > code.clientWidth + 2) found.push(`code beyond the edge: ${words(code)}`);
  }
  for (const img of all("img")) if (!img.naturalWidth) found.push(`missing: ${img.src}`);
  for (const one of all(":is(summary, .course-clickable button, .course-clickable select)")) {
    const box = one.getBoundingClientRect();
    if (Math.min(box.width, box.height) < 32) found.push(`small to touch: ${words(one)}, ${box.width} × ${box.height}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page itself scrolls sideways");
  return found;
}"""


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pages and slides need in a browser."""
    if not web.MODULES.is_dir():
        message = "the web packages are missing: run python -m course_lib.publish.web"
        if os.environ.get("COURSE_REQUIRE_WEB") == "1":
            pytest.fail(message)
        pytest.skip(message)
    folder = tmp_path_factory.mktemp("site")
    web.copy_assets(folder / "_static")
    (folder / "slides").mkdir()
    return folder


@pytest.fixture(scope="session")
def site(assets, pytestconfig: pytest.Config) -> Path:
    """The book, built without a warning (of a link to nothing, say); only each week with the pages of source code."""
    quick = {"COURSE_BOOK_SOURCES": "0"} if "not weekly" in pytestconfig.option.markexpr else {}
    with mock.patch.dict(os.environ, quick):
        assert book.write(assets) == 0
    return assets


def typeset(page) -> None:
    """Wait until formulas stand."""
    page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
    page.evaluate("() => window.MathJax && MathJax.startup.promise")


def opened(page, path: Path):
    """The page with a page of the book, its formulas set and measured."""
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.measured")
    return page


@pytest.fixture(scope="module")
def pages(browser) -> Iterator[dict]:
    """By kind, one page for all tests, for which the browser compiles MathJax and reveal.js once, and its complaints."""
    found, contexts = {}, []
    for kind, settings in (("projector", PROJECTOR), ("phone", PHONE)):
        contexts.append(browser.new_context(**settings))
        complaints: list[str] = []
        found[kind] = offline_page(contexts[-1], complaints), complaints
    yield found
    for context in contexts:
        context.close()


@pytest.fixture
def screen(pages, request) -> Iterator:
    """The page on the projector, or another kind; console errors and requests fail the test."""
    page, complaints = pages[getattr(request, "param", "projector")]
    complaints.clear()
    yield page
    assert complaints == []


phone = pytest.mark.parametrize("screen", ["phone"], indirect=True)


@pytest.mark.parametrize("number", LECTURES)
def test_each_slide_of_a_deck_fits_the_screen(assets, screen, number) -> None:
    path = assets / "slides" / f"{number}.html"
    path.write_text(decks.deck(LECTURES[number]), encoding="utf-8")
    screen.goto(path.as_uri())
    screen.wait_for_function("window.Reveal && Reveal.isReady()")
    typeset(screen)
    found = screen.evaluate(SLIDES)
    assert len(found) == len(slides.read(LECTURES[number]))
    for slide in found:
        assert max(slide["bottom"] - slides.HEIGHT, slide["right"] - slides.WIDTH) <= 0, slide
        assert not slide["cut"], slide


def test_a_deck_alone_with_formulas_and_a_clickable_picture(assets, open_file) -> None:
    page = open_file(assets / "slides" / "alone.html", decks.deck(LECTURES["02"]))
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    typeset(page)
    assert page.locator("mjx-container").count() > 20
    page.keyboard.press("Space")
    page.locator(".slide-number", has_text="2").wait_for()
    page.evaluate("""() => {
      const at = Reveal.getIndices(document.querySelector('.course-clickable').closest('section'));
      Reveal.slide(at.h, at.v, 99);
    }""")
    picture = page.locator(".present .course-clickable").first
    picture.get_by_label("one step forward").first.click()
    picture.get_by_text("(m, ℓ) = (3, 1.000)").wait_for()


def some(number: str) -> object:
    """Three lectures each time, all each week."""
    stem = LECTURES[number].stem
    return stem if number in ("00", "06", "12") else pytest.param(stem, marks=pytest.mark.weekly)


@phone
@pytest.mark.parametrize("name", ["index", "reference/model", *map(some, LECTURES)])
def test_on_a_phone_nothing_of_a_page_is_cut_off_or_small(site, screen, name) -> None:
    page = opened(screen, site / f"{name}.html")
    page.evaluate("() => document.querySelectorAll('.bd-article details').forEach(fold => { fold.open = true })")
    page.evaluate("() => new Promise(done => setTimeout(done, 50))")  # folds tell by an event that they are open
    assert page.evaluate(UNREADABLE) == []


@phone
def test_on_a_phone_a_figure_grows_where_it_is_touched_and_the_side_bar_leads_on(site, screen) -> None:
    page = opened(screen, site / f"{LECTURES['05'].stem}.html")
    figure = page.locator("a.image-reference.shrunk:visible").first
    full = float(figure.locator("img").get_attribute("width"))
    figure.tap(position={"x": 300, "y": 40})
    assert figure.locator("img").evaluate("e => e.getBoundingClientRect().width") == full
    page.locator(".bd-header-article .primary-toggle").tap()
    page.locator("dialog[open]").get_by_role("link", name="06 · Two loop orders").tap()
    page.wait_for_url("**/06_loop_orders.html")


def test_search_finds_lectures_from_files(site, screen) -> None:
    screen.goto((site / "search.html").as_uri() + "?q=softmax")
    screen.locator(f'#search-results li a[href^="{LECTURES["02"].stem}.html"]').first.wait_for()


class _Server(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Says nothing."""


def test_from_a_server_nothing_is_missing_and_a_search_shows_excerpts(site, browser) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Server, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address, complaints = f"http://127.0.0.1:{server.server_port}/", []
        page = browser.new_page()
        page.on("console", lambda m: m.text.startswith(OF_NO_FAULT) or complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith((address, "data:")) or complaints.append(r.url))
        page.on("response", lambda r: r.status < 400 or complaints.append(f"{r.status} {r.url}"))
        for name in ("index", LECTURES["03"].stem, "reference/attention", "deploy/README"):
            page.goto(f"{address}{name}.html")
            typeset(page)
        page.goto(f"{address}search.html?q=logsumexp")
        page.locator("#search-results p.context").first.wait_for()
        page.close()
        server.shutdown()
    assert complaints == []


def test_no_page_has_a_serious_barrier(site, screen) -> None:
    for name in ("index", LECTURES["03"].stem, "claims"):
        page = opened(screen, site / f"{name}.html")
        page.evaluate((web.MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        for theme, rules in (("light", None), ("dark", ["color-contrast", "link-in-text-block"])):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            # colours change by degrees
            page.evaluate("() => Promise.all(document.getAnimations().map(one => one.finished))")
            assert page.evaluate(SERIOUS, rules) == [], f"{name}, {theme}"


def test_a_lecture_in_the_book_has_live_pictures_links_and_no_notes(site, screen) -> None:
    page = opened(screen, site / f"{LECTURES['03'].stem}.html")
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 2: A(0,1)·B(1,0)").wait_for()
    assert page.get_by_text("For the instructor").count() == page.get_by_text("not attempted").count() == 0
    assert page.get_by_role("link", name="Slides").get_attribute("href") == f"slides/{LECTURES['03'].stem}.html"
    notebook = nbformat.read(site / page.get_by_role("link", name="the notebook").get_attribute("href"), as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_terms_and_lectures_are_linked_once_and_outside_of_code_and_formulas() -> None:
    fixed = "# Softmax\n<summary>Fine print: softmax</summary>\n`softmax` $softmax$ "
    words = f"{fixed}The online softmax and a softmax, twice: softmax. See lecture 03, `03` and lecture 77, ($x$)."
    assert book.linked(words, set()) == (
        f"{fixed}The {{term}}`online softmax <online softmax>` and a {{term}}`softmax <softmax>`, twice: softmax. "
        f"See [lecture 03]({LECTURES['03'].name}), [`03`]({LECTURES['03'].name}) and lecture 77, ($x\\text{{).}}$"
    )


def test_the_ledger_holds_each_claim_with_the_verdict_of_its_findings() -> None:
    found = ledger.entries()
    assert [e.lecture.stem for e in found] == [claim["lecture"] for claim in data.claims().values()], (
        "data/claims.csv, column lecture: the stem of the notebook with the verdict, 04_flash_lite for example"
    )
    assert [entry.id for entry in found] == list(data.claims())
    for entry in found:
        speaks = re.findall(r"^  (for|against): ", entry.text, re.MULTILINE)
        assert entry.word == (
            "confirmed" if "against" not in speaks else "true in part" if "for" in speaks else "refuted"
        )


def test_the_guide_names_exercises_and_their_minutes_as_they_are() -> None:
    guide = (book.ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d\d) \| (\d+) \|", guide, re.MULTILINE)
    assert len(rows) >= 8
    for name, lecture, minutes in rows:
        assert (exercises()[name].lecture, efforts()[name][1]) == (lecture, int(minutes))
    assert f"add up to {sum(int(minutes) for *_, minutes in rows)}:" in guide

"""The book and the slides, built and opened from files with the network cut: search, dark mode, a phone, print, accessibility, pictures."""

import functools
import importlib
import inspect
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lecture_imports
import nbformat
import pytest
from browsing import OF_NO_FAULT, PROJECTOR, offline_page
from PIL import Image

from course_lib import data
from course_lib.exercises.exercise import efforts, exercises
from course_lib.publish import book, decks, ledger, moving_picture, notebooks, pictures, slides, web

pytestmark = pytest.mark.browser
LECTURES = {path.name[:2]: path for path in notebooks.lectures()}
GUIDE = book.ROOT / "docs" / "teaching.md"
SLIDES = """() => Reveal.getSlides().map((slide, i) => {
  Reveal.slide(i);
  const all = [...slide.querySelectorAll(".words, .words *, .picture *, .code *")].filter(one => one.offsetHeight || one.tagName === "svg");
  const text = all.filter(one => !one.closest(".course-clickable, mjx-container")
    && [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
  const sizes = kind => text.filter(one => !!one.closest("pre, code, table") === kind)
    .map(one => parseFloat(getComputedStyle(one).fontSize));
  const boxes = all.filter(one => !one.parentElement.closest(".course-clickable")).map(one => one.getBoundingClientRect());
  return {
    words: slide.innerText.slice(0, 60),
    prose: Math.min(99, ...sizes(false)), code: Math.min(99, ...sizes(true)),
    bottom: Math.max(...boxes.map(box => box.bottom)), right: Math.max(...boxes.map(box => box.right)),
    cut: all.filter(one => one.clientWidth && !one.closest(".course-clickable, mjx-container, svg")
      && (one.scrollWidth > one.clientWidth + 2 || one.scrollHeight > one.clientHeight + 2)
      && one.matches(".words, .picture, .code, pre, table, .highlight")).map(one => one.className || one.tagName),
    notes: slide.querySelector("aside.notes")?.textContent.trim().length ?? 0,
  };
})"""
# Space pressed through a deck: before each press the number that stands below, and how many fragments are seen.
WALK = """presses => {
  const seen = [];
  Reveal.slide(0);
  for (let i = 0; i <= presses; i++) {
    seen.push([document.querySelector(".slide-number").innerText, document.querySelectorAll(".present .fragment.visible").length]);
    document.dispatchEvent(new KeyboardEvent("keydown", { key: " ", keyCode: 32, bubbles: true }));
  }
  return seen;
}"""
SERIOUS = """rules => axe.run({ preload: false, resultTypes: ["violations"], ...(rules && { runOnly: rules }) })
  .then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => one.id + ": " + one.nodes.map(node => node.html.slice(0, 120)).slice(0, 3).join(" … ")))"""

PHONE = {"offline": True, "viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# What of an unfolded page a phone does not show: cut-off formulas, wide things that neither scroll nor say so, code beyond the edge,
# small letters and buttons.
UNREADABLE = """() => {
  const seen = one => one.checkVisibility() && one.getBoundingClientRect().width > 0;
  const all = kind => [...document.querySelectorAll(`.bd-article ${kind}`)].filter(seen);
  const words = one => one.textContent.trim().slice(0, 40), found = [];
  for (const math of all("mjx-container > mjx-math")) {
    const right = Math.max(...[...math.children].map(part => part.getBoundingClientRect().right));
    if (!math.closest("table, .goes-on") && right > innerWidth - 10) found.push(`formula is cut off: ${words(math.parentNode)}`);
  }
  for (const one of all(":is(pre, table, svg, img)")) {
    let box = one;
    while (box && box.scrollWidth <= box.clientWidth + 2) box = box.parentElement.closest(".bd-article *");
    if (box && !box.closest(".goes-on")) found.push(`no sign of more: ${words(one)}`);
  }
  for (const code of all(".highlight pre")) {
    if (code.scrollWidth > code.clientWidth + 2) found.push(`code beyond the edge: ${words(code)}`);
  }
  for (const legend of all(".tiles .legend")) {
    if (legend.offsetTop > legend.previousElementSibling.offsetTop) found.push("a legend stands below all that it explains");
  }
  for (const text of all(".course-clickable text")) {
    const { a, b } = text.getScreenCTM(), size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
    if (size < 10) found.push(`letters of ${size.toFixed(1)} pixels: ${words(text)}`);
  }
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
        message = "the web packages are missing: run make web"
        if os.environ.get("COURSE_REQUIRE_WEB") == "1":
            pytest.fail(message)
        pytest.skip(message)
    folder = tmp_path_factory.mktemp("site")
    web.copy_assets(folder / "_static")
    (folder / "slides").mkdir()
    return folder


@pytest.fixture(scope="session")
def site(assets) -> Path:
    """The book, built without a warning, and nothing else beside it."""
    beside = set(assets.parent.iterdir())
    assert book.write(assets) == 0
    assert set(assets.parent.iterdir()) == beside
    return assets


def with_picture() -> Path:
    """A lecture with a clickable picture."""
    return next(p for p in LECTURES.values() if any("clickable" in o.metadata for o in _outputs(p) if "metadata" in o))


def _outputs(path: Path) -> list:
    return [o for cell in nbformat.read(path, as_version=4).cells for o in cell.get("outputs", [])]


def typeset(page) -> None:
    """Wait until formulas stand."""
    page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
    page.evaluate("() => window.MathJax && MathJax.startup.promise")


def opened(page, path: Path):
    """The page with a page of the book, its formulas set and measured; one that is there stays."""
    if page.url != path.as_uri():
        page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.measured")
    return page


@pytest.fixture(scope="module")
def projector(browser) -> Iterator[tuple]:
    """One page for all decks and most pages, for which the browser compiles MathJax and reveal.js once, and what is to be complained of."""
    context, complaints = browser.new_context(**PROJECTOR), []
    yield offline_page(context, complaints), complaints
    context.close()


@pytest.fixture
def screen(projector) -> Iterator:
    """The page on the projector; console errors and requests fail the test."""
    page, complaints = projector
    complaints.clear()
    page.emulate_media(media="screen")
    page.set_viewport_size(PROJECTOR["viewport"])
    yield page
    assert complaints == []


@pytest.mark.parametrize("number", LECTURES)
def test_each_slide_can_be_read_from_the_back_of_a_room(assets, screen, number) -> None:
    path = assets / "slides" / f"{number}.html"
    path.write_text(decks.deck(LECTURES[number]), encoding="utf-8")
    screen.goto(path.as_uri())
    screen.wait_for_function("window.Reveal && Reveal.isReady()")
    typeset(screen)
    found, written = screen.evaluate(SLIDES), slides.read(LECTURES[number])
    assert len(found) == len(written)
    for slide in found:
        assert max(slide["bottom"] - slides.HEIGHT, slide["right"] - slides.WIDTH) <= 0, slide
        assert not slide["cut"], slide
        assert slide["prose"] >= 24, slide
        assert slide["code"] >= 20, slide
        assert slide["notes"], slide
    due = [
        [f"{n} / {len(found)}", shown]
        for n, slide in enumerate(written, start=1)
        for shown in range(2 if slide.cell else 1)
    ]
    assert screen.evaluate(WALK, len(due)) == [*due, due[-1]]
    assert len({slide["words"] for slide in found}) == len(found), "two slides look alike"


def test_a_deck_alone_with_fonts_formulas_and_a_clickable_picture(assets, open_file) -> None:
    page = open_file(assets / "slides" / "02.html", decks.deck(LECTURES["02"]))
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


PAGES = ("index", "lecture", "reference/model")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_on_a_screen_on_a_phone_in_the_dark_and_on_paper(site, screen, name) -> None:
    lecture = with_picture().stem
    page = opened(screen, site / f"{lecture if name == 'lecture' else name}.html")
    assert page.evaluate("() => document.fonts.ready.then(() => document.fonts.check('18px \"Source Sans 3\"'))")
    for wide, tall in ((slides.WIDTH, slides.HEIGHT), (390, 844)):
        page.set_viewport_size({"width": wide, "height": tall})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"wider than {wide} pixels"
    page.set_viewport_size({"width": slides.WIDTH, "height": slides.HEIGHT})
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    paper = [page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")]
    paper += page.locator(".bd-article .course-clickable").evaluate_all(
        "all => all.map(e => getComputedStyle(e).backgroundColor)"
    )
    assert len(set(paper)) == 1
    outputs = page.locator(".bd-article .cell_output .text_html")
    assert set(outputs.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")) <= {"rgba(0, 0, 0, 0)"}
    figures = page.locator(".bd-article .cell_output img")
    assert set(figures.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")) <= {
        "rgb(255, 255, 255)"
    }
    assert figures.evaluate_all("all => all.filter(e => !e.alt || e.naturalWidth === 0).map(e => e.src)") == []
    page.emulate_media(media="print")
    for navigation in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article", ".prev-next-footer"):
        assert not any(one.is_visible() for one in page.locator(navigation).all()), navigation
    assert page.locator("h1:visible").count() == 1


@pytest.fixture(scope="module")
def in_the_pocket(browser) -> Iterator[tuple]:
    """One page on a phone for all lectures, and what is to be complained of."""
    context, complaints = browser.new_context(**PHONE), []
    yield offline_page(context, complaints), complaints
    context.close()


@pytest.fixture
def phone(in_the_pocket) -> Iterator:
    """The page on the phone; console errors and requests fail the test."""
    page, complaints = in_the_pocket
    complaints.clear()
    yield page
    assert complaints == []


@pytest.mark.parametrize("number", LECTURES)
def test_on_a_phone_nothing_of_a_lecture_is_cut_off_or_small(site, phone, number) -> None:
    page = opened(phone, site / f"{LECTURES[number].stem}.html")
    page.evaluate("() => document.querySelectorAll('.bd-article details').forEach(fold => { fold.open = true })")
    page.evaluate("() => new Promise(done => setTimeout(done, 50))")  # folds tell by an event that they are open
    assert page.evaluate(UNREADABLE) == []


def test_on_a_phone_a_figure_grows_where_it_is_touched_and_shrinks_again(site, phone) -> None:
    page = opened(phone, site / f"{LECTURES['05'].stem}.html")
    figure = page.locator("a.image-reference.shrunk:visible").first
    full = float(figure.locator("img").get_attribute("width"))
    figure.tap(position={"x": 300, "y": 40})
    assert figure.locator("img").evaluate("e => e.getBoundingClientRect().width") == full
    assert figure.evaluate("e => e.scrollLeft") > 100
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    figure.tap(position={"x": 100, "y": 40})
    assert figure.locator("img").evaluate("e => e.getBoundingClientRect().width") <= PHONE["viewport"]["width"]


def test_on_a_phone_both_side_bars_open_and_lead_on(site, phone) -> None:
    page = opened(phone, site / f"{LECTURES['05'].stem}.html")
    page.locator(".bd-header-article .primary-toggle").tap()
    page.locator("dialog[open]").get_by_role("link", name="06 · Two loop orders").tap()
    page.wait_for_url("**/06_loop_orders.html")
    page.wait_for_function("document.documentElement.dataset.measured")
    page.locator(".bd-header-article .secondary-toggle").tap()
    page.locator("dialog[open]").get_by_role("link", name="Your turn").tap()
    page.wait_for_function("scrollY > 1000 && !document.querySelector('dialog[open]')")


def test_search_and_next_lead_through_the_course(site, screen) -> None:
    page = screen
    page.goto((site / "search.html").as_uri() + "?q=logsumexp")
    page.locator("#search-results li a").first.wait_for()
    found = page.locator("#search-results li a").evaluate_all(
        "all => all.map(a => a.getAttribute('href').split('?')[0])"
    )
    assert {path.stem + ".html" for path in LECTURES.values()} & {one.split("#")[0] for one in found}
    page.goto((site / "index.html").as_uri())
    for path in LECTURES.values():
        assert page.get_by_role("link", name=notebooks.about(path)["title"]).count() > 0
    page.locator("a.right-next").click()
    page.locator("a.left-prev").wait_for()
    walked = [Path(page.url).stem]
    while after := re.search(
        r'rel="next" [^>]*href="([^"]*)"', (site / f"{walked[-1]}.html").read_text(encoding="utf-8")
    ):
        walked.append(os.path.normpath(Path(walked[-1]).parent / after[1]).removesuffix(".html"))
    assert walked[: len(LECTURES)] == [path.stem for path in LECTURES.values()]
    assert {"glossary", "reference/model", "claims", "docs/teaching"} <= set(walked)


class _Server(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Says nothing."""


def test_from_a_server_nothing_is_missing_and_a_search_shows_excerpts(site, browser) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Server, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address, complaints = f"http://127.0.0.1:{server.server_port}/", []
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("console", lambda m: m.text.startswith(OF_NO_FAULT) or complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith((address, "data:")) or complaints.append(r.url))
        page.on("response", lambda r: r.status < 400 or complaints.append(f"{r.status} {r.url}"))
        loaded: set[str] = set()
        page.on("request", lambda r: loaded.add(r.url.removeprefix(address).partition("?")[0]))
        for name in ("index", with_picture().stem, "reference/attention", "deploy/README"):
            page.goto(f"{address}{name}.html")
            typeset(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name}: wider than a phone"
            if name == "index":
                assert sum((site / file).stat().st_size for file in loaded if (site / file).is_file()) < 3_300_000
                assert page.locator(".bd-header-article button:visible svg path").count() >= 3, "icons"
        page.goto(f"{address}search.html?q=logsumexp")
        page.locator("#search-results p.context").first.wait_for()
        page.close()
        server.shutdown()
    assert complaints == []


def test_no_page_has_a_serious_barrier(site, screen) -> None:
    for name in ("index", with_picture().stem, "glossary", "claims", "search"):
        page = opened(screen, site / f"{name}.html")
        page.evaluate((web.MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        for theme, rules in (
            ("light", None),
            ("dark", ["color-contrast", "link-in-text-block"]),
        ):  # the others see no colours
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            page.evaluate(
                "() => Promise.all(document.getAnimations().map(one => one.finished))"
            )  # colours change by degrees
            assert page.evaluate(SERIOUS, rules) == [], f"{name}, {theme}"


def test_a_lecture_in_the_book_has_live_pictures_links_and_no_notes(site, screen) -> None:
    page = opened(screen, site / f"{LECTURES['03'].stem}.html")
    assert page.locator("mjx-container").count() > 10
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 2: A(0,1)·B(1,0)").wait_for()
    moved = sum("[interactive figure" in str(o.get("data", {}).get("text/plain")) for o in _outputs(LECTURES["03"]))
    assert page.get_by_text("To move its controls").count() == moved > 0
    assert page.locator(".text_html:has(> .note) + .image-reference").count() == moved, (
        "the line stands above its figure"
    )
    assert page.get_by_text("For the instructor").count() == 0
    assert page.get_by_text("No cell runs in the book").count() == 1
    assert page.get_by_text("not attempted").count() == page.get_by_text("noqa").count() == 0
    folds = page.locator("summary", has_text="Show code cell content").all_inner_texts()
    assert len(set(folds)) == len(folds) > 1, "folds of the same name"
    assert page.get_by_role("link", name="Slides").get_attribute("href") == f"slides/{LECTURES['03'].stem}.html"
    notebook = nbformat.read(site / page.get_by_role("link", name="the notebook").get_attribute("href"), as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_terms_and_lectures_are_linked_once_and_outside_of_code_and_formulas() -> None:
    seen: set[str] = set()
    fixed = "# Softmax\n<summary>Fine print: softmax</summary>\n`softmax` $softmax$ "
    words = f"{fixed}The online softmax and a softmax, twice: softmax. See lecture 03, `03` and lecture 77, ($x$)."
    assert book.linked(words, seen) == (
        f"{fixed}The {{term}}`online softmax <online softmax>` and a {{term}}`softmax <softmax>`, twice: softmax. "
        f"See [lecture 03]({LECTURES['03'].name}), [`03`]({LECTURES['03'].name}) and lecture 77, ($x\\text{{).}}$"
    )
    assert seen == {"online softmax", "softmax"}


def test_the_reference_has_what_lectures_import(site) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    used = lecture_imports.used(notebooks.lectures())
    assert len(used) > 20
    for module, names in used.items():
        assert f'id="module-{module}"' in text, f"add {module} to a page of docs/book/reference"
        for name in names:
            found = inspect.unwrap(getattr(importlib.import_module(module), name))
            if inspect.isfunction(found) or inspect.isclass(found):
                assert f'id="{found.__module__}.{found.__qualname__}"' in text, f"{module}.{name} has no docstring"


def test_the_front_page_tells_the_peak_of_the_record(site) -> None:
    peak = max(
        r["tflops"] for r in data.measured("nvidia-h200", "forward_ladder").rows if r["algorithm"] == "attention()"
    )
    assert f"{peak:.0f} TFLOP/s" in (site / "index.html").read_text(encoding="utf-8")


def test_a_picture_without_its_data_is_refused() -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(
            outputs=[nbformat.v4.new_output("display_data", {"text/plain": "[clickable picture] x"})]
        )
    ]
    with pytest.raises(ValueError, match="run make notebooks"):
        pictures.bring_alive(notebook)


def test_the_ledger_holds_each_claim_with_the_verdict_of_its_findings() -> None:
    found = ledger.entries()
    assert [e.lecture.stem for e in found] == [claim["lecture"] for claim in data.claims().values()], (
        "data/claims.csv, column lecture: the stem of the notebook with the verdict, 04_flash_lite for example"
    )
    assert [entry.id for entry in found] == list(data.claims())
    for entry in found:
        speaks = re.findall(r"^  (for|against): ", entry.text, re.MULTILINE)
        right = "confirmed" if "against" not in speaks else "true in part" if "for" in speaks else "refuted"
        assert entry.word == right
        assert data.claims()[entry.id]["claim"] in entry.text


def test_the_guide_names_exercises_and_their_minutes_as_they_are() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d\d) \| (\d+) \|", GUIDE.read_text(), re.MULTILINE)
    assert len(rows) >= 8
    for name, lecture, minutes in rows:
        assert (exercises()[name].lecture, efforts()[name][1]) == (lecture, int(minutes))
    assert f"add up to {sum(int(minutes) for *_, minutes in rows)}:" in GUIDE.read_text()
    assert set(re.findall(r"`(\w+_\w+)`", GUIDE.read_text())) <= set(exercises())


def test_fonts_and_scripts_are_pinned_with_checksums() -> None:
    lock = (web.HERE / "package-lock.json").read_text()
    assert len(re.findall(r'"integrity": "sha512-', lock)) == len(re.findall(r'"version":', lock))
    assert "resolved" not in lock
    assert "http" not in (web.HERE / "package.json").read_text()


def test_without_the_packages_the_message_says_how_to_get_them(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(web, "MODULES", tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"run python -m course_lib\.publish\.web"):
        web.copy_assets(tmp_path)


def test_the_readme_has_a_picture_that_moves_and_loads_fast() -> None:
    with Image.open(moving_picture.PATH) as film:
        assert film.n_frames > 20
    assert moving_picture.PATH.stat().st_size < 300_000
    assert f"]({moving_picture.PATH.relative_to(book.ROOT)})" in (book.ROOT / "README.md").read_text(encoding="utf-8")

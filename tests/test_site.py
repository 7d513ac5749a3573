"""Static pages and slides, opened from files with the network cut: they fit, formulas and clickable pictures work, nothing is missing."""

import os
import re
from pathlib import Path

import pytest

from course_lib import data
from course_lib.exercises import exercises
from course_lib.publish import decks, ledger, notebooks, pages, slides, web

pytestmark = pytest.mark.browser
LECTURES = {path.name[:2]: path for path in notebooks.lectures()}
SLIDES = """() => Reveal.getSlides().map(slide => {
  const at = Reveal.getIndices(slide);
  Reveal.slide(at.h, at.v, 99);
  const now = Reveal.getCurrentSlide();
  return {wide: now.scrollWidth, tall: now.scrollHeight, words: now.innerText.slice(0, 60)};
})"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fonts and scripts."""
    if not web.MODULES.is_dir():
        message = "the web packages are missing: run make web"
        if os.environ.get("COURSE_REQUIRE_WEB") == "1":
            pytest.fail(message)
        pytest.skip(message)
    folder = tmp_path_factory.mktemp("site")
    web.copy_assets(folder)
    return folder


@pytest.mark.parametrize("number", LECTURES)
def test_no_static_slide_is_taller_than_the_screen(site, open_file, number) -> None:
    page = open_file(site / f"{number}.html", decks.deck(LECTURES[number], alive=False))
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    found = page.evaluate(SLIDES)
    assert len(found) >= 15, "a lecture has 15 slides or more: begin more of them (slide types slide and subslide)"
    assert [slide for slide in found if slide["tall"] > slides.HEIGHT or slide["wide"] > slides.WIDTH] == []
    assert page.locator("aside.notes").count() == 1


def test_a_deck_alone_with_fonts_formulas_and_a_clickable_picture(site, open_file) -> None:
    page = open_file(site / "02.html", decks.deck(LECTURES["02"]))
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    assert page.locator("math").count() > 20
    assert page.evaluate("() => document.fonts.ready.then(() => document.fonts.check('18px \"STIX Two Math\"'))")
    page.evaluate("""() => {
      const at = Reveal.getIndices(document.querySelector('.course-clickable').closest('section'));
      Reveal.slide(at.h, at.v, 99);
    }""")
    picture = page.locator(".present .course-clickable").first
    picture.get_by_label("one step forward").first.click()
    picture.get_by_text("(m, ℓ) = (3, 1.000)").wait_for()
    page.keyboard.press("Home")
    assert page.get_by_text("Its controls need a kernel").count() > 0


def test_a_page_with_its_fonts_and_the_index(site, open_file) -> None:
    pages.write([LECTURES["04"]], site, ".html", lambda path: pages.page(path, fonts=True))
    page = open_file(site / "index.html", (site / "index.html").read_text())
    assert page.get_by_role("link", name="page").count() == 1
    for path in notebooks.lectures():
        assert page.get_by_text(notebooks.about(path)["title"], exact=True).count() == 1
    page.get_by_role("link", name="The claims ledger").click()
    assert page.locator("section").count() == len(data.claims())
    page.go_back()
    page.get_by_role("link", name="Teaching with this course").click()
    page.get_by_role("heading", name="An assignment set").wait_for()
    page.go_back()
    page.get_by_role("link", name="page").click()
    page.get_by_role("heading", name="04 · Flash Lite, wrong on purpose").wait_for()
    assert page.evaluate("() => document.fonts.ready.then(() => document.fonts.check('18px \"DejaVu Sans\"'))")


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
    rows = re.findall(r"^\| `(\w+)` \| (\d\d) \| (\d+) \|", pages.GUIDE.read_text(), re.MULTILINE)
    assert len(rows) >= 8
    for name, lecture, minutes in rows:
        assert (exercises()[name].lecture, exercises()[name].minutes) == (lecture, int(minutes))
    assert f"add up to {sum(int(minutes) for *_, minutes in rows)}:" in pages.GUIDE.read_text()
    assert set(re.findall(r"`(\w+_\w+)`", pages.GUIDE.read_text())) <= set(exercises())


def test_fonts_and_scripts_are_pinned_with_checksums() -> None:
    lock = (web.HERE / "package-lock.json").read_text()
    assert len(re.findall(r'"integrity": "sha512-', lock)) == len(re.findall(r'"version":', lock))
    assert "resolved" not in lock
    assert "http" not in (web.HERE / "package.json").read_text()


def test_without_the_packages_the_message_says_how_to_get_them(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(web, "MODULES", tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"run python -m course_lib\.publish\.web"):
        web.copy_assets(tmp_path)


@pytest.mark.browser
def test_a_lecture_as_a_page_works_without_kernel_and_network(show) -> None:
    path = next(p for p in notebooks.lectures() if p.name.startswith("03"))
    text = pages.page(path)
    assert not [words for words in ("<script src", "<link rel='stylesheet'", 'src="http', "@import") if words in text]
    page = show(text=text)
    assert page.locator("math").count() > 10
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator('[data-tile="C:0,0"]').click()
    page.get_by_text("term 2: A(0,1)·B(1,0)").wait_for()
    assert page.get_by_text("Its controls need a kernel").count() >= 3

"""Slides as files: short enough for a room, pictures and listings that the page has, no number that the page does not know."""

import re

import nbformat
import pytest

from course_lib.publish import notebooks, slides

LECTURES = {path.name[:2]: path for path in notebooks.lectures()}
WORDS, LINES = 60, 20  # of text, of a listing
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


@pytest.fixture(params=LECTURES)
def lecture(request):
    return LECTURES[request.param]


def bare(listing: str) -> str:
    """Code without spaces and comments."""
    return re.sub(r"#.*|\s", "", listing)


def shown(lecture, slide) -> str:
    """What a slide shows of the page as text: a listing, or a table."""
    cell = next(c for c in nbformat.read(lecture, 4).cells if c.id == slide.cell)
    if slide.code:
        return cell.source
    data = [output.get("data", {}) for output in cell.outputs]
    return "\n".join(d.get("text/markdown", d["text/plain"]) for d in data if "image/png" not in d and d)


def test_a_slide_is_made_for_a_room(lecture) -> None:
    found = slides.read(lecture)
    assert not [s.heading for s in found if s.words > WORDS], f"over {WORDS} words: the rest is said"
    listings = [(s, listing) for s in found for listing in slides.FENCE.findall(s.text)]
    listings += [(s, shown(lecture, s)) for s in found if s.cell]
    long = [s.heading for s, listing in listings if len(listing.strip("`\n").splitlines()) > LINES]
    assert not long, f"listings of over {LINES} lines: write the lines that matter on the slide"
    assert len(found) >= 12, "a lecture has twelve slides or more: one thought on each"
    assert found[0].heading.startswith("# "), "the first slide's heading is the lecture's title, after '# '"
    low = [s.heading for s in found[1:] if not s.heading.startswith("## ")]
    assert not low, "begin the heading of each slide but the first with '## '"


def test_the_notes_fit_the_minutes(lecture) -> None:
    due = [s.minute for s in slides.read(lecture) if s.minute is not None]
    assert due[:1] == [0], "begin the first note with 'minute 0.'"
    assert due == sorted(set(due)), "the minutes of the notes have to rise from slide to slide"
    assert len(due) >= 6, "begin six notes or more with the minute at which their slide is due, 'minute 7.'"
    assert due[-1] < notebooks.about(lecture)["minutes"], "the last slide is due after the lecture's minutes (metadata)"


def test_a_listing_and_a_number_on_a_slide_stand_on_the_page(lecture) -> None:
    page = nbformat.read(lecture, 4)
    texts = [cell.source for cell in page.cells]
    for output in (o for cell in page.cells for o in cell.get("outputs", [])):
        texts += [output.get("text", "")] + [str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")]
    text = "\n".join(texts)
    code = bare(text)
    known = set(_NUMBER.findall(text))
    for slide in slides.read(lecture):
        for listing in slides.FENCE.findall(slide.text):
            strange = [line for line in listing.splitlines() if bare(line) not in code]
            assert not strange, f"{slide.heading}: show code that a cell of the page has"
        said = f"{slide.heading} {slide.text} {slide.note}"
        unknown = [n for n in _NUMBER.findall(said) if len(n) > 2 and n not in known]
        assert not unknown, f"{slide.heading}: these numbers stand neither in the page's text nor in its outputs"


def test_slides_that_cannot_be_are_refused(tmp_path) -> None:
    lecture = tmp_path / "77_none.ipynb"
    page = nbformat.v4.new_notebook()
    page.cells = [nbformat.v4.new_code_cell("1", id="one"), nbformat.v4.new_code_cell("2", id="two")]
    nbformat.write(page, lecture)
    with pytest.raises(FileNotFoundError, match="77_none"):
        slides.read(lecture)
    target = slides.source(lecture)
    target.parent.mkdir()
    for wrong, named in (
        ("# T\n\n![](#one)\n![](#two)\n\nNote: x", "one cell"),
        ("text\n\nNote: x", "heading"),
        ("# T\n\ntext", "Note"),
    ):
        target.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match=named):
            slides.read(lecture)
    target.write_text(
        "# T\n\nNote: minute 0. We count at minute 7. Go on.\n\n---\n\n## Two\n\n![code](#two)\n\nNote: See minute 0. y",
        encoding="utf-8",
    )
    said = [(slide.minute, slide.note) for slide in slides.read(lecture)]
    assert said == [(0, "We count at minute 7. Go on."), (None, "See minute 0. y")]
    assert [c.id for c in slides.deck(lecture).cells] == ["slide-1", "one", "slide-2", "two-2"]

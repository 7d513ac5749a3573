"""Slides as files: short enough for a room, and no listing or number that the page does not have."""

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


def test_a_deck_fits_the_room_and_its_notes_the_minutes(lecture) -> None:
    found = slides.read(lecture)
    assert not [s.heading for s in found if s.words > WORDS], f"over {WORDS} words: the rest is said"
    listings = [(s, listing) for s in found for listing in slides.FENCE.findall(s.text)]
    long = [s.heading for s, listing in listings if len(listing.strip("`\n").splitlines()) > LINES]
    assert not long, f"listings of over {LINES} lines: write the lines that matter on the slide"
    due = [s.minute for s in found if s.minute is not None]
    assert due[:1] == [0], "begin the first note with 'minute 0.'"
    assert due == sorted(set(due)), "the minutes of the notes have to rise from slide to slide"
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

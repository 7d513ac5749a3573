"""A lecture's slides: Markdown of its own, written for the room, with pictures and listings of the lecture's page.

``notebooks/slides/05_flash_online.md`` is laid out as reveal.js reads Markdown: slides stand between lines ``---``, and what follows
``Note:`` is for the speaker. ``![](#evolution)`` shows what cell ``evolution`` of the page draws, ``![code](#launch)`` its code; it comes
with the next press, below the text. A note that begins with ``minute 7.`` says when the slide is due. JupyterLab (`present`) and
reveal.js (`decks`) show the same slides.
"""

import base64
import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from course_lib.show import style

WIDTH, HEIGHT = 1280, 720
FIGURE = 470  # pixels: the tallest figure in JupyterLab
MARGIN = 44
TEXT, CODE = 32, 22  # pixels

_CELL = re.compile(r"^!\[(code)?\]\(#([\w-]+)\)$", re.MULTILINE)
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MINUTE = re.compile(r"\Aminute (\d+)\.\s*")


@dataclass(frozen=True)
class Slide:
    """One slide: its heading with its ``#``, the text below, the cell whose picture or code it shows (None: no cell), and the note."""

    heading: str
    text: str
    cell: str | None
    code: bool
    note: str
    minute: int | None

    @property
    def words(self) -> int:
        """Words of the text, without listings; a formula is one."""
        prose = re.sub(r"\$[^$]*\$", "x", FENCE.sub("", self.text))
        return len(re.findall(r"\w[^\s|]*", prose))


def source(lecture: Path) -> Path:
    """The file that holds the slides of a lecture's notebook."""
    return lecture.parent / "slides" / f"{lecture.stem}.md"


def read(lecture: Path) -> list[Slide]:
    """The slides of a lecture's notebook.

    Raises FileNotFoundError if it has none, ValueError for a slide without heading or note, or with two cells.
    """
    text = source(lecture).read_text(encoding="utf-8")
    return [_slide(part.strip()) for part in re.split(r"^---$", text, flags=re.MULTILINE)]


def _slide(source: str) -> Slide:
    shown, _, note = source.partition("\nNote:")
    heading, _, text = shown.partition("\n")
    cells, due = _CELL.findall(text), _MINUTE.match(note.strip())
    if not heading.startswith("#") or not note.strip() or len(cells) > 1:
        raise ValueError(f"a slide is a heading, text, one cell at most, and 'Note: …'; this one is {source!r}")
    code, cell = cells[0] if cells else ("", None)
    return Slide(
        heading, _CELL.sub("", text).strip(), cell, bool(code), _MINUTE.sub("", note.strip()), due and int(due[1])
    )


def notes(lecture: Path) -> str:
    """All the speaker's notes of a lecture in one, Markdown: minute, slide, what to say."""
    found = read(lecture)
    lines = [
        f"**{number}/{len(found)} {slide.heading.lstrip('# ')}**"
        + (f" (minute {slide.minute})" if slide.minute is not None else "")
        + f": {slide.note}"
        for number, slide in enumerate(found, start=1)
    ]
    return "\n\n".join(lines)


def deck(lecture: Path) -> Any:
    """The slides as a notebook for JupyterLab's slides: cells that no slide shows run as well, unseen, each before it is needed."""
    page = nbformat.read(lecture, as_version=4)
    code = [c for c in page.cells if c.cell_type == "code" and "exercise" not in c.metadata.get("tags", [])]
    place = {cell.id: i for i, cell in enumerate(code)}
    found, run = read(lecture), 0
    page.cells = []
    for number, slide in enumerate(found, start=1):
        words = f"{slide.heading} <small>{number} / {len(found)}</small>\n\n{slide.text}".strip()
        text = nbformat.v4.new_markdown_cell(words, id=f"slide-{number}")
        text.metadata["slideshow"] = {"slide_type": "slide"}
        if slide.cell is None:
            page.cells.append(text)
            continue
        here = place[slide.cell]
        for cell in code[run:here]:
            cell.metadata["slideshow"] = {"slide_type": "skip"}
        page.cells += [*code[run:here], text, _shown(code[here], slide, number)]
        run = max(run, here + 1)
    return page


def _shown(cell: Any, slide: Slide, number: int) -> Any:
    """A copy of a page's cell for a slide: its code or its picture, as large as a slide has room."""
    shown = copy.deepcopy(cell)
    shown.id = f"{cell.id[:57]}-{number}"
    shown.metadata = nbformat.from_dict(
        {
            "slideshow": {"slide_type": "fragment"},
            "jupyter": {"outputs_hidden" if slide.code else "source_hidden": True},
        }
    )
    for output in shown.get("outputs", []):
        if "image/png" in output.get("data", {}):
            picture = output.metadata["image/png"]
            picture["width"] = style.shown_width(base64.b64decode(output.data["image/png"]), FIGURE)
    return shown

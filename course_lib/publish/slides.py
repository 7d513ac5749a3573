"""A lecture laid out as slides that fit a projector: one copy for JupyterLab (live) and for reveal.js (static).

A notebook says where slides begin and what is revealed later. Here what would be taller than the screen is mended: a cell that does
not fit below the others begins a sub-slide, under the heading again; the code that draws a figure is folded; long listings scroll. What
a page folds whole (the tag hide-cell) is no slide.
"""

import base64
import copy
import math
import re
from typing import Any

import nbformat

WIDTH, HEIGHT = 1280, 720
FIGURE = 450  # pixels: the tallest figure
_ROOM = HEIGHT - 60  # what a slide may hold
_LINE = {"markdown": 28.7, "code": 19.6, "listing": 23.5}  # pixels of a line in JupyterLab at the sizes of `present`
_CHARACTERS, _LISTING = 112, 94  # in a line of text, and of code within text, which is wrapped


def deck(notebook: Any) -> Any:
    """A copy of a lecture in which no slide is taller than the screen."""
    made = copy.deepcopy(notebook)
    made.cells, used, heading = [], 0.0, ""
    for cell in copy.deepcopy(notebook.cells):
        kind = "skip" if "hide-cell" in cell.metadata.get("tags", []) else slide_type(cell)
        _set_type(cell, kind)
        cell.metadata.get("jupyter", {}).pop(
            "outputs_hidden", None
        )  # what a prediction asked for is revealed by going on
        if kind in ("notes", "skip"):
            made.cells.append(cell)
            continue
        if kind in ("slide", "subslide"):
            used = 0.0
        _shrink(cell)
        _fit(cell)
        if cell.cell_type == "markdown":
            heading = ([line.lstrip("# ") for line in cell.source.splitlines() if line.startswith("#")] or [heading])[
                -1
            ]
        if used and used + height(cell) > _ROOM:
            again = nbformat.v4.new_markdown_cell(f"<small>{heading}</small>", id=f"{cell.id[:57]}-again")
            _set_type(again, "subslide")
            _set_type(cell, "")
            made.cells.append(again)
            used = height(again)
        used += height(cell)
        made.cells.append(cell)
    return made


def _fit(cell: Any) -> None:
    """Hide the code of a figure, of the set-up, and of what would not fit otherwise; let what is still too tall scroll."""
    if cell.cell_type != "code" or not cell.outputs:
        return
    figure = any("image/png" in output.get("data", {}) for output in cell.outputs)
    short = cell.source.count("\n") < 3
    if not short and (figure or cell.source.rstrip().endswith("setup()") or height(cell) > _ROOM - 50):
        cell.metadata["jupyter"] = {"source_hidden": True}
    if height(cell) > _ROOM - 50:
        cell.metadata["scrolled"] = True


def slide_type(cell: Any) -> str:
    """'slide', 'subslide', 'fragment', 'notes', 'skip', or '' for what goes on with the cell before."""
    kind = cell.metadata.get("slideshow", {}).get("slide_type", "")
    return "" if kind == "-" else kind


def _set_type(cell: Any, kind: str) -> None:
    if kind:
        cell.metadata["slideshow"] = {"slide_type": kind}
    else:  # JupyterLab's extension wants no type where a slide goes on
        cell.metadata.pop("slideshow", None)


def _shrink(cell: Any) -> None:
    """Saved figures as tall as live ones are on slides."""
    for output in cell.get("outputs", []):
        shown = output.get("metadata", {}).get("image/png", {})
        if shown.get("width"):
            shown["width"] = round(shown["width"] * min(1.0, FIGURE / _picture(output)))


# --- how tall? ---


def height(cell: Any) -> float:
    """Pixels that a cell takes on a slide in JupyterLab, estimated: from above rather than from below."""
    if cell.cell_type == "markdown":
        return _text(cell.source)
    hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
    code = 34.0 if hidden else _LINE["code"] * (cell.source.count("\n") + 1) + 24
    outputs = sum(map(_output, cell.outputs))
    return code + (min(outputs, 450.0) if cell.metadata.get("scrolled") else outputs)


def _text(source: str) -> float:
    """Markdown: listings apart from the rest, which is taken block by block."""
    total = 10.0
    for i, part in enumerate(source.split("```")):
        if i % 2:
            rows = [math.ceil(max(1, len(line)) / _LISTING) for line in part.rstrip().splitlines()[1:]]
            total += _LINE["listing"] * sum(rows) + 42
        else:
            folded = re.sub(r"<details>.*?</details>", "", part, flags=re.DOTALL)
            total += 36 * (folded != part) + sum(map(_block, re.split(r"\n\s*\n", folded.strip())))
    return total


def _block(block: str) -> float:
    """A paragraph, a list, a heading, a table or a formula."""
    if not block.strip():
        return 0.0
    if block.startswith("|"):
        return 30.0 * block.count("\n")
    if block.startswith("$$"):
        return 75.0
    total = 20.0
    for line in re.split(r"\n(?=[-*#\d])", block):
        heading = line.startswith("#")
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[$*_`]", r"\1", line)
        rows = math.ceil(len(plain) / (_CHARACTERS * (0.6 if heading else 1)))
        total += rows * (44 if heading else _LINE["markdown"])
    return total


def _output(output: Any) -> float:
    data = output.get("data", {})
    plain = str(data.get("text/plain", output.get("text", "")))
    if "image/png" in data:
        controls = plain.split("]")[0].removeprefix("[interactive figure: ").count(",") + 1
        live = 75 + 45 * math.ceil(controls / 3) if plain.startswith("[interactive figure") else 30
        return _picture(output) + live + 80 * plain.startswith("[clickable picture]")
    if "text/markdown" in data:
        return _text(str(data["text/markdown"]))
    if "text/html" in data:
        rows = data["text/html"].count("<tr")
        return 33.0 * rows + 25 if rows else 30 * plain.count("\n") + 120
    return _LINE["code"] * (plain.rstrip().count("\n") + 1) + 20


def _picture(output: Any) -> float:
    """The height in pixels at which a figure is shown."""
    png = base64.b64decode(output.data["image/png"])
    wide, tall = (int.from_bytes(png[i : i + 4], "big") for i in (16, 20))
    return tall * output.metadata["image/png"].get("width", wide) / wide

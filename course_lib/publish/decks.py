"""Writes each lecture as reveal.js slides: python -m course_lib.publish.decks [--out site] [notebooks/01_….ipynb …]

They work from file://, without a kernel and without a network: clickable pictures are alive, figures under sliders show their saved
picture. S opens the speaker's view with the notes.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

import nbformat

from course_lib.publish import notebooks, pages, slides

_STYLE = """
body { background: #fff; color: #111; }
.reveal { font: 18px/1.5 "DejaVu Sans", sans-serif; color: #111; --jp-content-font-color1: #111; --jp-layout-color0: #fff;
  --jp-layout-color1: #f3f3f3; --jp-border-color1: #bbb; }
.reveal .slides { text-align: left; }
.reveal .slides section { padding: 0; box-sizing: border-box; height: auto; }
.reveal .slides section section { padding: 0 44px; }
.reveal h1 { font-size: 34px; } .reveal h2 { font-size: 28px; } .reveal h3 { font-size: 22px; }
.reveal h1, .reveal h2, .reveal h3 { line-height: 1.2; margin: 10px 0; }
.reveal p, .reveal ul, .reveal ol { margin: 8px 0; }
.reveal a { color: #0a6fb0; }
.reveal img { max-width: 100%; height: auto; display: block; margin: 4px 0; background: #fff; }
.reveal pre, .reveal code { font-family: "DejaVu Sans Mono", monospace; font-size: 14px; line-height: 1.35; margin: 4px 0; }
.reveal .highlight { background: #f7f7f7; padding: 4px 8px; overflow: auto; max-height: 640px; }
.reveal table { border-collapse: collapse; font-size: 16px; }
.reveal th, .reveal td { padding: 3px 10px; border-bottom: 1px solid #bbb; }
.reveal .scrolled { max-height: 470px; overflow: auto; }
.anchor-link, .prompt { display: none; }
.note { font-size: 14px; opacity: 0.8; }
math { font-family: "STIX Two Math", math; }
"""
_LINKS = "".join(f'<link rel="stylesheet" href="assets/{name}.css">\n' for name in ("reset", "reveal", "fonts"))
_SCRIPT = f"""<script src="assets/reveal.js"></script>
<script src="assets/notes.js"></script>
<script>
Reveal.initialize({{ width: {slides.WIDTH}, height: {slides.HEIGHT}, margin: 0, hash: true, transition: "none", center: true,
  plugins: [RevealNotes] }});
</script>"""


def deck(path: Path, alive: bool = True) -> str:
    """One lecture as the text of an HTML file that needs the folder assets beside it; ``alive=False`` leaves clickable pictures still."""
    notebook = slides.deck(nbformat.read(path, as_version=4))
    if alive:
        pages.bring_alive(path, notebook)
    stacks: list[list[list[str]]] = []
    for cell in notebook.cells:
        kind = slides.slide_type(cell)
        if kind == "skip":
            continue
        if kind == "slide" or not stacks:
            stacks.append([[]])
        elif kind == "subslide":
            stacks[-1].append([])
        stacks[-1][-1].append(_cell(cell, kind))
    sections = "\n".join(
        "<section>\n" + "\n".join(f"<section>\n{''.join(cells)}\n</section>" for cells in stack) + "\n</section>"
        for stack in stacks
    )
    sections = re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.slides.html"', sections)
    text = f'<div class="reveal"><div class="slides">\n{sections}\n</div></div>\n{_SCRIPT}'
    return pages.document(pages.title(path), text, _STYLE, _LINKS)


def _cell(cell: Any, kind: str) -> str:
    only = nbformat.v4.new_notebook()
    only.cells = [cell]
    hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
    inner = pages.body(only, inputs=not hidden)
    if kind == "notes":
        return f'<aside class="notes">{inner}</aside>'
    classes = " ".join(
        word for word, on in (("fragment", kind == "fragment"), ("scrolled", cell.metadata.get("scrolled"))) if on
    )
    return f'<div class="{html.escape(classes)}">{inner}</div>' if classes else inner


def main() -> int:
    options = pages.arguments("python -m course_lib.publish.decks", "Write the lectures as reveal.js slides.")
    pages.write(options.paths or notebooks.lectures(), options.out, ".slides.html", deck)
    return 0


if __name__ == "__main__":
    sys.exit(main())

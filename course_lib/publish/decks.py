"""Writes each lecture as reveal.js slides: python -m course_lib.publish.decks [--out site] [notebooks/01_….ipynb …]

They lie in the folder slides of the book's site and work from file://, without a kernel and without a network: clickable pictures are
alive, figures under sliders show their saved picture. S opens the speaker's view with the notes.
"""

import argparse
import functools
import html
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

from course_lib.files import write_atomically
from course_lib.publish import book, notebooks, pictures, slides, web
from course_lib.widgets.clickable import styles

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
.reveal mjx-container[display="true"] { margin: 10px 0 !important; }
.anchor-link, .prompt { display: none; }
.note { font-size: 14px; opacity: 0.8; }
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
{links}
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<div class="reveal"><div class="slides">
{sections}
</div></div>
<script>
MathJax = {{ tex: {{ inlineMath: [["$", "$"]] }}, options: {{ enableMenu: false }},
  startup: {{ pageReady: () => MathJax.startup.defaultPageReady().then(() => Reveal.layout()) }} }};
</script>
<script src="../_static/reveal.js"></script>
<script src="../_static/notes.js"></script>
<script>
Reveal.initialize({{ width: {width}, height: {height}, margin: 0, hash: true, transition: "none", center: true,
  plugins: [RevealNotes] }});
</script>
<script src="../_static/mathjax/tex-chtml.js" defer></script>
</body>
</html>
"""


def deck(path: Path) -> str:
    """One lecture as the text of an HTML file that needs the folder ../_static beside it."""
    notebook = slides.deck(nbformat.read(path, as_version=4))
    pictures.bring_alive(notebook)
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
    return _PAGE.format(
        title=html.escape("{number} · {title}".format(**notebooks.about(path))),
        links="\n".join(
            f'<link rel="stylesheet" href="../_static/{name}.css">' for name in ("reset", "reveal", "fonts")
        ),
        style=_STYLE + styles() + HtmlFormatter(style="default").get_style_defs(".highlight"),
        sections=re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.html"', sections),
        width=slides.WIDTH,
        height=slides.HEIGHT,
    )


@functools.cache  # slides are written cell by cell, and an exporter compiles its templates anew
def _exporter(inputs: bool) -> HTMLExporter:
    return HTMLExporter(template_name="basic", exclude_input=not inputs)


def _cell(cell: Any, kind: str) -> str:
    only = nbformat.v4.new_notebook()
    only.cells = [cell]
    hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
    inner = _exporter(not hidden).from_notebook_node(only)[0]
    if kind == "notes":
        return f'<aside class="notes">{inner}</aside>'
    classes = " ".join(
        word for word, on in (("fragment", kind == "fragment"), ("scrolled", cell.metadata.get("scrolled"))) if on
    )
    return f'<div class="{html.escape(classes)}">{inner}</div>' if classes else inner


def write(site: Path, paths: list[Path]) -> None:
    """Write the decks of lectures to the folder slides of ``site``, and what they need in a browser."""
    web.copy_assets(site / "_static")
    (site / "slides").mkdir(exist_ok=True)
    for path in paths:
        write_atomically(site / "slides" / f"{path.stem}.html", deck(path))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.publish.decks", description="Write the lectures as reveal.js slides."
    )
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all lectures)")
    parser.add_argument("--out", type=Path, default=book.SITE, help="the folder to write to (default: site)")
    options = parser.parse_args()
    try:
        write(options.out, options.paths or notebooks.lectures())
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"slides are in {options.out / 'slides'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

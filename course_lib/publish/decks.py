"""Writes each lecture as reveal.js slides: python -m course_lib.publish.decks

They lie in the folder slides of the book's site and work from file://, without a kernel and without a network: clickable pictures are
alive, figures under sliders show their saved picture. S opens the speaker's view with the notes.
"""

import functools
import html
import re
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

from course_lib.publish import book, notebooks, pictures, slides, web
from course_lib.widgets.clickable import styles

_STYLE = f"""
body {{ background: #fff; color: #111; }}
.reveal {{ font: {slides.TEXT}px/1.45 "DejaVu Sans", sans-serif; color: #111; --jp-content-font-color1: #111; --jp-layout-color0: #fff;
  --jp-layout-color1: #f3f3f3; --jp-border-color1: #bbb; }}
.reveal .slides {{ text-align: left; }}
.reveal .slides section {{ box-sizing: border-box; height: {slides.HEIGHT}px; padding: 16px {slides.MARGIN}px 34px; }}
.reveal .slides section.present {{ display: flex !important; flex-direction: column; }}
.reveal .words {{ flex: none; }}
.reveal .picture, .reveal .code {{ flex: 1; min-height: 0; }}
.reveal .picture :is(div.cell, .output_area, .output_wrapper, .output, .jp-Cell, .jp-OutputArea, .output_png, .output_subarea) {{
  height: 100%; }}
.reveal .picture img {{ width: 100%; height: 100%; object-fit: contain; object-position: left top; }}
.reveal h1 {{ font-size: 48px; }} .reveal h2 {{ font-size: 40px; }}
.reveal h1, .reveal h2 {{ line-height: 1.2; margin: 6px 0 10px; }}
.reveal p, .reveal ul, .reveal ol {{ margin: 14px 0; }}
.reveal ul, .reveal ol {{ padding-left: 1.2em; margin-left: 0; }} .reveal li {{ margin: 6px 0; }}
.reveal strong {{ font-weight: bold; }} .reveal em {{ font-style: italic; }}
.reveal a {{ color: #0a6fb0; }}
.reveal pre, .reveal code {{ font-family: "DejaVu Sans Mono", monospace; font-size: {slides.CODE}px; line-height: 1.3; margin: 4px 0; }}
.reveal :is(p, li, td) code {{ font-size: 0.85em; }}
.reveal .picture pre {{ white-space: pre-wrap; }}
.reveal .highlight {{ background: #f7f7f7; padding: 4px 8px; }}
.reveal table {{ border-collapse: collapse; font-size: {slides.TEXT - 8}px; }}
.reveal th, .reveal td {{ padding: 3px 14px; border-bottom: 1px solid #bbb; }}
.reveal section:not(:has(.picture, .code, pre, mjx-container[display])) .words {{ font-size: {slides.TEXT + 6}px; }}
.reveal section:not(:has(.picture, .code, pre, mjx-container[display])) .words table {{ font-size: {slides.TEXT - 2}px; }}
.reveal .picture pre {{ font-size: {slides.CODE + 4}px; }}
.reveal mjx-container[display="true"] {{ margin: 12px 0 !important; }}
.reveal .slide-number {{ background: none; color: #555; font: 18px "DejaVu Sans", sans-serif; right: 20px; bottom: 8px; }}
.anchor-link, .prompt, .output_area:has(.note) {{ display: none; }}
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
Reveal.initialize({{ width: {width}, height: {height}, margin: 0, hash: true, transition: "none", center: false, controls: false,
  slideNumber: "c/t",
  plugins: [RevealNotes] }});
const fit = () => {{  // a clickable picture as large as its slide has room
  const box = document.querySelector(".present .picture:has(.course-clickable)"), one = box?.querySelector(".course-clickable");
  if (!one) return;
  one.style.zoom = 1;
  one.style.zoom = Math.min(1.4, box.clientHeight / one.offsetHeight);
}};
Reveal.on("ready", fit);
Reveal.on("slidechanged", fit);
</script>
<script src="../_static/mathjax/tex-chtml.js" defer></script>
</body>
</html>
"""


def deck(lecture: Path) -> str:
    """One lecture as the text of an HTML file that needs the folder ../_static beside it."""
    notebook = nbformat.read(lecture, as_version=4)
    pictures.bring_alive(notebook)
    cells = {cell.id: cell for cell in notebook.cells}
    sections = "\n".join(_section(slide, cells) for slide in slides.read(lecture))
    return _PAGE.format(
        title=html.escape("{number} · {title}".format(**notebooks.about(lecture))),
        links="\n".join(
            f'<link rel="stylesheet" href="../_static/{name}.css">' for name in ("reset", "reveal", "fonts")
        ),
        style=_STYLE + styles() + HtmlFormatter(style="default").get_style_defs(".highlight"),
        sections=re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.html"', sections),
        width=slides.WIDTH,
        height=slides.HEIGHT,
    )


def _section(slide: slides.Slide, cells: dict[str, Any]) -> str:
    shown = ""
    if slide.cell:
        cell = cells[slide.cell]
        drawn = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        if drawn and not slide.code:  # a picture has the slide for itself
            cell = nbformat.from_dict(cell | {"outputs": drawn})
        kind = "code" if slide.code else "picture"
        shown = f'<div class="{kind} fragment">{_html(cell, "input" if slide.code else "output")}</div>'
    words = _html(nbformat.v4.new_markdown_cell(f"{slide.heading}\n\n{slide.text}"))
    note = _html(nbformat.v4.new_markdown_cell(slide.note))
    return f'<section>\n<div class="words">{words}</div>\n{shown}\n<aside class="notes">{note}</aside>\n</section>'


@functools.cache  # slides are written cell by cell, and an exporter compiles its templates anew
def _exporter(part: str) -> HTMLExporter:
    return HTMLExporter(template_name="basic", exclude_input=part == "output", exclude_output=part == "input")


def _html(cell: Any, part: str = "") -> str:
    only = nbformat.v4.new_notebook()
    only.cells = [cell]
    return str(_exporter(part).from_notebook_node(only)[0])


def write(site: Path = book.SITE) -> None:
    """Write the decks of all lectures to the folder slides of ``site``, and what they need in a browser."""
    web.copy_assets(site / "_static")
    (site / "slides").mkdir(exist_ok=True)
    for path in notebooks.lectures():
        (site / "slides" / f"{path.stem}.html").write_text(deck(path), encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"slides are in {book.SITE / 'slides'}")

"""Writes each lecture as a static page: python -m course_lib.publish.pages [--out site] [notebooks/01_….ipynb …]

A page is one file; with the fonts in assets it looks the same everywhere. Its clickable pictures work from file://, without a kernel
and without a network; formulas are MathML; figures under sliders show their saved picture. Outputs are those saved in the notebook; a
lecture that has clickable pictures is executed once more, up to the last of them, because their data is not saved.
"""

import argparse
import functools
import html
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from course_lib.publish import ledger, notebooks, web
from course_lib.widgets.clickable import styles

SITE = notebooks.NOTEBOOKS.parent / "site"
GUIDE = notebooks.NOTEBOOKS.parent / "docs" / "teaching.md"
_CLICKABLE = "[clickable picture]"
_INTERACTIVE = "[interactive figure"
_LECTURE = re.compile(r'href="(\d\d_\w+)\.ipynb"')

_STYLE = """
:root { color-scheme: light dark; --jp-content-font-color1: #111; --jp-layout-color0: #fff; --jp-layout-color1: #f3f3f3;
  --jp-border-color1: #bbb; }
@media (prefers-color-scheme: dark) { :root { --jp-content-font-color1: #eee; --jp-layout-color0: #181818;
  --jp-layout-color1: #2a2a2a; --jp-border-color1: #666; } }
body { max-width: 1000px; margin: 0 auto; padding: 12px; color: var(--jp-content-font-color1);
  background: var(--jp-layout-color0); font: 17px/1.55 "DejaVu Sans", system-ui, sans-serif; }
a { color: #0a84c6; }
img { max-width: 100%; height: auto; background: #fff; }
pre, code { font-family: "DejaVu Sans Mono", monospace; font-size: 13.5px; }
.highlight { background: #f7f7f7; color: #111; border: 1px solid var(--jp-border-color1); padding: 2px 8px; overflow-x: auto; }
.jp-OutputArea-output { margin: 8px 0; overflow-x: auto; }
table { border-collapse: collapse; margin: 8px 0; }
th, td { padding: 3px 10px; border-bottom: 1px solid var(--jp-border-color1); }
.anchor-link, .prompt { display: none; }
.note { font-size: 14px; opacity: 0.8; }
math { font-family: "STIX Two Math", math; }
math[display="block"] { margin: 10px 0; }
"""


class _Renderer(IPythonRenderer):
    """nbconvert's renderer, with formulas as MathML, which browsers show by themselves."""

    def block_math(self, body: str) -> str:
        return f"<p>{convert(body.strip(), display='block')}</p>"

    def inline_math(self, body: str) -> str:
        return convert(body.strip())


def _markdown(source: str) -> str:
    return MarkdownWithMath(renderer=_Renderer(escape=False)).render(source)


def _clickable_outputs(path: Path, notebook: Any) -> None:
    """Replace the still of each clickable picture by the picture itself; a cell's own outputs stay as they are saved."""
    wanted = [cell for cell in notebook.cells if cell.cell_type == "code" and _stills(cell)]
    if not wanted:
        return
    live = nbformat.read(path, as_version=4)
    last = max(i for i, cell in enumerate(live.cells) if cell.id in {cell.id for cell in wanted})
    live.cells = live.cells[: last + 1]
    os.environ["COURSE_PAGES"] = "1"
    try:
        NotebookClient(live, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    finally:
        del os.environ["COURSE_PAGES"]
    by_id = {cell.id: cell for cell in live.cells}
    for cell in wanted:
        found = [o.data["text/html"] for o in by_id[cell.id].outputs if "text/html" in o.get("data", {})]
        for output, page in zip(_stills(cell), found, strict=True):
            output.data = nbformat.from_dict({"text/html": page})
            output.metadata = nbformat.from_dict({})


def _stills(cell: Any) -> list[Any]:
    return [o for o in cell.outputs if str(o.get("data", {}).get("text/plain", "")).startswith(_CLICKABLE)]


def _note_sliders(notebook: Any) -> None:
    """Say below a figure under sliders that they need a kernel."""
    for cell in notebook.cells:
        for output in list(cell.get("outputs", [])):
            if str(output.get("data", {}).get("text/plain", "")).startswith(_INTERACTIVE):
                words = '<p class="note">Its controls need a kernel: open the notebook to move them.</p>'
                cell.outputs.append(nbformat.v4.new_output("display_data", {"text/html": words}))


def bring_alive(path: Path, notebook: Any) -> None:
    """Put the clickable pictures of a lecture into its (perhaps rearranged) cells, and a note below what needs a kernel."""
    _clickable_outputs(path, notebook)
    _note_sliders(notebook)


def body(notebook: Any, inputs: bool = True) -> str:
    """Cells as HTML, formulas as MathML; ``inputs``: with their code."""
    return _exporter(inputs).from_notebook_node(notebook)[0]


@functools.cache  # slides are written cell by cell, and an exporter compiles its templates anew
def _exporter(inputs: bool) -> HTMLExporter:
    exporter = HTMLExporter(template_name="basic", exclude_input=not inputs)
    exporter.register_filter("markdown2html", lambda context, source=None: _markdown(source or context))
    return exporter


def title(path: Path) -> str:
    about = notebooks.about(path)
    return f"{about['number']} · {about['title']}"


def page(path: Path, fonts: bool = False) -> str:
    """One lecture as the text of an HTML file that needs nothing else; ``fonts``: those of assets/fonts.css, not the reader's own."""
    notebook = nbformat.read(path, as_version=4)
    bring_alive(path, notebook)
    text = '<p><a href="index.html">All lectures</a></p>\n' + _LECTURE.sub(r'href="\1.html"', body(notebook))
    return document(title(path), text, _STYLE, _FONTS if fonts else "")


_FONTS = '<link rel="stylesheet" href="assets/fonts.css">\n'


def document(title: str, body: str, style: str, links: str = "") -> str:
    """An HTML file."""
    code = HtmlFormatter(style="default").get_style_defs(".highlight")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n{links}'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}{styles()}{code}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def index(paths: list[Path], site: Path) -> str:
    """The page that leads to those pages and slides that are in ``site``."""
    rows = []
    for path in paths:
        about = notebooks.about(path)
        links = [
            f'<a href="{path.stem}{ending}">{word}</a>'
            for ending, word in ((".html", "page"), (".slides.html", "slides"))
            if (site / f"{path.stem}{ending}").exists()
        ]
        rows.append(
            f"<tr><td>{about['number']}</td><td>{html.escape(about['title'])}</td><td>{about['minutes']} min</td>"
            f"<td>{' · '.join(links)}</td></tr>"
        )
    picture = '<p><img src="course_map.svg" alt="map of the course"></p>'
    more = '<p><a href="claims.html">The claims ledger</a> · <a href="teaching.html">Teaching with this course</a></p>'
    text = f"<h1>FlashAttention: the course</h1>\n{picture}\n<table>{chr(10).join(rows)}</table>\n{more}"
    return document("FlashAttention: the course", text, _STYLE, _FONTS)


def write(paths: list[Path], site: Path, ending: str, text: Callable[[Path], str]) -> None:
    """Write a file for each lecture, and an index of all that is in ``site``; says how far it is."""
    site.mkdir(parents=True, exist_ok=True)
    web.copy_assets(site)
    for path in paths:
        target = site / f"{path.stem}{ending}"
        print(f"{target.name} … ", end="", flush=True)
        target.write_text(text(path), encoding="utf-8")
        print(f"{target.stat().st_size / 1e6:.1f} MB")
    guide = '<p><a href="index.html">All lectures</a></p>\n' + _markdown(GUIDE.read_text(encoding="utf-8"))
    for name, heading, content in (
        ("claims", "The claims ledger", ledger.body()),
        ("teaching", "Teaching with this course", guide),
    ):
        (site / f"{name}.html").write_text(document(heading, content, _STYLE, _FONTS), encoding="utf-8")
    (site / "index.html").write_text(index(notebooks.lectures(), site), encoding="utf-8")
    shutil.copy(notebooks.NOTEBOOKS / "course_map.svg", site)
    print(f"open {site / 'index.html'}")


def arguments(prog: str, description: str) -> argparse.Namespace:
    """The command line of the two writers."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all lectures)")
    parser.add_argument("--out", type=Path, default=SITE, help="the folder to write to (default: site)")
    return parser.parse_args()


def main() -> int:
    options = arguments("python -m course_lib.publish.pages", "Write the lectures as static pages.")
    write(options.paths or notebooks.lectures(), options.out, ".html", lambda path: page(path, fonts=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes each lecture as a static page: python -m course_lib.pages [--out site] [notebooks/01_….ipynb …]

A page is one file. Its clickable pictures work from file://, without a kernel and without a network; formulas are
MathML; figures under sliders show their saved picture. Outputs are those saved in the notebook; a lecture that has
clickable pictures is executed once more, because their data is not saved.
"""

import argparse
import html
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from course_lib import notebooks
from course_lib.widgets.clickable import styles

SITE = notebooks.NOTEBOOKS.parent / "site"
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


def page(path: Path) -> str:
    """One lecture as the text of an HTML file that needs nothing else."""
    notebook = nbformat.read(path, as_version=4)
    _clickable_outputs(path, notebook)
    _note_sliders(notebook)
    exporter = HTMLExporter(template_name="basic", filters={"markdown2html": _markdown})
    exporter.register_filter("markdown2html", lambda context, source=None: _markdown(source or context))
    body, _ = exporter.from_notebook_node(notebook)
    body = _LECTURE.sub(r'href="\1.html"', body)
    about = notebooks.about(path)
    title = f"{about['number']} · {about['title']}"
    return _document(title, '<p><a href="index.html">All lectures</a></p>\n' + body)


def _document(title: str, body: str) -> str:
    code = HtmlFormatter(style="default").get_style_defs(".highlight")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}{styles()}{code}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def index(paths: list[Path]) -> str:
    """The page that leads to the others."""
    rows = [(path.stem, notebooks.about(path)) for path in paths]
    items = "\n".join(
        f'<tr><td>{a["number"]}</td><td><a href="{stem}.html">{html.escape(a["title"])}</a></td><td>{a["minutes"]} min</td></tr>'
        for stem, a in rows
    )
    picture = '<p><img src="course_map.svg" alt="map of the course"></p>'
    return _document(
        "FlashAttention: the course", f"<h1>FlashAttention: the course</h1>\n{picture}\n<table>{items}</table>"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.pages", description="Write the lectures as static pages."
    )
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all lectures)")
    parser.add_argument("--out", type=Path, default=SITE, help="the folder to write to (default: site)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in arguments.paths or notebooks.lectures():
        target = arguments.out / f"{path.stem}.html"
        print(f"{target.name} … ", end="", flush=True)
        target.write_text(page(path), encoding="utf-8")
        print(f"{target.stat().st_size / 1e6:.1f} MB")
    (arguments.out / "index.html").write_text(index(notebooks.lectures()), encoding="utf-8")
    shutil.copy(notebooks.NOTEBOOKS / "course_map.svg", arguments.out)
    print(f"open {arguments.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes the course as a book: python -m course_lib.publish.book

Sphinx builds it from the lectures as they are saved and from the pages of docs/book, of which those in Jinja are filled in. Nothing is
executed; the book works from file://, without a kernel and without a network.
"""

import functools
import gc
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import jinja2
import nbformat
from sphinx.cmd.build import build_main

from course_lib import data, runtime
from course_lib.publish import course_map, ledger, notebooks, pictures, web, working_copy

ROOT = notebooks.NOTEBOOKS.parent
PAGES, SITE = ROOT / "docs" / "book", ROOT / "site"


@functools.cache
def _links() -> re.Pattern[str]:
    """What becomes a link, a lecture or a term; between them what takes none: code, formulas, HTML, links, titles."""
    terms = re.findall(r"^(\S.*)\n    ", (PAGES / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    longest_first = "|".join(map(re.escape, sorted(terms, key=len, reverse=True)))
    there = "|".join(path.stem[:2] for path in notebooks.lectures())
    lectures = rf"\blecture (?P<number>{there})\b|`(?P<page>{there})(?:_\w+)?`"
    fixed = r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$[.,:;)]*|<summary>.*?</summary>|<[^>]*>|!?\[[^]]*\]\([^)]*\)|^#[^\n]*"
    return re.compile(rf"{lectures}|{fixed}|(?<![\w-])(?P<term>{longest_first})s?(?![\w-])", re.S | re.M | re.I)


def linked(text: str, seen: set[str]) -> str:
    """Markdown with links at 'lecture 05', '`05`' and the first mention of each term, which then is in ``seen``."""

    def link(found: re.Match[str]) -> str:
        if formula := re.fullmatch(r"(\$[^$]+)\$([.,:;)]+)", found[0]):
            return rf"{formula[1]}\text{{{formula[2]}}}$"  # a line does not begin with what ends another
        term = (found["term"] or "").lower()
        if number := found["number"] or found["page"]:
            return f"[{found[0]}]({notebooks.lecture(number).name})"
        if not term or term in seen:
            return found[0]
        seen.add(term)
        return f"{{term}}`{found[0]} <{term}>`"

    return _links().sub(link, text)


NOTHING_RUNS = """<p class="note">You are reading the book, in which no cell runs. Folds open, pictures with buttons answer, and a
figure that is too small to read grows when you touch it. To run cells and move sliders, open the lectures in JupyterLab:
<code>make lab</code>.</p>"""
EXERCISES = """<p class="note">No cell runs in the book: think them through here; in JupyterLab <code>hint</code> helps and
<code>check</code> tries your answer.</p>"""


def lecture(path: Path) -> nbformat.NotebookNode:
    """A lecture as the book shows it: live pictures, links; each figure leads to itself in full size, as it has a width.

    What is folded whole is named. The first lecture says that nothing runs, and so does each at its exercises.
    """
    notebook, seen = nbformat.read(path, as_version=4), set[str]()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source, seen)
            if cell.source.startswith("## Exercises\n"):
                cell.source += f"\n\n{EXERCISES}"
        elif "exercise" in cell.metadata.get("tags", []):
            cell.outputs = []  # "not attempted. Replace the three dots and run the cell again"
            if cell.id == "exercise-imports":
                cell.metadata.tags.append("remove-cell")
        if "hide-cell" in cell.metadata.get("tags", []):
            name = cell.id.replace("-", " ")
            cell.metadata["mystnb"] = {
                f"code_prompt_{what}": f"{what.title()} code cell {{type}}: {name}" for what in ("show", "hide")
            }
        for output in cell.get("outputs", []):
            if image := output.get("metadata", {}).get("image/png"):
                shown = {"image": {"alt": image["alt"], "width": f"{image['width']}px"}}
                cell.metadata["mystnb"] = cell.metadata.get("mystnb", {}) | shown
    if path == notebooks.lectures()[0]:
        notebook.cells[0].source += f"\n\n{NOTHING_RUNS}"
    pictures.bring_alive(notebook)
    return notebook


GUIDES = "installing", "own_model", "speed", "citing", "teaching"


def front(path: Path) -> dict[str, Any]:
    """What the front page says of a lecture: its metadata, and from its first cell the question and what it lets one do."""
    first = nbformat.read(path, as_version=4).cells[0].source
    question = re.search(r"\*\*The question\.\*\*\s*(.*?)(?:\n\n|$)", first, re.DOTALL)
    able = [line.rstrip(";.") for line in re.findall(r"^- (.*)$", first, re.MULTILINE)]
    return notebooks.about(path) | {"stem": path.stem, "question": question[1] if question else "", "able": able}


def prepare(folder: Path) -> None:
    """Write what Sphinx reads: the pages of docs/book with their Jinja filled in, the guides, the lectures."""
    for name in ("docs", "deploy", "reference"):
        (folder / name).mkdir(parents=True)
    for name in (*(f"docs/{page}.md" for page in GUIDES), "deploy/README.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder / name)
    pages = jinja2.Environment(loader=jinja2.FileSystemLoader(PAGES), undefined=jinja2.StrictUndefined)
    pages.globals.update(data=data, ledger=ledger, notebooks=notebooks, parts=course_map.parts(), pictures=pictures)
    lectures = {path.stem[:2]: front(path) for path in notebooks.lectures()}
    for name in pages.list_templates(extensions=["md"]):
        (folder / name).write_text(pages.get_template(name).render(lectures=lectures), encoding="utf-8")
    for path in notebooks.lectures():
        nbformat.write(lecture(path), folder / path.name)


_ICON = re.compile(r"""["']?([\w-]+)["']?:\[\d+,\d+,\[[^]]*\],"[0-9a-f]*",(?:"[^"]*"|\[[^]]*\])\],?""")


def keep_icons(built: Path) -> None:
    """Of the theme's two thousand icons, a third of what a first page loads, keep those that a page names."""
    named = {
        name for page in built.rglob("*.html") for name in re.findall(r"fa-([\w-]+)", page.read_text(encoding="utf-8"))
    }
    script = built / "_static" / "scripts" / "fontawesome.js"
    all_icons = script.read_text(encoding="utf-8")
    script.write_text(_ICON.sub(lambda icon: icon[0] if icon[1] in named else "", all_icons), encoding="utf-8")


def write(site: Path = SITE) -> int:
    """Build the book in ``site``; 0 if Sphinx has nothing to complain about."""
    runtime.mode()  # the reference imports kernels
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        sources, built = f"{folder}/sources", f"{folder}/book"  # beside the second myst-nb leaves a folder of its own
        prepare(Path(sources))
        web.copy_assets(site / "_static")
        gc.disable()  # a fifth of the time, for what is kept to the end
        failed = build_main(["-qEW", "-c", str(PAGES), "-d", f"{folder}/doctrees", sources, built])
        gc.enable()
        if not failed:
            keep_icons(Path(built))
        shutil.copytree(built, site, dirs_exist_ok=True)
    working_copy.bring(site / "download")
    return failed


if __name__ == "__main__":
    sys.exit(write() or print(f"open {SITE / 'index.html'}"))

"""Writes the course as a book: python -m course_lib.publish.book [--out site]

Sphinx builds it from the lectures as they are saved and from the pages of docs/book, which are Jinja templates. Nothing is executed;
the book works from file://, without a kernel and without a network.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import yaml
from sphinx.cmd.build import build_main

from course_lib import data, runtime
from course_lib.files import copy_atomically
from course_lib.publish import imports, ledger, notebooks, pictures, slides, web, working_copy

ROOT = notebooks.NOTEBOOKS.parent
PAGES, SITE = ROOT / "docs" / "book", ROOT / "site"
PEAK = ("nvidia-h200", "forward_ladder")  # the record of lecture 11
# What of a text takes no link: code, formulas, titles of folds, HTML, links, headings.
_FIXED = re.compile(
    r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$|<summary>.*?</summary>|<[^>]*>|!?\[[^]]*\]\([^)]*\)|^#[^\n]*",
    re.DOTALL | re.MULTILINE,
)


def glossary() -> dict[str, str]:
    """What each term means."""
    return yaml.safe_load((PAGES / "glossary.yml").read_text(encoding="utf-8"))


def _spelled(term: str) -> str:
    """A pattern for a term within a sentence, or for its plural."""
    return rf"(?<![\w-]){re.escape(term)}s?(?![\w-])"


def defining(terms: Iterable[str]) -> dict[str, Path]:
    """By term, the lecture of this title, else the first that sets it in italics or bold, else that has it; no entry if none has."""
    texts, found = {path: notebooks.prose(path) for path in notebooks.lectures()}, {}
    for term in terms:
        spelled = _spelled(term)
        ways = [
            re.compile(way, re.IGNORECASE | re.MULTILINE)
            for way in (rf"^# \d\d · (The )?{spelled}$", rf"\*{spelled}", spelled)
        ]
        if lecture := next((path for way in ways for path, text in texts.items() if way.search(text)), None):
            found[term] = lecture
    return found


def linked(text: str, todo: list[str]) -> str:
    """Markdown with links at 'lecture 05' and at the first mention of each term of ``todo``, which loses those that are found."""
    stems = {path.stem[:2]: path.stem for path in notebooks.lectures()}

    def link(found: re.Match[str]) -> str:
        if found[1]:
            return f"[{found[0]}]({stems[found[1]]}.ipynb)" if found[1] in stems else found[0]
        for term in todo:
            if re.fullmatch(_spelled(term), found[0], re.IGNORECASE):
                todo.remove(term)
                return f"{{term}}`{found[0]} <{term}>`"
        return found[0]

    words = sorted(todo, key=len, reverse=True)
    pattern = re.compile("|".join([r"\blecture (\d\d)\b", *map(_spelled, words)]), re.IGNORECASE)
    parts, last = [], 0
    for fixed in _FIXED.finditer(text):
        parts += [pattern.sub(link, text[last : fixed.start()]), fixed[0]]
        last = fixed.end()
    return "".join([*parts, pattern.sub(link, text[last:])])


def lecture(path: Path, ending: str) -> nbformat.NotebookNode:
    """A lecture as the book shows it: no notes, live pictures, links, and ``ending`` as its last cell."""
    notebook, todo = nbformat.read(path, as_version=4), list(glossary())
    notebook.cells = [cell for cell in notebook.cells if slides.slide_type(cell) != "notes"]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source, todo)
        for output in cell.get("outputs", []):
            if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                cell.metadata["mystnb"] = {"image": {"alt": alt}}
    pictures.bring_alive(notebook)
    notebook.cells.append(nbformat.v4.new_markdown_cell(ending))
    return notebook


def front(path: Path) -> dict[str, Any]:
    """What the front page says of a lecture: its metadata, and from its first cell the question and what it lets one do."""
    first = nbformat.read(path, as_version=4).cells[0].source
    question = re.search(r"\*\*The question\.\*\*\s*(.*?)(?:\n\n|$)", first, re.DOTALL)
    able = [line.rstrip(";.") for line in re.findall(r"^- (.*)$", first, re.MULTILINE)]
    return notebooks.about(path) | {"stem": path.stem, "question": question[1] if question else "", "able": able}


def facts() -> dict[str, Any]:
    """What the pages of docs/book are filled with."""
    lectures, record = notebooks.lectures(), data.measured(*PEAK)
    outputs = (
        o for path in lectures for cell in nbformat.read(path, as_version=4).cells for o in cell.get("outputs", [])
    )
    return {
        "lectures": [front(path) for path in lectures],
        "picture": next(pictures.html(output) for output in outputs if "clickable" in output.get("metadata", {})),
        "record": record,
        "peak": max((row for row in record.rows if row["algorithm"] == "attention()"), key=lambda row: row["tflops"]),
        "modules": imports.used(lectures),
        "claims": [(data.claims()[entry.id], entry, notebooks.about(entry.lecture)) for entry in ledger.entries()],
        "glossary": [(term, glossary()[term], front(path)) for term, path in defining(glossary()).items()],
    }


def prepare(folder: Path) -> None:
    """Write what Sphinx reads: the lectures, the pages of docs/book filled in, and the guides beside them."""
    fill = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True).from_string
    ending = fill((PAGES / "ending.txt").read_text(encoding="utf-8"))
    for name in ("download", "docs", "deploy"):
        (folder / name).mkdir(parents=True)
    for path in notebooks.lectures():
        (folder / "download" / path.name).write_text(working_copy.student_page(path), encoding="utf-8")
        nbformat.write(lecture(path, ending.render(front(path))), folder / path.name)
    words = facts()
    for page in PAGES.glob("*.md"):
        (folder / page.name).write_text(fill(page.read_text(encoding="utf-8")).render(words), encoding="utf-8")
    for document in ("docs/teaching.md", "deploy/README.md", "CITATION.cff"):
        shutil.copy(ROOT / document, folder / document)


def write(site: Path = SITE) -> int:
    """Build the book in ``site``; 0 if Sphinx has nothing to complain about."""
    runtime.mode()  # the reference imports kernels
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        sources = Path(folder) / "sources"
        prepare(sources)
        web.copy_assets(site / "_static")
        flags = [
            "--quiet",
            "--fresh-env",
            "--fail-on-warning",
            "--conf-dir",
            str(PAGES),
            "--doctree-dir",
            f"{folder}/doctrees",
        ]
        # Beside the folder that it builds in, myst-nb leaves one of its own.
        failed = build_main([*flags, str(sources), f"{folder}/book"])
        copy_atomically(Path(folder) / "book", site)
        return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.publish.book", description="Write the course as a book."
    )
    parser.add_argument("--out", type=Path, default=SITE, help="the folder to write to (default: site)")
    site = parser.parse_args().out
    try:
        failed = write(site)
    except OSError as error:  # a full disk: of the pages some are the old ones
        print(error, file=sys.stderr)
        return 1
    print("see the warnings above" if failed else f"open {site / 'index.html'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

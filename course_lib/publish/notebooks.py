"""Executes the lectures and writes their outputs back, so that a second run changes nothing.

    python -m course_lib.publish.notebooks [--fresh] [notebooks/01_….ipynb …]

Cells tagged 'measured' show times of the machine that ran them: their outputs are kept as they are while their source
is unchanged, unless --fresh is given. Live widgets are replaced by their picture, so that a page reads without a kernel.
"""

import argparse
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from course_lib.files import write_atomically
from course_lib.publish import form

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_PROGRESS_BAR = re.compile(r"\d+%\|")


def lectures() -> list[Path]:
    """All lectures in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def lecture(number: str) -> Path:
    """The notebook of '05', '5', '05_flash_online' or '05_flash_online.ipynb'.

    Raises ValueError for what is no lecture, a wrong name behind a right number included.
    """
    wanted, known = number.removesuffix(".ipynb"), {path.stem: path for path in lectures()}
    for stem, path in known.items():
        short = stem.removeprefix("0")
        if wanted in (stem, stem[:2], short, short.partition("_")[0]):
            return path
    raise ValueError(f"lecture is {number!r}; pass one of {', '.join(stem[:2] for stem in known)}")


def about(path: Path) -> dict[str, Any]:
    """A lecture's own words on itself, from its metadata: {'number', 'title', 'minutes' presented, 'study' minutes alone}."""
    course = json.loads(path.read_text(encoding="utf-8"))["metadata"]["course"]
    return {"number": path.stem[:2]} | {name: course[name] for name in ("title", "minutes", "study")}


def prose(path: Path) -> str:
    """The text of a lecture: its markdown cells, one after the other."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def digest(sources: list[str]) -> str:
    """A short fingerprint of cell sources: outputs are fresh if it equals the one stored when they were made."""
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]


def code_digest(notebook: Any) -> str:
    return digest([cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"])


def is_measured(cell: Any) -> bool:
    return "measured" in cell["metadata"].get("tags", [])


def refresh(path: Path, fresh: bool = False) -> bool:
    """Execute one notebook and write it back with clean outputs; True if the file changed."""
    import nbformat
    from nbclient import NotebookClient

    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    kept = {
        cell.id: cell.outputs
        for cell in notebook.cells
        if cell.cell_type == "code" and is_measured(cell) and not fresh and _is_current(cell)
    }
    client = NotebookClient(
        notebook,
        timeout=600,
        startup_timeout=300,  # a machine of one busy core has needed over a minute
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        coalesce_streams=True,
    )
    client.execute()
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        cell.outputs = kept.get(cell.id) or [
            clean for output in cell.outputs if (clean := _clean(output, number)) is not None
        ]
        if is_measured(cell):
            cell.metadata["course"] = {"measured_from": digest([cell.source])}
    for cell in notebook.cells:
        form.fold(cell)
    course = notebook.metadata.get("course", {})
    course |= {"executed_from": code_digest(notebook), "study": form.study_minutes(notebook)}
    notebook.metadata = {
        "course": course,
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    after = nbformat.writes(notebook) + "\n"
    if after != before:
        write_atomically(path, after)
    return after != before


def _is_current(cell: Any) -> bool:
    return bool(cell.outputs) and cell.metadata.get("course", {}).get("measured_from") == digest([cell.source])


def _clean(output: Any, number: int) -> Any:
    """An output without live widgets; None for one that held nothing else, such as a finished progress bar."""
    if "data" in output:
        output.data.pop(_WIDGET, None)
        if not output.data or _PROGRESS_BAR.search(output.data.get("text/plain", "")):
            return None
    if output.get("name") == "stderr" and _PROGRESS_BAR.search(output.text):
        return None
    if "execution_count" in output:
        output.execution_count = number
    return output


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.publish.notebooks", description="Execute lectures and refresh their outputs."
    )
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all lectures)")
    parser.add_argument("--fresh", action="store_true", help="measure the cells tagged 'measured' anew")
    arguments = parser.parse_args()
    for path in arguments.paths or lectures():
        print(f"{path.name} … ", end="", flush=True)
        print("changed" if refresh(path, arguments.fresh) else "unchanged")


if __name__ == "__main__":
    main()

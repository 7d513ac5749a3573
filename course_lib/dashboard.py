"""Shows a lecture's figures with controls and clickable pictures, and nothing else, with Voilà: python -m course_lib.dashboard 06"""

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat

from course_lib import notebooks

_WIDGETS = ("[interactive figure", "[clickable picture]")


def dashboard(notebook: Any) -> Any:
    """A copy of a lecture that runs all of its code, except exercises, and shows its title, and each widget under its heading."""
    made = nbformat.v4.new_notebook(metadata=notebook.metadata)
    heading = ""
    for cell in notebook.cells:
        if "exercise" in cell.metadata.get("tags", []):
            continue
        if cell.cell_type == "markdown":
            found = re.findall(r"^#+ .*$", cell.source, re.MULTILINE)
            heading = found[-1] if found else heading
            if cell is notebook.cells[0]:
                made.cells.append(nbformat.v4.new_markdown_cell(heading))
        elif _shows_widget(cell):
            if heading:
                made.cells.append(nbformat.v4.new_markdown_cell(heading))
            made.cells.append(nbformat.v4.new_code_cell(cell.source))
            heading = ""
        else:
            made.cells.append(nbformat.v4.new_code_cell(f"%%capture\n{cell.source}"))
    return made


def _shows_widget(cell: Any) -> bool:
    return any(str(o.get("data", {}).get("text/plain", "")).startswith(_WIDGETS) for o in cell.outputs)


def command(path: Path, *flags: str) -> list[str]:
    """How Voilà is started on a notebook."""
    return [sys.executable, "-m", "voila", str(path), "--Voila.ip=127.0.0.1", *flags]


def _prepare(folder: Path, path: Path, flags: list[str]) -> tuple[list[str], dict[str, str]]:
    target = folder / path.name
    nbformat.write(dashboard(nbformat.read(path, as_version=4)), target)
    print(f"the widgets of {path.stem} open in the browser when all cells have run; stop with Ctrl+C")
    return command(target, *flags), dict(os.environ)


if __name__ == "__main__":
    sys.exit(notebooks.serve("dashboard", "A lecture's widgets, alone.", _prepare))

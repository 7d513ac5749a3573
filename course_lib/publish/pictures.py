"""Brings the saved pictures of a lecture alive on a page without a kernel."""

from pathlib import Path
from typing import Any

import nbformat

from course_lib.widgets.clickable import page_html


def bring_alive(notebook: Any) -> None:
    """Put clickable pictures in the place of their stills, and a line above each figure under controls that says how to move it.

    Raises ValueError for a picture whose data is not saved with it.
    """
    for cell in notebook.cells:
        for output in list(cell.get("outputs", [])):
            words = str(output.get("data", {}).get("text/plain", ""))
            if words.startswith("[clickable picture]"):
                output.data = nbformat.from_dict({"text/html": html(output)})
                output.metadata = nbformat.from_dict({})
            elif words.startswith("[interactive figure"):
                controls = words.partition("]")[0].removeprefix("[interactive figure: ")
                note = f"To move its controls ({controls}), open the lecture in JupyterLab on a computer: <code>make lab</code>."
                above = nbformat.v4.new_output("display_data", {"text/html": f'<p class="note">{note}</p>'})
                cell.outputs.insert(cell.outputs.index(output), above)


def first(path: Path) -> str:
    """The first clickable picture of a lecture, as HTML. Raises StopIteration if it has none."""
    cells = nbformat.read(path, as_version=4).cells
    return next(html(o) for cell in cells for o in cell.get("outputs", []) if "clickable" in o.get("metadata", {}))


def html(output: Any) -> str:
    """A saved clickable picture as HTML. Raises ValueError if its data is not saved with it."""
    if "clickable" not in output.metadata:
        raise ValueError(f"{output.data['text/plain']!r} is saved without its data; run make notebooks")
    return page_html(**output.metadata["clickable"])

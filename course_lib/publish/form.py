"""The form of a page: what is folded, and how long a reader takes who works alone."""

import re
from typing import Any

# Tags that MyST-NB and JupyterLab's own metadata say differently: tag -> what a cell's 'jupyter' metadata says.
FOLDS = {
    "hide-input": {"source_hidden": True},
    "hide-output": {"outputs_hidden": True},
    "hide-cell": {"source_hidden": True, "outputs_hidden": True},
}


def fold(cell: Any) -> None:
    """Set a cell's ``metadata.jupyter``, which JupyterLab folds by, to what its tags say."""
    said = {name: True for tag in cell["metadata"].get("tags", []) for name in FOLDS.get(tag, {})}
    if said:
        cell["metadata"]["jupyter"] = said
    else:
        cell["metadata"].pop("jupyter", None)


def predictions(notebook: Any) -> int:
    """How many predictions a page asks for, in its markdown."""
    return sum(len(re.findall(r"\*\*(?:Predict|Guess)", text)) for text in _prose(notebook))


def visible_code(cell: Any) -> int:
    """Lines of a code cell that are neither blank nor folded."""
    folded = {"hide-input", "hide-cell"} & set(cell["metadata"].get("tags", []))
    return 0 if folded else sum(bool(line.strip()) for line in _text(cell["source"]).splitlines())


def study_minutes(notebook: Any) -> int:
    """Minutes of a reader who works alone, exercises and folds apart, to the next five.

    Words / 120 + 3 · predictions + visible lines of code / 7 + words of output / 100 + 2 · figures.
    """
    words = sum(len(text.split()) for text in _prose(notebook))
    code = output = figures = 0
    for cell in _own(notebook):
        if cell["cell_type"] == "code":
            code += visible_code(cell)
            if not {"hide-output", "hide-cell"} & set(cell["metadata"].get("tags", [])):
                output += sum(len(_shown(out).split()) for out in cell["outputs"])
                figures += sum(
                    bool({"image/png", "image/svg+xml"} & set(out.get("data", {}))) for out in cell["outputs"]
                )
    minutes = words / 120 + 3 * predictions(notebook) + code / 7 + output / 100 + 2 * figures
    return 5 * max(1, round(minutes / 5))


def _own(notebook: Any) -> list[Any]:
    """The cells of the page itself: without its exercises and what is folded."""
    return [cell for cell in notebook["cells"] if not {"exercise", "hide-cell"} & set(cell["metadata"].get("tags", []))]


def _prose(notebook: Any) -> list[str]:
    return [
        re.sub(r"<details>.*?</details>", "", _text(cell["source"]), flags=re.DOTALL)
        for cell in _own(notebook)
        if cell["cell_type"] == "markdown"
    ]


def _shown(output: Any) -> str:
    data = output.get("data", {})
    text = _text(output.get("text", "")) or _text(data.get("text/markdown", ""))
    bare = re.sub(r"<(script|style).*?</\1>", "", _text(data.get("text/html", "")), flags=re.DOTALL)
    return text or re.sub(r"<[^>]+>", " ", bare)


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)

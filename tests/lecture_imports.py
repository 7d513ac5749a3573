"""What the lectures take from course_lib: what the book's reference has to hold."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import nbformat

from course_lib.publish.notebooks import NOTEBOOKS


def used(paths: Iterable[Path]) -> dict[str, list[str]]:
    """By module, the public names that the code cells of lectures import from it or reach through it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        cells = nbformat.read(path, as_version=4).cells
        tree = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
                for alias in node.names:
                    if _is_module(f"{node.module}.{alias.name}"):
                        modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    else:
                        found[str(node.module)].add(alias.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                base, *names = _names(node)
                module = modules.get(base, "")
                while module and names and _is_module(f"{module}.{names[0]}"):
                    module = f"{module}.{names.pop(0)}"
                if module and names:
                    found[module].add(names[0])
    public = {module: sorted(name for name in names if name[0] != "_") for module, names in sorted(found.items())}
    return {module: names for module, names in public.items() if names}


def _names(node: ast.expr) -> list[str]:
    """['a', 'b', 'c'] of a.b.c; [''] of what is no such chain."""
    if isinstance(node, ast.Attribute):
        return [*_names(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def _is_module(name: str) -> bool:
    file = NOTEBOOKS.parent.joinpath(*name.split("."))
    return file.with_suffix(".py").is_file() or (file / "__init__.py").is_file()

"""The functions that a page defines, without running the page: what they need is executed, and nothing else."""

import ast
import linecache
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from IPython.core.inputtransformer2 import TransformerManager


class Definitions(NamedTuple):
    """The names that could be defined, and for those that could not the reason: 'NameError: … (cell 12)'."""

    space: dict[str, Any]
    errors: dict[str, str]


def definitions(sources: Sequence[str], wanted: Iterable[str]) -> Definitions:
    """Define ``wanted`` from the code cells ``sources``, with all imports, functions and constants that these use.

    A cell that is no Python is left out. Of a name that is bound twice the last one counts, as it would in the notebook.
    """
    statements = _needed(sources, wanted)
    space: dict[str, Any] = {"__name__": "notebook"}
    errors: dict[str, str] = {}
    for number, node in statements:
        names = _bound(node)
        try:
            exec(compile(ast.Module([node], []), _file(number), "exec"), space)
        except BaseException as error:  # SystemExit as well: this is somebody's page
            errors |= dict.fromkeys(names, f"{type(error).__name__}: {error} (cell {number})")
        else:
            errors = {name: words for name, words in errors.items() if name not in names}
    return Definitions(space, errors)


def script(sources: Sequence[str], wanted: Iterable[str]) -> str:
    """The same as the text of a file of its own, without Triton's names, which the course's library hands on."""
    nodes = [node for _, node in _needed(sources, wanted) if not _bound(node) <= {"tl", "triton"}]
    return ast.unparse(ast.Module(nodes, []))


def _needed(sources: Sequence[str], wanted: Iterable[str]) -> list[tuple[int, ast.stmt]]:
    """The statements that ``wanted`` are made of, each with the number of its cell, in order."""
    statements = [(number, node) for number, source in enumerate(sources, 1) for node in _statements(number, source)]
    needed, before = {*wanted, "*"}, 0
    while len(needed) != before:
        before = len(needed)
        for _, node in statements:
            if _bound(node) & needed:
                needed |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return [(number, node) for number, node in statements if _bound(node) & needed]


def _file(number: int) -> str:
    return f"<code cell {number}>"


def _statements(number: int, source: str) -> list[ast.stmt]:
    """The statements of a cell, whose source can be read back by its file's name."""
    try:
        plain = TransformerManager().transform_cell(source)
        nodes = ast.parse(plain).body
    except (SyntaxError, ValueError):
        return []
    linecache.cache[_file(number)] = (len(plain), None, plain.splitlines(keepends=True), _file(number))
    return nodes


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement gives a value to; '*' for an import of all names."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    inner = [n for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt) for n in _bound(child)]
    stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {*inner, *stored}

"""The functions that a page defines, without running the page: what they need is executed, and nothing else."""

import ast
import dis
import linecache
import types
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
        names = _names(node)[0]
        try:
            exec(compile(ast.Module([node], []), _file(number), "exec"), space)
        except BaseException as error:  # SystemExit as well: this is somebody's page
            errors |= dict.fromkeys(names, f"{type(error).__name__}: {error} (cell {number})")
        else:
            errors = {name: words for name, words in errors.items() if name not in names}
    return Definitions(space, errors)


def script(sources: Sequence[str], wanted: Iterable[str]) -> str:
    """The same as the text of a file of its own, without Triton's names, which the course's library hands on."""
    nodes = [node for _, node in _needed(sources, wanted) if not _names(node)[0] <= {"tl", "triton"}]
    return ast.unparse(ast.Module(nodes, []))


def _needed(sources: Sequence[str], wanted: Iterable[str]) -> list[tuple[int, ast.stmt]]:
    """The statements that ``wanted`` are made of, each with the number of its cell, in order."""
    statements = [
        (number, node, *_names(node))
        for number, source in enumerate(sources, 1)
        for node in _statements(number, source)
    ]
    needed, before = {*wanted, "*"}, 0
    while len(needed) != before:
        before = len(needed)
        for _, _, bound, used in statements:
            if bound & needed:
                needed |= used
    return [(number, node) for number, node, bound, _ in statements if bound & needed]


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


def _names(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the page that a statement gives a value to, and those whose value it, or a function it defines, asks for.

    '*' is bound by an import of all names.
    """
    try:
        code = compile(ast.Module([node], []), "<names>", "exec")
    except (SyntaxError, ValueError):  # a break outside a loop, say: running it says so
        return frozenset({str(getattr(node, "name", ""))}), frozenset()
    bound, used = set(), set()
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        bound.add("*")
    todo = [code]
    while todo:
        part = todo.pop()
        todo += [constant for constant in part.co_consts if isinstance(constant, types.CodeType)]
        for step in dis.get_instructions(part):
            if step.opname in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
                used.add(step.argval)
            elif step.opname == "STORE_GLOBAL" or (step.opname == "STORE_NAME" and part is code):
                bound.add(step.argval)
    return frozenset(bound), frozenset(used)

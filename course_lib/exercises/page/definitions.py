"""The functions that a page defines, without running the page: what they need is executed, and nothing else.

A name needs the statements that bind it and those that change what it holds (``changes.py`` says which these are), in their order,
and whatever these need. What a page has below the last ``check(name)`` neither binds nor changes anew what was there before: the check
saw it as it was. Cells under ``%%time``, ``%%capture`` and ``%%prun`` are cells.
"""

import __future__

import ast
import asyncio
import builtins
import dis
import inspect
import linecache
import types
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

from course_lib.exercises.page.changes import Changes

RUN_BY_MAGIC = ("time", "capture", "prun")  # with their argument as code of the page


class Definitions(NamedTuple):
    """The names that could be defined, and for those that could not the reason: 'NameError: … (cell 12)'."""

    space: dict[str, Any]
    errors: dict[str, str]


class _Step(NamedTuple):
    """A statement with the number of its cell and the names that it binds, changes and uses."""

    number: int
    node: ast.stmt
    bound: frozenset[str]
    changed: frozenset[str]
    used: frozenset[str]


def definitions(sources: Sequence[str], wanted: Iterable[str], own: str = "") -> Definitions:
    """Define ``wanted`` from the code cells ``sources``, with all imports, functions and constants that these use.

    A cell that is no Python is left out. Of a name that is bound twice the last one counts that a check saw; ``own``: the source of
    the function that this check sees, if several do. An exception leaves out its statement.
    """
    return needed(sources, list(wanted), own).executed()


class Statements(NamedTuple):
    """The statements that names are made of, in order, and the flags that all are compiled with."""

    steps: list[_Step]
    flags: int

    def executed(self) -> Definitions:
        """The names."""
        space: dict[str, Any] = {"__name__": "__main__"}  # as a notebook is called
        errors: dict[str, str] = {}
        for step in self.steps:
            try:
                code = _compiled(step.node, _file(step.number), self.flags)
                if code.co_flags & inspect.CO_COROUTINE:
                    asyncio.run(eval(code, space))
                else:
                    exec(code, space)
            except BaseException as error:  # SystemExit as well: this is somebody's page
                errors |= dict.fromkeys(step.bound, f"{type(error).__name__}: {error} (cell {step.number})")
            else:
                errors = {name: words for name, words in errors.items() if name not in step.bound}
        return Definitions(space, errors)


def script(sources: Sequence[str], wanted: Iterable[str], own: str = "") -> str:
    """The same as the text of a file of its own, without Triton's names, which the course's library hands on."""
    steps = needed(sources, list(wanted), own).steps
    return ast.unparse(ast.Module([s.node for s in steps if not s.bound or not s.bound <= {"tl", "triton"}], []))


def needed(sources: Sequence[str], wanted: Sequence[str], own: str = "") -> Statements:
    """What ``wanted`` are made of; nothing of it is run."""
    nodes = [(number, node) for number, source in enumerate(sources, 1) for node in _statements(number, source)]
    flags = 0
    for _, node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            flags |= sum(getattr(__future__, alias.name).compiler_flag for alias in node.names)
    changes = Changes([node for _, node in nodes])
    steps = [
        _Step(number, node, bound, changes.of(node), used)
        for number, node in nodes
        for bound, used in [_names(node, flags)]
    ]
    last = _last_check(nodes, wanted, own)
    before = {name for step in steps[: last + 1] for name in step.bound}
    steps[last + 1 :] = [s._replace(bound=s.bound - before, changed=s.changed - before) for s in steps[last + 1 :]]
    names, size = set(wanted), 0
    everywhere = {name for step in steps for name in step.bound}
    while len(names) != size:
        size = len(names)
        for step in steps:
            if (step.bound | step.changed) & names:
                names |= step.used
        if any(name not in everywhere and not hasattr(builtins, name) for name in names):
            names.add("*")
    return Statements([step for step in steps if (step.bound | step.changed) & names], flags)


def _last_check(nodes: Sequence[tuple[int, ast.stmt]], wanted: Sequence[str], own: str) -> int:
    """The place of the last statement that checks one of ``wanted``, as its own source defines it if that is on the page; else the end."""
    meant = _plain(own)
    found, at_own, now = len(nodes), None, ""
    for i, (_, node) in enumerate(nodes):
        for part in ast.walk(node):
            if isinstance(part, ast.FunctionDef) and part.name in wanted:
                now = ast.unparse(part)
            elif isinstance(part, ast.Call) and _checks(part) & set(wanted):
                found, at_own = i, i if now == meant else at_own
    return found if at_own is None else at_own


def _checks(call: ast.Call) -> set[str]:
    """The name that a call of ``check`` is given."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return {x.id for x in given if isinstance(x, ast.Name)} if name == "check" else set()


def _plain(source: str) -> str:
    try:
        return ast.unparse(ast.parse(source))
    except (SyntaxError, ValueError):
        return ""


def _file(number: int) -> str:
    return f"<code cell {number}>"


def _statements(number: int, source: str) -> list[ast.stmt]:
    """The statements of a cell, whose source can be read back by its file's name."""
    try:
        plain = TransformerManager().transform_cell(source.removeprefix("\ufeff"))
        nodes = ast.parse(plain).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if len(nodes) == 1 and (body := _under_magic(nodes[0], "run_cell_magic")) is not None:
        return _statements(number, body)
    linecache.cache[_file(number)] = (len(plain), None, plain.splitlines(keepends=True), _file(number))
    found: list[ast.stmt] = []
    for node in nodes:
        line = _under_magic(node, "run_line_magic")
        try:
            found += (
                [node] if line is None else [ast.increment_lineno(x, node.lineno - 1) for x in ast.parse(line).body]
            )
        except (SyntaxError, ValueError):
            continue
    return found


def _under_magic(node: ast.stmt, method: str) -> str | None:
    """The code that a magic runs as a part of the page."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == method:
        given = [part.value for part in call.args if isinstance(part, ast.Constant)]
        if len(given) > 1 and given[0] in RUN_BY_MAGIC:
            return str(given[-1])
    return None


def _compiled(node: ast.stmt, file: str, flags: int) -> types.CodeType:
    awaits = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as a notebook does
    return compile(ast.Module([node], []), file, "exec", flags=flags | awaits, dont_inherit=True)


def _names(node: ast.stmt, flags: int) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the page that a statement gives a value to, and those whose value it, or a function it defines, asks for.

    '*' is bound by an import of all names.
    """
    try:
        code = _compiled(node, "<names>", flags)
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

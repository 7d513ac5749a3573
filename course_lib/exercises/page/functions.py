"""What a student hands in, looked at without running any code of it: its Python function, its name, source and page."""

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython import get_ipython

DEEPEST = 9  # things around a function


def inside(function: Any) -> types.FunctionType | None:
    """The Python function in a Triton kernel, or in what wraps one; None if there is none."""
    for _ in range(DEEPEST):
        if type(function) is types.FunctionType:
            return function
        named = (inspect.getattr_static(function, name, None) for name in ("fn", "__wrapped__"))
        function = next((found for found in named if found is not None), None)
    return None


def name_of(function: Any) -> str:
    """The name of a function, a kernel, or of what wraps one; '' if it has none."""
    name = inspect.getattr_static(function, "__name__", None)
    inner = inside(function)
    name = inner.__name__ if inner is not None and type(name) is not str else name
    return name if type(name) is str else ""


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Its arguments; None where only a call can tell."""
    try:
        return inspect.signature(_own(function))
    except (TypeError, ValueError):
        return None


def source_of(function: Callable[..., Any]) -> str:
    """The function's own code, dedented; '' if there is none to read. For a Triton kernel, that of the Python function."""
    try:
        return textwrap.dedent(inspect.getsource(_own(function)))
    except (OSError, TypeError, ValueError):  # ValueError: what wraps itself
        return ""


def untouched(function: Callable[..., Any], stub: str) -> bool:
    """Whether it is still the stub: a docstring and three dots, or what else stands there."""
    try:
        found = _first_function(source_of(function))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if found is None:
        return False
    given = _first_function(stub)
    return _empty(found) or (given is not None and ast.dump(found) == ast.dump(given))


def to_be_mended(stub: str) -> bool:
    """Whether a stub has a body, which runs, instead of three dots."""
    given = _first_function(stub)
    return given is not None and not _empty(given)


def none_is_meant(source: str, stub: str) -> bool:
    """Whether a function says that it returns None, or returns something where its stub allows None, too: then no return is missing."""
    given = _first_function(stub)
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    own = [x for x in nodes if given and isinstance(x, ast.FunctionDef) and x.name == given.name]
    found = [node.value for x in own[-1:] for node in ast.walk(x) if isinstance(node, ast.Return) and node.value]
    if any(isinstance(value, ast.Constant) and value.value is None for value in found):
        return True
    return bool(found) and given is not None and given.returns is not None and "None" in ast.unparse(given.returns)


def _empty(function: ast.FunctionDef) -> bool:
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in function.body)


def _first_function(source: str) -> ast.FunctionDef | None:
    return next((node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)), None)


def page_of(function: Callable[..., Any]) -> list[str]:
    """The code of the page that a function is defined on: a file, or the cells of a notebook that have been run."""
    try:
        file = Path(inspect.unwrap(_own(function)).__code__.co_filename)
    except (TypeError, ValueError):
        file = Path()
    shell = get_ipython()
    if file.is_file():  # imported, or %run
        return [file.read_text(encoding="utf-8")]
    if shell is not None:
        return list(shell.history_manager.input_hist_parsed)  # In, if the page does not call something else so
    return [source_of(function)]


def _own(function: Any) -> types.FunctionType:
    """Raises TypeError for what is no Python function, nor has one inside."""
    found = inside(function)
    if found is None:
        raise TypeError("no Python function")
    return found

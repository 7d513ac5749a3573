"""Shows code of the library on a page, highlighted, straight from its file."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.display import Code


def source(thing: Callable[..., Any]) -> Code:
    """The source of a function, class or Triton kernel of the library, highlighted, with its file and line."""
    function = getattr(thing, "fn", thing)
    if not callable(function):
        raise TypeError(f"got a {type(thing).__name__}; pass a function, a class or a kernel")
    lines, first = inspect.getsourcelines(function)
    path = Path(inspect.getsourcefile(function) or "")
    where = path.relative_to(Path(__file__).parents[1]) if path.is_relative_to(Path(__file__).parents[1]) else path.name
    return Code(f"# {where}, line {first}\n" + "".join(lines), language="python")

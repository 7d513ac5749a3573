"""Shows code of the library on a page, highlighted, straight from its file."""

import difflib
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from IPython.display import Markdown

_ROOT = Path(__file__).resolve().parents[2]
_FORMATTER = re.compile("  # fmt: skip$", re.MULTILINE)  # says nothing to a reader


def source(thing: Callable[..., Any]) -> Markdown:
    """The source of a function, class or Triton kernel of the library, highlighted, under its file's name."""
    function = _written(thing)
    return _listing(Path(inspect.getsourcefile(function) or "").resolve(), "python", inspect.getsource(function), ())


def _written(thing: Any) -> Callable[..., Any]:
    """The Python function of a kernel, or the function or class itself."""
    return getattr(thing, "fn", thing)  # type: ignore[no-any-return]


def difference(old: Callable[..., Any], new: Callable[..., Any]) -> Markdown:
    """The lines in which the sources of two functions or kernels differ, their names apart, as a highlighted diff."""
    functions = [_written(thing) for thing in (old, new)]
    name = f"def {functions[1].__name__}("
    a, b = (inspect.getsource(f).replace(f"def {f.__name__}(", name, 1).splitlines() for f in functions)
    lines = [line for line in difflib.unified_diff(a, b, n=1, lineterm="") if not line.startswith(("---", "+++"))]
    return Markdown("```diff\n" + "\n".join(lines) + "\n```")


def excerpt(path: Path, first: str, last: str, new: Sequence[str] = ()) -> Markdown:
    """The lines of a file from the one that holds ``first`` up to the next one that holds ``last``, without the latter.

    With ``new`` the listing is a diff: lines that hold one of these words are marked as added.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines) if i > begin and last in line)
    while lines[end - 1].lstrip().startswith("@") or not lines[end - 1].strip():
        end -= 1  # a decorator belongs to what follows
    return _listing(path, path.suffix.lstrip("."), textwrap.dedent("\n".join(lines[begin:end])), new)


def _listing(path: Path, language: str, code: str, new: Sequence[str]) -> Markdown:
    where = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path.name
    code = _FORMATTER.sub("", code)
    if new:
        marked = (("+ " if any(word in line for word in new) else "  ") + line for line in code.splitlines())
        code, language = "\n".join(marked), "diff"
    return Markdown(f"`{where}`\n\n```{language}\n{code.rstrip()}\n```")

"""A folder of students' work: what lies in it, whatever that is, looked at without following links and without waiting for anything."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LARGEST = 32 << 20  # bytes of a notebook
PARTS = 1_000_000  # of it, each of which takes a hundred times the memory that it takes in the file
CHECKPOINTS = ".ipynb_checkpoints"


class NotebookError(ValueError):
    """A file is no notebook; the words say why."""


class Work(NamedTuple):
    """A notebook that was handed in, by its path in the folder; cells: its code, None where it cannot be read for the reason ``words``."""

    name: str
    cells: list[str] | None = None
    words: str = ""

    @property
    def student(self) -> str:
        """Whose it is: the first folder on the way, or the file's own name where it lies in none."""
        first, _, rest = self.name.partition("/")
        return first if rest else first.removesuffix(".ipynb")


def collected(folder: Path) -> list[Work]:
    """All notebooks in a folder and below it, by name, and what stands where one could be: a link, a folder that is closed.

    Raises ValueError for what is no folder, or holds no notebook.
    """
    if not folder.is_dir():
        raise ValueError(f"folder is {str(folder)!r}; pass a folder of notebooks")
    found = sorted(_below(folder, ""), key=lambda work: work.name)
    if not found:
        raise ValueError(f"folder is {str(folder)!r}, which holds no notebook (*.ipynb)")
    return found


def _below(folder: Path, inside: str) -> Iterator[Work]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        yield Work(inside or ".", None, f"a folder that cannot be opened: {error.strerror}")
        return
    for entry in entries:
        name = f"{inside}/{entry.name}" if inside else entry.name
        notebook = entry.name.endswith(".ipynb")
        if entry.name == CHECKPOINTS:
            continue
        if entry.is_symlink():
            if notebook or _is_folder(entry):
                yield Work(name, None, "a link, which is not followed: hand in the file itself")
        elif entry.is_dir(follow_symlinks=False):
            if notebook:
                yield Work(name, None, "a folder, not a notebook")
            if name.count("/") < 30:
                yield from _below(Path(entry.path), name)
            else:
                yield Work(name, None, "a folder in more than thirty others")
        elif notebook:
            yield Work(name)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def read(folder: Path, work: Work) -> Work:
    """The same with its code, or why there is none."""
    if work.words:
        return work
    try:
        return work._replace(cells=_code(json.loads(_text(folder, work.name))))
    except OSError as error:
        return work._replace(words=f"cannot be read: {error.strerror}")
    except NotebookError as error:
        return work._replace(words=str(error))
    except (ValueError, RecursionError, MemoryError) as error:
        return work._replace(words=f"not a notebook: {type(error).__name__}")


def _text(folder: Path, name: str) -> str:
    descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise NotebookError("not a file")
        data = file.read(LARGEST + 1) if about.st_size <= LARGEST else b" " * (LARGEST + 1)
        if len(data) > LARGEST:
            raise NotebookError(f"larger than {LARGEST >> 20} MB: clear its outputs and hand it in again")
        if data.count(b"{") + data.count(b"[") > PARTS:
            raise NotebookError(
                "not a notebook that anybody wrote: it has too many parts; clear its outputs and hand it in again"
            )
        return data.decode("utf-8-sig")


def _code(page: Any) -> list[str]:
    """The code cells of a notebook of format 4. Raises NotebookError for anything else."""
    cells = page.get("cells") if isinstance(page, dict) else None
    if not isinstance(cells, list):
        raise NotebookError("not a notebook of format 4: open it in JupyterLab and save it")
    found = []
    for cell in cells:
        if not isinstance(cell, dict):
            raise NotebookError("not a notebook: a cell is none")
        source = cell.get("source")
        lines = source if isinstance(source, list) else [source]
        if not all(isinstance(line, str) for line in lines):
            raise NotebookError("not a notebook: a cell has no text")
        if cell.get("cell_type") == "code":
            found.append("".join(map(str, lines)))
    return found

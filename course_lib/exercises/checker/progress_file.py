"""What has been passed, and the code that passed, in a file of the student's own that git ignores."""

import contextlib
import itertools
import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course_lib.files import ROOT, write_atomically

try:
    import fcntl
except ImportError:  # Windows: two notebooks at once may lose an entry
    fcntl = None  # type: ignore[assignment]

CODE = "code"  # the entry with the code of what has passed, exercise -> text
PATIENCE = 5.0  # seconds for another notebook to finish writing


def path() -> Path:
    """``.progress.json`` in the course's folder, or where COURSE_PROGRESS says."""
    return Path(os.environ.get("COURSE_PROGRESS") or ROOT / ".progress.json")


def load() -> dict[str, str]:
    """exercise -> 'passed' or 'failed'; empty where there is no file, or none that can be read, with a warning of the latter."""
    found = _read()
    if found is None:
        _warn(f"{path()} cannot be read; it is kept aside when the next result is saved")
    return {name: status for name, status in (found or {}).items() if status in ("passed", "failed")}


def code(name: str) -> str:
    """The code with which an exercise was last passed, with what it needs of its page; '' if none was kept."""
    kept = (_read() or {}).get(CODE)
    found = kept.get(name) if isinstance(kept, dict) else None
    return found if isinstance(found, str) else ""


def save(name: str, status: str, code: str = "") -> None:
    """Note a result; what has been passed stays passed. ``code`` is kept if it has passed. A folder that cannot be written is no error.

    A file that cannot be read is renamed to ….broken-1 or the next free number, with a warning, before a new one is begun.
    """
    with contextlib.suppress(OSError, ValueError):
        if path().exists() and not path().is_file():
            return  # /dev/null, say
        _save(name, status, code)


def _save(name: str, status: str, code: str) -> None:
    with _locked():
        known = _read()
        if known is None:
            known = _aside()
        new = known if known.get(name) == "passed" else known | {name: status}
        if code and status == "passed":
            kept = known.get(CODE)
            new = new | {CODE: (kept if isinstance(kept, dict) else {}) | {name: code}}
        if new != known:
            write_atomically(path(), json.dumps(new, indent=1))


def _read() -> dict[str, Any] | None:
    """All that is in the file, {} where there is none; None where it cannot be read."""
    try:
        text = path().read_text(encoding="utf-8") if path().is_file() else ""
        found = json.loads(text) if text.strip() else {}
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _aside() -> dict[str, Any]:
    """Rename the file, so that nothing in it is lost."""
    free = next(p for n in itertools.count(1) if not (p := path().with_name(f"{path().name}.broken-{n}")).exists())
    path().rename(free)
    _warn(f"{path()} could not be read: it is kept as {free.name}, and progress begins anew")
    return {}


def _warn(words: str) -> None:
    """Also on a page that turns warnings into exceptions: a result is to be saved."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(words, stacklevel=2)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Only one process at a time, as far as there are locks."""
    if fcntl is None:
        yield
        return
    with path().with_name(f"{path().name}.lock").open("a") as file:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:  # a file system without locks
                break
        yield

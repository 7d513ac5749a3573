"""What a student has passed, a file for each exercise with the code that did; what earlier editions noted counts, too."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from course_lib.files import ROOT, write_atomically


def folder() -> Path:
    """``.progress`` in the course's folder, or where COURSE_PROGRESS says."""
    return Path((os.environ.get("COURSE_PROGRESS") or str(ROOT / ".progress")).removesuffix(".json"))


def names() -> set[str]:
    """The exercises that have been passed."""
    earlier = _earlier()
    return {path.stem for path in folder().glob("*.py")} | {name for name in earlier if earlier[name] == "passed"}


def code(name: str) -> str:
    """The code with which an exercise was last passed, with what it needs of its page; '' if none was kept."""
    with contextlib.suppress(OSError, ValueError):
        return (folder() / f"{name}.py").read_text(encoding="utf-8")
    kept = _earlier().get("code")
    found = kept.get(name) if isinstance(kept, dict) else ""
    return found if isinstance(found, str) else ""


def keep(name: str, text: str) -> None:
    """Note that an exercise has been passed. A folder that cannot be written, or a text that cannot, is no error."""
    with contextlib.suppress(OSError, ValueError):
        folder().mkdir(parents=True, exist_ok=True)
        write_atomically(folder() / f"{name}.py", text)


def _earlier() -> dict[str, Any]:
    """What ``.progress.json`` holds, which earlier editions wrote: exercise -> 'passed' or 'failed', 'code' -> their code."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(Path(f"{folder()}.json").read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}

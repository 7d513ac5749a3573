"""Whether the compiler takes a student's kernel, too: Triton's interpreter accepts more than a GPU does."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_lib.exercises import values
from course_lib.exercises.processes import isolation
from course_lib.exercises.sandbox.answering import COMPILER, kernel_page
from course_lib.files import ROOT

SECONDS = 30.0
_known: dict[tuple[str, str, str], str] = {}


def refusal(page: Sequence[str], name: str, launches: Sequence[Mapping[str, str | int]], own: str = "") -> str:
    """What speaks against the kernel ``name`` of a page when it is compiled for each of the launches; '' if nothing does.

    A launch: the kernel's arguments with Triton's word for their type, or their value where they are constants. own: the source of the
    kernel that is meant, where the page has several. What cannot be compiled, or not in time, is refused: 'could not be compiled: …'.
    Statements that could do more than a kernel needs are left out (``plain_kernels``).
    """
    text, left_out = kernel_page(page, name, own)
    question = text, name, json.dumps([dict(x) for x in launches])
    if question in _known:
        words = _known[question]
    else:
        words, final = _asked(*question)
        if final:
            _known[question] = words
    return f"{words}\n{left_out}" if words and left_out else words


def verdict(said: str) -> str | None:
    """What the compiler says of a kernel, of the text that it wrote; None where that has no end."""
    try:
        return values.printable(json.loads(said.splitlines()[-1])["refused"])
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _asked(text: str, name: str, launches: str) -> tuple[str, bool]:
    """The compiler's words, and whether it would say the same again."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON_") or "CACHE" in key}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *_places()])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, str(COMPILER), str(path), name, launches]
        sent = isolation.forked(lambda: [_run(command, environment, folder)], SECONDS)
    if not sent.messages:
        ended = f"the compiler did not end within {SECONDS:g} seconds; check it again"
        return f"could not be compiled: {ended if sent.ended.startswith('it took') else sent.ended}", False
    code, said, errors = sent.messages[0]
    if code == 0 and (words := verdict(said)) is not None:
        return words, True
    last = errors.strip().splitlines()[-1:] or [f"the compiler ended with code {code}"]
    return f"could not be compiled: {last[0]}", False


def _places() -> list[str]:
    """Where this process, and so a page with modules of its own, imports from."""
    with contextlib.suppress(FileNotFoundError):  # of a folder that is gone
        return [os.path.abspath(place) for place in sys.path]
    return [place for place in sys.path if os.path.isabs(place)]


def _run(command: Sequence[str], environment: Mapping[str, str], folder: str) -> tuple[int, str, str]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout, done.stderr

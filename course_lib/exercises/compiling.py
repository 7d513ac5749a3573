"""Whether the compiler takes a student's kernel, too: Triton's interpreter accepts more than a GPU does."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_lib.exercises.definitions import script

SECONDS = 20.0


def refusal(page: Sequence[str], name: str, arguments: Mapping[str, str | int]) -> str:
    """What the compiler says against the kernel ``name`` of a page; '' where it compiles, or nothing can be said.

    arguments: the kernel's, with Triton's word for their type, or their value where they are constants.
    """
    return _refusal(script(page, [name]), name, json.dumps(dict(arguments)))


@functools.cache
def _refusal(text: str, name: str, arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, str(Path(__file__).with_name("compile_kernel.py")), str(path), name, arguments]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return ""
    return done.stdout.strip() if done.returncode == 0 else ""

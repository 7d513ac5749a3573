"""A file is written whole or not at all."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.files import write_atomically

LOOP = """
import sys
from pathlib import Path
from course_lib.files import write_atomically
letter = 0
while True:
    letter = 1 - letter
    write_atomically(Path(sys.argv[1]), "ab"[letter] * 300_000)
"""


def test_permissions_are_kept_or_as_asked_and_nothing_else_is_left(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.txt"
    before = os.umask(0o022)
    try:
        for mode, asked in ((0o644, None), (0o640, None), (0o600, 0o600)):
            if path.exists():
                path.chmod(mode)
            write_atomically(path, f"größer {mode}", **({"mode": asked} if asked else {}))
            assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (mode, f"größer {mode}".encode())
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("content", ["x" * 300_000, "\ud800"])
def test_what_cannot_be_written_changes_nothing(tmp_path, content) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))  # as on a full disk
    try:
        with pytest.raises((OSError, ValueError), match=r"a\.txt'$|surrogates not allowed"):
            write_atomically(path, content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_at_any_moment_and_after_a_kill_the_file_is_whole(tmp_path) -> None:
    path: Path = tmp_path / "a.txt"
    with subprocess.Popen([sys.executable, "-c", LOOP, str(path)]) as writer:
        end = time.monotonic() + 60
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.002)
        found = {path.read_text() for _ in range(300)}
        writer.kill()
    assert found | {path.read_text()} <= {"a" * 300_000, "b" * 300_000}

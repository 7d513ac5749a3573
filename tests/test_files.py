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


def test_text_and_bytes_and_what_was_there(tmp_path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, "größer\n")
    assert path.read_bytes() == "größer\n".encode()
    write_atomically(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_kept_or_as_asked(tmp_path) -> None:
    path = tmp_path / "a.txt"
    before = os.umask(0o022)
    try:
        write_atomically(path, "a")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        path.chmod(0o640)
        write_atomically(path, "b")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        write_atomically(path, "c", mode=0o600)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_link_stays_one(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a.txt")
    write_atomically(tmp_path / "link", "a")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a.txt").read_text() == "a"


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


def test_killed_at_any_moment_the_file_is_whole(tmp_path) -> None:
    path: Path = tmp_path / "a.txt"
    for delay in (0.0, 0.003, 0.01, 0.02, 0.05):
        with subprocess.Popen([sys.executable, "-c", LOOP, str(path)]) as writer:
            end = time.monotonic() + 20
            while not path.exists() and time.monotonic() < end:
                time.sleep(0.002)
            time.sleep(delay)
            writer.kill()
        assert path.read_text() in ("a" * 300_000, "b" * 300_000)

"""Two gradings never share the numbers of the accounts that students' code runs under."""

import os
import signal
import subprocess
import sys

import pytest

from course_lib.exercises.sandbox import enclosure

pytestmark = pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root has accounts to give")
TAKES = """
import sys, time
from pathlib import Path
from course_lib.exercises.sandbox import enclosure
enclosure.LOCKS, enclosure._owners = Path(sys.argv[1]), set
print(enclosure.free_account()[0], flush=True)
time.sleep(99)
"""


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(enclosure, "LOCKS", tmp_path)
    monkeypatch.setattr(enclosure, "_owners", set)  # another grading may run now


def test_a_number_is_taken_by_one_grading_at_a_time(tmp_path) -> None:
    first, lock = enclosure.free_account()
    second, other = enclosure.free_account()
    assert {first, second} == set(enclosure.ACCOUNTS[:2])
    os.close(lock)
    again, lock = enclosure.free_account()
    assert again == first
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    os.close(lock)
    os.close(other)


def test_a_grading_that_is_killed_gives_its_number_back(tmp_path) -> None:
    command = [sys.executable, "-c", TAKES, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        taken = int(process.stdout.readline())
        number, lock = enclosure.free_account()
        os.close(lock)
        process.send_signal(signal.SIGKILL)
    assert number != taken
    number, lock = enclosure.free_account()
    os.close(lock)
    assert number == taken


def test_a_link_is_not_opened(tmp_path) -> None:
    (tmp_path / f"course-accounts-{enclosure.ACCOUNTS[0]}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        enclosure.free_account()
    assert not (tmp_path / "elsewhere").exists()

"""However grading ends, nothing is left running, and the tables are whole: a signal, the death of the server, a folder that is closed."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_attacks import RIGHT, page, running, way  # noqa: F401 - a fixture

from course_lib import runtime

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.xdist_group("attacks"),
]
WAITS = "import subprocess, time\ndef phase_of(n, buffers):\n    subprocess.Popen(['sleep', '987654'])\n    time.sleep(99)\n"
NEVER = "X = [0 for _ in iter(int, 1)]\ndef phase_of(n, buffers):\n    return X\n"


def sleepers() -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if b"987654" in Path(f"/proc/{int(entry)}/cmdline").read_bytes():
                found.append(int(entry))
    return found


def until(what, seconds=90.0) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(what())


def rows(folder: Path) -> dict[str, str]:
    with (folder / "grades.csv").open(newline="") as file:
        return {
            row["notebook"]: f"{row['status']} {row['words']}"
            for row in csv.DictReader(file)
            if row["exercise"] in ("", "phase_of")
        }


@pytest.fixture
def class_(tmp_path) -> Path:
    folder = tmp_path / "class"
    folder.mkdir()
    folder.chmod(0o700)
    (folder / "a.ipynb").write_text(page(RIGHT))
    (folder / "b.ipynb").write_text(page(WAITS))
    (folder / "c.ipynb").write_text(page(NEVER))
    return folder


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_ended_by_a_signal_it_leaves_nothing(how, way, class_) -> None:  # noqa: F811
    before = running()
    (class_ / "grades.csv").write_text("before")
    command = [sys.executable, "-m", "course_lib.exercises", "grade", "--way", way, str(class_)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as grading:
        assert until(sleepers)
        grading.send_signal(how)
        said, _ = grading.communicate(timeout=60)
    assert until(lambda: running() <= before, 20)
    if how == signal.SIGKILL:
        assert (class_ / "grades.csv").read_text() == "before"
    else:
        assert grading.returncode == 130
        assert set(rows(class_)) == {"a.ipynb", "b.ipynb", "c.ipynb"}
        assert "interrupted" in rows(class_)["c.ipynb"]
        assert b"c.ipynb" in said
    assert [p.name for p in class_.iterdir() if p.name.endswith(".partial")] == []


def test_make_may_be_killed_too(way, class_) -> None:  # noqa: F811
    before = running()
    command = [sys.executable, "-m", "course_lib.exercises", "grade", "--die-with-parent", "--way", way, str(class_)]
    with subprocess.Popen(
        ["bash", "-c", '"$@"; true', "bash", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as shell:
        assert until(sleepers)
        shell.kill()
    assert until(lambda: running() <= before, 20)
    assert until(lambda: (class_ / "grades.csv").exists(), 20)


def test_a_server_that_dies_costs_nobody_a_grade(way, class_) -> None:  # noqa: F811
    (class_ / "c.ipynb").unlink()
    before = running()
    command = [sys.executable, "-m", "course_lib.exercises", "grade", "--way", way, str(class_)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as grading:
        assert until(sleepers)
        for process in running() - before - set(sleepers()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        assert grading.wait(120) == 0
    found = rows(class_)
    assert found["a.ipynb"].startswith("passed")
    assert "did not end" in found["b.ipynb"]
    assert until(lambda: running() <= before, 20)

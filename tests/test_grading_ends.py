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
from attacking import RIGHT, page, running

from course_lib import runtime

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.xdist_group("attacks"),
]
WAITS = (
    "import subprocess\ndef phase_of(n, buffers):\n    subprocess.run(['PLACE/sleeper', '99'], executable='sleep')\n"
)
NEVER = "import time\nX = [time.sleep(9) for _ in iter(int, 1)]\ndef phase_of(n, buffers):\n    return X\n"


def sleepers(place: Path) -> set[int]:
    return running(place / "sleeper")


def until(what, seconds=150.0) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.2)  # each look reads what all processes were started with
    return bool(what())


def rows(folder: Path) -> dict[str, str]:
    with (folder / "grades.csv").open(newline="") as file:
        return {
            row["notebook"]: f"{row['status']} {row['words']}"
            for row in csv.DictReader(file)
            if row["exercise"] in ("", "phase_of")
        }


@pytest.fixture
def class_(tmp_path, place) -> Path:
    folder = tmp_path / "class"
    folder.mkdir()
    folder.chmod(0o700)
    (folder / "a.ipynb").write_text(page(RIGHT))
    (folder / "b.ipynb").write_text(page(WAITS.replace("PLACE", str(place))))
    (folder / "c.ipynb").write_text(page(NEVER))
    return folder


def _heeds_ctrl_c() -> None:
    """Tests that a shell has put into the background ignore it, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# SIGTERM each week: to Python it is what SIGINT is, and the death of make sends it, below. SIGKILL, too: test_kills.py sends many.
@pytest.mark.parametrize(
    "how", [signal.SIGINT, *(pytest.param(how, marks=pytest.mark.weekly) for how in (signal.SIGKILL, signal.SIGTERM))]
)
def test_ended_by_a_signal_it_leaves_nothing(how, way, place, class_) -> None:
    environment = os.environ | {"TMPDIR": str(place)}
    (class_ / "grades.csv").write_text("before")
    command = [sys.executable, "-m", "course_lib.exercises", "grade", "--way", way, str(class_)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, preexec_fn=_heeds_ctrl_c
    ) as grading:
        assert until(lambda: sleepers(place))
        grading.send_signal(how)
        said, _ = grading.communicate(timeout=60)
    assert until(lambda: not running(place), 20)
    if how == signal.SIGKILL:
        assert (class_ / "grades.csv").read_text() == "before"
    else:
        assert grading.returncode == 130
        assert set(rows(class_)) == {"a.ipynb", "b.ipynb", "c.ipynb"}
        assert "interrupted" in rows(class_)["c.ipynb"]
        assert b"c.ipynb" in said
    assert [p.name for p in class_.iterdir() if p.name.endswith(".partial")] == []


def test_make_may_be_killed_too(way, place, class_) -> None:
    environment = os.environ | {"TMPDIR": str(place)}
    command = [sys.executable, "-m", "course_lib.exercises", "grade", "--die-with-parent", "--way", way, str(class_)]
    with subprocess.Popen(
        ["bash", "-c", '"$@"; true', "bash", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as shell:
        assert until(lambda: sleepers(place))
        shell.kill()
    assert until(lambda: not running(place), 20)
    assert until(lambda: (class_ / "grades.csv").exists(), 20)


@pytest.mark.weekly
def test_a_server_that_dies_costs_nobody_a_grade(way, place, class_) -> None:
    environment = os.environ | {"TMPDIR": str(place)}
    (class_ / "c.ipynb").unlink()
    command = [sys.executable, "-m", "course_lib.exercises", "grade", "--way", way, str(class_)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as grading:
        assert until(lambda: sleepers(place))
        for process in running(place) - sleepers(place):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        assert grading.wait(120) == 0
    found = rows(class_)
    assert found["a.ipynb"].startswith("passed")
    assert "did not end" in found["b.ipynb"]
    assert until(lambda: not running(place), 20)

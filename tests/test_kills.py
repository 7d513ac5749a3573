"""A command that is killed at a random moment, or finds its disk full there, damages no file, and does its work at the next start.

Weekly, as each start takes seconds. A full disk is a limit on the size of a file, which the kernel answers as it does a full disk.
"""

import csv
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from attacking import RIGHT, page

from course_lib import runtime
from course_lib.files import PARTIAL

ROOT = Path(__file__).resolve().parents[1]
SEED = int(os.environ.get("COURSE_SEED", "0"))
pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(sys.platform != "linux", reason="limits and groups of processes as Linux has them"),
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.xdist_group("kills"),
]
PACKAGES = "course_lib/publish/web/node_modules"
RECORDS = """
from course_lib.recordings import records
for n in range(100):
    records.record("killed", [{"n": n, "text": "x" * 1000}] * 300, "test")
"""


class Command(NamedTuple):
    """arguments: of Python, in a copy of the course; writes: what it writes there; kills, full: how often each happens to it."""

    arguments: list[str]
    writes: str
    kills: int
    full: int


COMMANDS = {
    "notebooks": Command(
        ["-m", "course_lib.publish.notebooks", "notebooks/16_lab_notes.ipynb"], "notebooks/*.ipynb", 10, 3
    ),
    "grade": Command(["-m", "course_lib.exercises", "grade", "class"], "class/*.csv", 10, 3),
    "recordings": Command(["-c", RECORDS], "data/measured/*/killed.json", 10, 3),
    "slides": Command(["-m", "course_lib.publish.decks"], "site/**/*.*", 6, 2),
    "book": Command(["-m", "course_lib.publish.book"], "site/**/*.*", 2, 1),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A copy of the course, with a class that has handed in."""
    folder = tmp_path_factory.mktemp("kills")
    folder.chmod(0o700)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    if (ROOT / PACKAGES).exists():
        (folder / PACKAGES).symlink_to(ROOT / PACKAGES)
    (folder / "class").mkdir(mode=0o700)
    for name in "abc":
        (folder / "class" / f"{name}.ipynb").write_text(page(RIGHT))
    return folder


def start(course: Path, command: Command, limit: int | None = None) -> "subprocess.Popen[str]":
    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, *command.arguments], cwd=course, env=os.environ | {"PYTHONPATH": str(course)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=limited,
    )  # fmt: skip


def whole(path: Path) -> bool:
    """Whether a file is one that a command has finished."""
    text = path.read_bytes()
    if path.suffix == ".ipynb":
        nbformat.validate(nbformat.reads(text.decode(), as_version=4))
    elif path.suffix == ".json":
        json.loads(text)
    elif path.suffix == ".csv":
        return len({len(row) for row in csv.reader(text.decode().splitlines())}) == 1 and text.endswith(b"\n")
    elif path.suffix == ".html":
        return text.rstrip().endswith(b"</html>")
    return bool(text) or path.suffix not in (".js", ".css", ".svg", ".woff2")


def written(course: Path, command: Command) -> Iterator[Path]:
    return (path for path in course.glob(command.writes) if path.is_file() and not path.name.endswith(PARTIAL))


def stale(course: Path, command: Command) -> None:
    """Give the command something to write."""
    if command.writes.endswith(".ipynb"):
        path = course / command.arguments[-1]
        notebook = nbformat.read(path, as_version=4)
        notebook.metadata["course"].pop("executed_from", None)
        path.write_text(nbformat.writes(notebook) + "\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_whatever_stops_a_command_its_files_are_whole(name, course) -> None:
    if name in ("slides", "book") and not (course / PACKAGES).exists() and os.environ.get("COURSE_REQUIRE_WEB") != "1":
        pytest.skip("the web packages are missing: make web fetches them")
    command, draw = COMMANDS[name], random.Random(f"{SEED} {name}")
    stale(course, command)
    begin = time.monotonic()
    with start(course, command) as process:
        assert process.wait() == 0, process.stderr and process.stderr.read()[-2000:]
    seconds = time.monotonic() - begin
    parts = {path: path.read_bytes() for path in written(course, command) if not whole(path)}  # templates, of a theme
    sizes = [path.stat().st_size for path in written(course, command)]
    assert sizes
    for n in range(command.kills + command.full):
        stale(course, command)
        limit = draw.randrange(max(sizes)) if n >= command.kills else None
        with start(course, command, limit) as process:
            if limit is None:
                time.sleep(seconds * draw.uniform(0.4, 1.0))
                os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[1]
        assert limit is None or process.returncode in (0, 1, 2), said
        assert [
            path for path in written(course, command) if not whole(path) and path.read_bytes() != parts.get(path)
        ] == []
    stale(course, command)
    with start(course, command) as process:
        assert process.wait() == 0, process.stderr and process.stderr.read()[-2000:]
    assert [path for path in written(course, command) if not whole(path) and path.read_bytes() != parts.get(path)] == []

"""A class of cheats and vandals with honest students among them: nobody passes without an answer, nobody else is the worse for it.

The pages lie in ``attacks/*.txt``, a section each, for the exercise phase_of if they do not say another. In them CHECKOUT, CLASS, PACKAGES
and PORT stand for this course's folder, that of the class, this Python's packages, and the port of a server that has the solution; RUN
for running the solution's ``text`` that an attack has found.
"""

import contextlib
import csv
import hashlib
import os
import re
import socket
import stat
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from attacking import RIGHT, page, possible, running

from course_lib import runtime
from course_lib.exercises import exercises
from course_lib.exercises.checker.material import material
from course_lib.exercises.processes import landlock
from course_lib.exercises.sandbox import enclosure
from course_lib.files import ROOT

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.xdist_group("attacks"),
]
WEEKLY = {  # they take the longest, and ask for what others of their file ask for, too, or what test_apart.py refuses
    "searches the disk", "searches packages", "imports from the checkout", "links in place of a ring", "whoever judges a step is patched",
}  # fmt: skip
SECTIONS = re.compile(r"^#### (.*)\n", re.MULTILINE)
RUN = "exec(text, space := {})\n    return space['phase_of'](n, buffers)"
STEP = """import torch
from course_lib.exercises.deliverables import deliver
def cached_step(q, k, v, keys, values, turn):
    q, k = (turn(x, 0 if keys is None else keys.shape[2]) for x in (q, k))
    keys, values = (k, v) if keys is None else (torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2))
    return torch.nn.functional.scaled_dot_product_attention(q, keys, values), keys, values
deliver(4, cached_step, answer='By its own, 1, 2, 3. The next query would stand too near.')
"""
KERNEL = "from course_lib.kernels import tl, triton\n"
HONEST = {
    "plain": RIGHT,
    "named": "from typing import NamedTuple\nclass P(NamedTuple):\n    slot: int\n    full: int\n    empty: int\n"
    + RIGHT.replace("return n % buffers, r % 2, 1 - r % 2", "return P(n % buffers, r % 2, 1 - r % 2)"),
    "half": "import torch\n" + exercises()["row_dot"].solution.source,
    "kernel": KERNEL + exercises()["matmul_kernel"].solution.source,
    "memory": "import math\nimport torch\n" + exercises()["packed_group"].solution.source,
    "delivered": STEP,
}
ANSWERS = {"half": "row_dot", "kernel": "matmul_kernel", "memory": "packed_group", "delivered": "cached_step"}


class Class(NamedTuple):
    """What came of grading: the lines of the CSV by notebook, those of the totals, what was printed, and the folder."""

    rows: dict[str, list[dict[str, str]]]
    totals: list[dict[str, str]]
    said: str
    folder: Path
    asked: list[bytes]  # by whoever reached the server


def pages(folder: Path, port: int, place: Path, weekly: bool) -> Iterator[tuple[str, str, str]]:
    """Name, exercise and source of each attack; with those that are left to a weekly run, or without."""
    words = {
        "CHECKOUT": ROOT,
        "CLASS": folder,
        "PLACE": place,
        "PACKAGES": sysconfig.get_path("purelib"),
        "PORT": port,
        "RUN": RUN,
    }
    for path in sorted((Path(__file__).parent / "attacks").glob("*.txt")):
        _, *parts = SECTIONS.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2]):
            title, _, exercise = name.partition(" | ")
            if title in WEEKLY and not weekly:
                continue
            yield title, exercise or "phase_of", re.sub("|".join(words), lambda found: str(words[found[0]]), text)
    known = material(exercises()["phase_of"])
    table = {case.args: right for case, right in zip(known.cases, known.expected)}
    yield "knows the shown cases", "phase_of", f"def phase_of(n, buffers):\n    return {table!r}[n, buffers]"
    yield "half a pair in the page", "phase_of", "X = '\ud800'\ndef phase_of(n, buffers):\n    return X"
    yield "a page too deep", "phase_of", f"X = {'(' * 3000}{')' * 3000}\ndef phase_of(n, buffers):\n    return X"


def odd_files(folder: Path) -> dict[str, str]:
    """Things that are no notebooks, by their names as the table has them, with a word of the reason."""
    made = {}

    def put(name: str, content: bytes | str, words: str = "not a notebook") -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        made[name] = words

    cells = '{"nbformat": 4, "cells": %s}'
    for name, content in {
        "empty": "", "text": "hello", "a list": "[1]", "null source": cells % '[{"cell_type": "code", "source": null}]',
        "no cells": "{}", "cells of numbers": cells % "[1]", "a source of numbers": cells % '[{"cell_type": "code", "source": [1]}]',
        "cells without end": cells % ("[" * 100_000), "binary": b"\xff\x00\xfe", "half": page(RIGHT)[:-20], "a long number": "1" * 9000,
    }.items():  # fmt: skip
        put(f"{name}.ipynb", content)
    put("no exercise.ipynb", cells % "[]", "no exercise")
    put("=HYPERLINK(1).ipynb", "", "not a notebook")
    put("+1.ipynb", "")
    put("-1.ipynb", "")
    put("@x.ipynb", "")
    for odd, shown in (
        ("a\nb  9 9 9.ipynb", "a\\nb  9 9 9.ipynb"),
        ("\x1b[31mred.ipynb", "\\x1b[31mred.ipynb"),
        ("\tx.ipynb", "\\tx.ipynb"),
    ):
        put(odd, "")
        made[shown] = made.pop(odd)
    (folder / os.fsdecode(b"half \xff.ipynb")).write_text("")
    made["half \\udcff.ipynb"] = "not a notebook"
    os.mkfifo(folder / "fifo.ipynb")
    made["fifo.ipynb"] = "not a file"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(folder / "socket.ipynb"))
    made["socket.ipynb"] = "cannot be read"
    for name, target in (("zero", "/dev/zero"), ("a neighbour's", "honest/plain.ipynb"), ("nowhere", "nothing")):
        (folder / f"{name}.ipynb").symlink_to(target)
        made[f"{name}.ipynb"] = "a link"
    (folder / "honest too").symlink_to("honest")
    made["honest too"] = "a link"
    (folder / "folder.ipynb").mkdir()
    made["folder.ipynb"] = "a folder"
    with (folder / "large.ipynb").open("wb") as file:
        file.truncate(1 << 30)
    made["large.ipynb"] = "larger than"
    (folder / "grades.csv").symlink_to("honest/plain.ipynb")
    if os.getuid():
        put("closed.ipynb", page(RIGHT), "cannot be read")
        (folder / "closed.ipynb").chmod(0)
    return made


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A server that tells everybody the answer; its port, and what it was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                guest, _ = server.accept()
                asked.append(b"?")
                guest.sendall(RIGHT.encode())
                guest.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def graded(way, place, tmp_path_factory, pytestconfig) -> Class:
    folder = tmp_path_factory.mktemp(f"class-{way}")
    folder.chmod(0o700)
    (folder / "honest").mkdir()
    for name, source in HONEST.items():
        number = ANSWERS.get(name, "phase_of")
        (folder / "honest" / f"{name}.ipynb").write_text(page(source, number))
    with listening() as (port, asked):
        for name, exercise, source in pages(folder, port, place, "not weekly" not in pytestconfig.option.markexpr):
            (folder / "cheats").mkdir(exist_ok=True)
            (folder / "cheats" / f"{name.replace('/', '_')}.ipynb").write_text(page(source, exercise))
        odd_files(folder)
        before = digests(folder)
        command = [sys.executable, "-m", "course_lib.exercises", "grade", "--way", way, str(folder)]
        done = subprocess.run(
            command, capture_output=True, timeout=600, check=False, env=os.environ | {"TMPDIR": str(place)}
        )
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert not running(place)
    assert os.listdir(place) == []
    assert digests(folder) == before
    with (folder / "grades-2.csv").open(newline="") as file:
        rows: dict[str, list[dict[str, str]]] = {}
        for row in csv.DictReader(file):
            rows.setdefault(row["notebook"], []).append(row)
    with (folder / "totals.csv").open(newline="") as file:
        return Class(rows, list(csv.DictReader(file)), said, folder, asked)


def digests(folder: Path) -> dict[str, Any]:
    """What attacks might change: the class's files, the course's, the packages' startup."""
    files = [p for p in folder.rglob("*.ipynb") if p.is_file() and p.stat().st_size < 1 << 24]
    files += [*(ROOT / "course_lib").rglob("*.py"), *Path(sysconfig.get_path("purelib")).glob("*.p*")]
    files += list((Path.home() / ".cache/flash-attention-course").rglob("*harmed*"))
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if os.access(p, os.R_OK)}


def test_there_are_sixty_and_more(tmp_path) -> None:
    each, all_of_them = ({title for title, *_ in pages(tmp_path, 0, tmp_path, weekly)} for weekly in (False, True))
    assert len(each) + len(odd_files_of(tmp_path)) >= 100
    assert all_of_them - each == WEEKLY


def odd_files_of(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "honest").mkdir()
    return odd_files(tmp_path)


def test_nobody_passes_without_an_answer(graded) -> None:
    cheats = {name: rows for name, rows in graded.rows.items() if name.startswith(("cheats/", "'cheats/"))}
    assert len(cheats) == len(list((graded.folder / "cheats").iterdir()))
    assert [name for name, rows in cheats.items() if any(row["status"] == "passed" for row in rows)] == []
    assert [name for name, rows in cheats.items() if any("the grader broke off" in row["words"] for row in rows)] == []


def test_the_honest_pass(graded) -> None:
    for name in HONEST:
        rows = graded.rows[f"honest/{name}.ipynb"]
        statuses = [row["status"] for row in rows]
        assert statuses.count("passed") == 1, "; ".join(f"{row['exercise']}: {row['words']}" for row in rows)
        assert set(statuses) <= {"passed", "missing"}


def test_each_odd_file_is_a_row_that_says_why(graded, tmp_path) -> None:
    for name, words in odd_files_of(tmp_path).items():
        [row] = graded.rows.get(name) or graded.rows[f"'{name}"]
        assert row["status"] == "not graded"
        assert words in row["words"], row


def test_the_tables_are_whole_and_cannot_be_forged(graded) -> None:
    in_folder = list(graded.folder.rglob("*.ipynb"))
    assert len(graded.rows) == len(in_folder) + 1  # the linked folder
    for row in (row for rows in graded.rows.values() for row in rows):
        assert all(value.isprintable() and not value.startswith(("=", "+", "-", "@")) for value in row.values())
        assert not any(re.search(r";[\s\"']*[=+@-]", value) for value in row.values())
    assert all(line.isprintable() for line in graded.said.splitlines())
    lines = graded.said.splitlines()
    assert sum(line.startswith(("honest/", "cheats/")) for line in lines) == len(HONEST) + len(
        list((graded.folder / "cheats").iterdir())
    )
    assert {stat.S_IMODE((graded.folder / name).stat().st_mode) for name in ("grades-2.csv", "totals.csv")} == {0o600}
    totals = {row["student"]: row for row in graded.totals}
    assert totals["honest"]["passed"] == str(len({"phase_of", *ANSWERS.values()}))
    assert totals["cheats"]["passed"] == "0"
    assert not (graded.folder / "grades.csv").exists() or (graded.folder / "grades.csv").is_symlink()


def test_nobody_reaches_the_network(graded, way) -> None:
    if way != "namespaces" and landlock.version() < 4:
        pytest.skip("this kernel's Landlock leaves TCP")
    assert graded.asked == []


def test_a_way_that_is_weaker_says_so_once(graded, way) -> None:
    assert graded.said.count("Weaker than it could be") == (way != "namespaces")


def test_a_course_below_tmp_is_enclosed_too(tmp_path) -> None:
    if lacking := possible("namespaces"):
        pytest.skip(lacking)
    (tmp_path / "seen").write_text("a package")
    sees = [*enclosure.visible([]), str(tmp_path)]
    command = enclosure.bubblewrap(sees, str(ROOT / "course_lib"), root=os.getuid() == 0)
    found = subprocess.run([*command, "ls", str(tmp_path), "/tmp"], capture_output=True, text=True, check=True).stdout
    assert "seen" in found
    assert len(found.splitlines()) < 7  # the two folders' names, an empty line, the way to each, nothing else of /tmp

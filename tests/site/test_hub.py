"""A class of thirty on one machine, with a real JupyterHub and real accounts: `make test-hub`."""

import os
import shutil
import stat
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import pytest
from classroom import BLOCK, PAGE, Answer, Classroom, Notebook, Student, classroom, memory, told

from course_lib import data
from course_lib.exercises import handout
from course_lib.files import ROOT
from course_lib.publish import notebooks
from course_lib.recordings import records
from course_lib.show.tables import Table

THIRTY = [f"student{i:02d}" for i in range(1, 31)]
LECTURES = [path.name for path in notebooks.lectures()]
REQUIRED = os.environ.get("COURSE_REQUIRE_HUB") == "1"
pytestmark = [
    pytest.mark.skipif(not REQUIRED, reason="`make test-hub` makes accounts in a mount namespace of its own"),
    pytest.mark.xdist_group("hub"),
]


class Lesson:
    """Thirty who have logged in and opened a lecture each."""

    def __init__(self, room: Classroom):
        self.room = room
        self.students = [room.student(name) for name in THIRTY]
        self.open: dict[str, Notebook] = {}
        self.first: dict[str, Answer] = {}

    def arrive(self, student: Student, lecture: str) -> None:
        start = time.monotonic()
        assert student.log_in()
        student.start()
        notebook = student.open(lecture)
        self.first[student.name] = notebook.run(notebook.cells()[0])
        student.seconds = time.monotonic() - start
        self.open[student.name] = notebook


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everyone(work: Callable[..., None], *columns: list) -> None:  # type: ignore[type-arg]
    """Run ``work`` for each student at the same time; what fails first is raised."""
    with ThreadPoolExecutor(len(columns[0])) as pool:
        for done in [pool.submit(work, *row) for row in zip(*columns, strict=True)]:
            done.result()


@pytest.fixture(scope="module")
def room() -> Iterator[Classroom]:
    folder = Path(tempfile.mkdtemp(prefix="class-"))
    folder.chmod(0o755)
    handout.write(folder / "course")
    shutil.copytree(ROOT / "deploy" / "node_modules", folder / "course" / "deploy" / "node_modules", symlinks=True)
    with classroom(folder, folder / "course", THIRTY) as found:
        yield found
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def lesson(room: Classroom) -> Lesson:
    found = Lesson(room)
    everyone(found.arrive, found.students, [LECTURES[i % len(LECTURES)] for i in range(len(THIRTY))])
    return found


def test_thirty_log_in_at_once_and_each_opens_a_lecture(lesson: Lesson) -> None:
    assert sorted(lesson.open) == THIRTY
    for name, answer in lesson.first.items():
        assert not answer.error, (name, answer)
    seconds = sorted(s.seconds for s in lesson.students)
    megabytes = [memory(os.stat(f"/home/{name}").st_uid) for name in THIRTY]
    rows = [
        {
            "students": len(THIRTY), "cores": os.cpu_count(), "machine_gb": round(psutil.virtual_memory().total / 1e9, 1),
            "first_answer_median_s": round(statistics.median(seconds), 1), "first_answer_last_s": round(seconds[-1], 1),
            "memory_each_mb": round(statistics.median(megabytes)), "memory_all_gb": round(sum(megabytes) / 1e3, 1),
        }
    ]  # fmt: skip
    print(Table(list(rows[0]), [list(rows[0].values())]))
    if os.environ.get("COURSE_RECORD") == "1":
        path = records.record("class_of_thirty", rows, "make test-hub RECORD=1")
        found = told(data.measured(path.parent.name, path.stem))
        PAGE.write_text(BLOCK.sub(lambda _: found, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def test_the_lectures_are_the_students_own_and_hold_no_solution(lesson: Lesson) -> None:
    answer = lesson.open["student01"].run(
        "import course_lib, pathlib, getpass\n"
        "print(getpass.getuser(), pathlib.Path.cwd(), pathlib.Path(course_lib.__file__).parents[1])\n"
        "print(['SOLUTION' in p.read_text() for p in (pathlib.Path(course_lib.__file__).parent / 'exercises/tasks').glob('*.py')])"
    )
    assert answer.text.split("\n")[0] == f"student01 /home/student01/notebooks {lesson.room.course}"
    assert "False" in answer.text
    assert "True" not in answer.text


def test_nobody_reads_the_files_of_another(lesson: Lesson) -> None:
    state, own = lesson.room.state, lesson.open["student02"]
    other = psutil.Process(next(p.pid for p in psutil.process_iter() if p.username() == "student01"))
    secrets = [
        "/home/student01", "/home/student01/notebooks", f"/home/student01/notebooks/{LECTURES[0]}", "/home/student01/.run",
        f"{state}/jupyterhub.sqlite", f"{state}/cookie_secret", f"/proc/{other.pid}/environ", "/etc/shadow",
    ]  # fmt: skip
    for path in secrets:
        assert Path(path).exists()
        how = f"open({path!r}).read()" if Path(path).is_file() else f"import os; os.listdir({path!r})"
        assert own.run(how).error.startswith("PermissionError"), path
    written = own.run(f"open({str(lesson.room.course / 'README.md')!r}, 'w')")
    assert written.error.startswith("PermissionError")


def test_nobody_opens_the_server_of_another(lesson: Lesson) -> None:
    intruder, victim = lesson.students[1], lesson.students[0]
    assert victim.get("api/contents/notebooks").ok
    for path in ("api/contents/notebooks", "lab", "api/kernels", f"files/notebooks/{LECTURES[0]}"):
        assert intruder.get(path, server=victim.server).status_code in (403, 404), path
    teacher = lesson.room.student("prof")
    assert teacher.log_in()
    assert teacher.get("api/contents/notebooks", server=victim.server).status_code in (403, 404)


def test_a_teacher_sees_who_is_there_and_makes_no_token_in_a_students_name(lesson: Lesson) -> None:
    teacher, hub = lesson.room.student("prof"), lesson.room.address
    assert teacher.log_in()
    assert teacher.get("hub/admin", server=hub).ok
    seen = teacher.get("hub/api/users", server=hub)
    assert {user["name"] for user in seen.json()} >= set(THIRTY)
    headers = {"X-XSRFToken": teacher.web.cookies.get("_xsrf", path="/hub/"), "Referer": f"{hub}/hub/home"}
    for method, path in (("POST", "users/student01/tokens"), ("POST", "users/newcomer")):
        answer = teacher.web.request(method, f"{hub}/hub/api/{path}", headers=headers, json={})
        assert answer.status_code in (403, 404), path


@pytest.mark.parametrize("bind", ["http://0.0.0.0:8000", "https://0.0.0.0:443"])
def test_passwords_do_not_travel_in_the_open(room: Classroom, bind) -> None:
    environment = os.environ | {"COURSE_HUB_CLASS": str(room.roster), "COURSE_HUB_BIND": bind, "PYTHONPATH": str(room.course)}
    command = [sys.executable, "-m", "jupyterhub", "-f", str(room.course / "deploy/jupyterhub_config.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert f"COURSE_HUB_BIND is {bind!r}" in done.stderr


def test_kernels_listen_where_only_their_student_can_speak_to_them(lesson: Lesson) -> None:
    connection = next(Path("/home/student01/.run").glob("kernel-*.json"))
    assert '"transport": "ipc"' in connection.read_text()
    channel = next(path for path in connection.parent.iterdir() if path.is_socket())
    speak = f"import socket; socket.socket(socket.AF_UNIX).connect({str(channel)!r})"
    assert not lesson.open["student01"].run(speak).error
    assert lesson.open["student02"].run(speak).error.startswith("PermissionError")


def test_a_student_who_takes_too_much_is_stopped_alone(lesson: Lesson) -> None:
    greedy = lesson.open["student03"]
    assert greedy.run("x = bytearray(4 << 30)").error.startswith("MemoryError")
    assert "can't allocate" in greedy.run("import torch; torch.ones(4 << 30)").error
    bomb = "import subprocess\nmany = []\nfor _ in range(2000): many.append(subprocess.Popen(['sleep', '60']))"
    assert greedy.run(bomb).error.startswith("BlockingIOError")
    assert lesson.open["student04"].run("print(6 * 7)").text == "42\n"
    assert not greedy.run("for p in many: p.kill(); p.wait()").error
    assert greedy.run("import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))").error


def test_only_the_class_gets_in_and_only_with_a_password_of_its_own(lesson: Lesson) -> None:
    room = lesson.room
    assert not Student(room.address, "student01", "wrong").log_in()
    assert not Student(room.address, "student01", room.passwords["student02"]).log_in()
    assert not Student(room.address, "root", "root").log_in()


def test_every_lecture_runs_whole_within_the_limits(lesson: Lesson) -> None:
    """Two at a time, as many as the machine has cores, while the others have theirs open."""
    failures, turn = [], threading.Semaphore(os.cpu_count() or 2)

    def work_through(name: str, lecture: str) -> None:
        notebook = lesson.open[name]
        with turn:
            for number, source in enumerate(notebook.cells()):
                answer = notebook.run(source)
                if answer.error:
                    failures.append((lecture, number, answer.error))

    everyone(work_through, THIRTY[: len(LECTURES)], LECTURES)
    assert not failures


def test_what_is_handed_in_is_collected_with_the_students_own_rights(lesson: Lesson, tmp_path: Path) -> None:
    own, thief = lesson.open["student01"], lesson.open["student02"]
    secret = lesson.room.state / "cookie_secret"
    name = LECTURES[0]
    own.run(
        f"import json; page = json.load(open({name!r})); page['metadata']['mine'] = 7; json.dump(page, open({name!r}, 'w'))"
    )
    thief.run(f"import os; os.remove({LECTURES[0]!r}); os.symlink({str(secret)!r}, {LECTURES[0]!r})")
    thief.run(f"import os; os.remove({LECTURES[1]!r}); os.mkfifo({LECTURES[1]!r})")
    thief.run(f"open({LECTURES[2]!r}, 'w').write(' ' * 20_000_001)")
    sys.path.insert(0, str(ROOT / "deploy"))
    from roster import collect

    assert collect("student01", tmp_path) == (len(LECTURES), [])
    assert collect("student02", tmp_path) == (len(LECTURES) - 3, [LECTURES[2]])
    assert nbformat.read(tmp_path / "student01" / name, as_version=4).metadata.mine == 7
    assert {mode(tmp_path / who) for who in ("student01", "student02")} == {0o700}
    assert {mode(path) for path in tmp_path.glob("*/*.ipynb")} == {0o600}
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    command = [sys.executable, str(ROOT / "deploy/roster.py"), "collect", str(lesson.room.roster), str(open_to_all)]
    assert "is open to others" in subprocess.run(command, capture_output=True, text=True, check=False).stderr

"""Whatever a student's function does or returns, a check ends in words, in time, and harms nothing."""

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import nbclient
import nbformat
import pytest
import torch
from written import RIGHT as RIGHT_ANSWER

from course_lib import runtime
from course_lib.exercises import check, values
from course_lib.exercises.checker import fresh_process, progress_file
from course_lib.exercises.checker.checking import Report
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.processes import isolation
from course_lib.exercises.processes.forked_process import Failure, outcomes

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")


class Hostile:
    """Ends the process, whatever it is asked."""

    def __eq__(self, other):
        os._exit(3)

    __hash__ = None  # type: ignore[assignment]
    __repr__ = __str__ = __len__ = __float__ = __int__ = __index__ = __bool__ = __iter__ = __eq__

    def __reduce__(self):
        return os._exit, (7,)

    def __getattr__(self, name):
        os._exit(8)


class HostileFloat(float):
    __eq__ = __repr__ = __float__ = Hostile.__eq__
    __hash__ = float.__hash__


class HostileTuple(tuple):
    __eq__ = __len__ = __getitem__ = Hostile.__eq__
    __hash__ = tuple.__hash__


class Pair(NamedTuple):
    m: float
    l: float


def endless(path: str):
    os.setsid()
    if os.fork() == 0:
        time.sleep(1.5)
        Path(path).write_text("still here")
    os._exit(0)


def daemon(path):
    if os.fork() == 0:
        endless(path)
    os.wait()
    return 1


def own_session(path):
    subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep(1.5); open({path!r}, 'w')"], start_new_session=True
    )
    return 1


def never_waits(path):
    own_session(path)
    while True:
        pass


def thread(path):
    threading.Thread(target=lambda: (time.sleep(1.5), Path(path).write_text("x"))).start()
    return 1


def test_nothing_outlives_a_check(tmp_path) -> None:
    for start in (daemon, own_session, never_waits, thread):
        begin = time.monotonic()
        found = outcomes(start, [lambda start=start: start(str(tmp_path / start.__name__))], limit=1.0)
        assert time.monotonic() - begin < 10
        assert found[0].result == 1 or found[0].result.kind == "time"
    time.sleep(2.0)
    assert os.listdir(tmp_path) == []


def kill_all_of_the_group():
    os.killpg(0, 9)


def kill_the_supervisor():
    os.kill(os.getppid(), 9)
    time.sleep(5)


def alarm():
    import signal

    signal.setitimer(signal.ITIMER_REAL, 0.1)
    time.sleep(5)


def interrupt():
    raise KeyboardInterrupt


def cause_itself():
    error = ValueError("a circle")
    error.__cause__ = error
    raise error


def deaf():
    import signal

    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, lambda *_: None)
    while True:
        pass


def stopped():
    os.kill(os.getpid(), 19)


def closes_all():
    os.closerange(3, 5000)
    return 1


def writes_nonsense():
    frame = sys._getframe()
    while frame.f_code is not isolation.send.__code__:
        frame = frame.f_back
    os.write(frame.f_locals["writer"], b"\xff" * 64)
    return 1


def all_memory():
    return len(bytearray(64 << 30))


def all_disk():
    with open(f"/tmp/checked-{os.getpid()}", "wb", buffering=0) as file:
        os.unlink(file.name)
        for _ in range(1 << 20):
            file.write(bytes(1 << 20))


def fails_to_say_what():
    class OddError(Exception):
        def __str__(self):
            raise SystemExit

    raise OddError


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (kill_all_of_the_group, "signal 9"),
        (kill_the_supervisor, "signal 9"),
        (alarm, "signal 14"),
        (interrupt, "KeyboardInterrupt"),
        (lambda: sys.exit("bye"), "SystemExit: bye"),
        (lambda: os._exit(0), "it sent no result"),
        (cause_itself, "ValueError: a circle"),
        (fails_to_say_what, "OddError"),
        (deaf, "did not end within 1 second"),
        (stopped, "did not end within 1 second"),
        (closes_all, "exit code 1"),
        (writes_nonsense, "cannot be read"),
        (all_memory, "MemoryError"),
        (all_disk, "File too large"),
        (lambda: input("?"), "EOFError"),
        (lambda: [torch.ones(1 << 20) for _ in range(4)], "too large"),  # together
        (lambda: __import__("ctypes").string_at(0), "signal 11"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_whatever_a_function_does_is_said(does, words) -> None:
    found = outcomes(does, [does], limit=1.0 if "1 second" in words else 20.0)
    assert isinstance(found[-1].result, Failure)
    assert words in found[-1].result.words


def test_forks_prints_and_settings_change_nothing_else(capfd) -> None:
    def wild():
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(3)
        math.pi = 3
        torch.softmax = None
        os.chdir("/")
        os.environ["COURSE_WILD"] = "1"
        os.fork()
        print("x" * 10_000_000)
        os.write(1, b"past Python")
        os.system("echo and past it again")
        return 2

    state, here = torch.random.get_rng_state(), os.getcwd()
    found = outcomes(wild, [wild, wild])
    assert [x.result for x in found] == [2, 2]
    assert all(len(x.printed) == 2000 for x in found)
    assert torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (math.pi > 3.1, torch.softmax is None, os.getcwd(), "COURSE_WILD" in os.environ) == (
        True,
        False,
        here,
        False,
    )
    assert capfd.readouterr() == ("", "")


def test_a_check_leaves_the_pages_random_numbers_alone(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("course_lib.exercises.checker.material._known", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    state = torch.random.get_rng_state()
    for name in ("row_dot", "tile_traffic"):
        space: dict = {}
        exec(f"def {name}(*args): return None", space)
        check(space[name])
    assert torch.equal(torch.random.get_rng_state(), state)


# --- what is returned ---


@pytest.mark.parametrize(
    "make", [Hostile, lambda: HostileFloat(1.0), lambda: HostileTuple((1.0, 1.0)), lambda: [Hostile()]]
)
def test_an_objects_own_code_runs_in_the_fork_alone(make, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "p.json"))

    def online_update(m, l, x):
        return make(), 1.0

    report = check(online_update)
    assert report.status == "failed"
    assert report.details


def test_half_a_surrogate_pair_can_be_shown() -> None:
    def fails():
        print("\ud800")
        raise ValueError("\udfff")

    [found] = outcomes(fails, [fails])
    assert (found.printed + found.result.words).encode() == b"\\ud800\nValueError: \\udfff"
    assert differs("\ud800", "a", 0.0).encode()
    report = Report.of(["phase_of", "failed", ["\ud800"], "", ["x"], "", ""])
    assert repr(report).encode()


@pytest.mark.parametrize("thing", [(1, 2), Hostile, [Hostile()]])
def test_what_is_no_function_is_named_without_running_its_code(thing) -> None:
    with pytest.raises(ValueError, match="exercise is"):
        check(thing)


# --- a new process, for grading ---


def forges(path):
    """Yields what is no report, leaves a daemon, and writes nonsense past the messages."""
    daemon(path)
    yield Pair(1.0, 2.0)
    yield Hostile()
    writes_nonsense()
    time.sleep(60)


def test_what_a_page_sends_is_data_and_ends_with_it(tmp_path) -> None:
    found = fresh_process.sent(forges, str(tmp_path / "written"), seconds=20.0)
    assert found == isolation.Sent(((1.0, 2.0), values.Other("a Hostile")), "its answer cannot be read")
    time.sleep(2.0)
    assert not os.listdir(tmp_path)


def test_the_end_of_the_caller_ends_its_checks(tmp_path) -> None:
    code = (
        "import time, os\nfrom course_lib.exercises.processes.isolation import forked\n"
        f"def work():\n    open({str(tmp_path / 'begun')!r}, 'w'); time.sleep(1.5); open({str(tmp_path / 'written')!r}, 'w')\n    yield 1\n"
        "forked(work, 60.0)"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(runtime.__file__).rsplit("/", 2)[0]}
    )
    while not (tmp_path / "begun").exists() and caller.poll() is None:
        time.sleep(0.05)
    caller.kill()
    caller.wait()
    time.sleep(2.0)
    assert os.listdir(tmp_path) == ["begun"]


IN_A_NOTEBOOK = (
    "from IPython.display import display; display(x)",
    "exit()",
    "get_ipython().kernel.do_shutdown(False)",
    "import asyncio; asyncio.get_event_loop().stop()",
    "import subprocess; subprocess.run('kill -9 0', shell=True)",
    "import os; os.abort()",
    "input('?')",
)


def test_a_notebooks_kernel_and_progress_outlive_it_all(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    (tmp_path / "progress.json").write_text('{"phase_of": "passed"}')
    made = nbformat.v4.new_notebook()
    sources = ["import math, os\nimport torch\nfrom course_lib.exercises import check\nstill = os.getpid()"]
    sources += [
        f"def online_update(m, l, x):\n    {body}\n    {RIGHT_ANSWER}\ncheck(online_update)" for body in IN_A_NOTEBOOK
    ]
    sources.append("assert os.getpid() == still")
    made.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbclient.NotebookClient(made, timeout=60).execute()
    said = ["".join(o["data"]["text/plain"] for o in cell.outputs if "data" in o) for cell in made.cells[1:-1]]
    assert all(text.startswith("online_update: ") for text in said), said
    assert progress_file.load() == {"phase_of": "passed", "online_update": "passed"}
    assert progress_file.code("online_update").startswith("import math, os\nimport torch\n")

"""New processes without the seconds of their start: what they see, what comes back, and what they cannot break."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_lib.instruments import fork_server


@pytest.fixture(autouse=True)
def light(monkeypatch):
    """A server for the test alone, that starts at once: torch and Triton are imported by that of the compiler's tests."""
    monkeypatch.setattr(fork_server, "_servers", {})
    monkeypatch.setattr(fork_server, "IMPORTED", ("json",))
    yield
    for server in fork_server._servers.values():
        server.kill()


def asked(work, *args, **more):
    return fork_server.result(work, *args, environment=more)


def test_each_gets_a_process_of_its_own_with_this_folder_and_this_environment(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked(os.getcwd) == str(tmp_path)
    assert asked(os.getenv, "COLOUR", COLOUR="green") == "green"
    assert asked(os.getenv, "COLOUR") is None
    first, second, server = asked(os.getpid), asked(os.getpid), asked(os.getppid)
    assert len({first, second, server, os.getpid()}) == 4
    assert asked(os.getppid) == server
    imported = asked(eval, "set(__import__('sys').modules)")
    assert "json" in imported
    assert {name for name in imported if name.startswith("course_lib.")} <= {"course_lib.instruments"}


def test_a_module_is_read_as_it_is_now(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for value in (1, 22):
        Path("changing_module.py").write_text(f"def value():\n    return {value}\n")
        import changing_module

        assert asked(changing_module.value) == value


def test_what_goes_wrong_is_said_and_ends_with_its_process() -> None:
    with pytest.raises(fork_server.ForkServerError, match=r"FileNotFoundError.*/no/such/folder"):
        asked(os.listdir, "/no/such/folder")
    with pytest.raises(fork_server.ForkServerError, match="the process ended with code 3"):
        asked(os._exit, 3)
    with pytest.raises(fork_server.ForkServerError, match="SystemExit: 4"):
        asked(sys.exit, 4)
    with pytest.raises(fork_server.ForkServerError, match="the process ended with code -11"):
        asked(signal.raise_signal, signal.SIGSEGV)
    assert asked(abs, -5) == 5


def test_a_server_that_has_ended_is_started_again() -> None:
    with pytest.raises(fork_server.ForkServerError, match="the server of processes has ended; ask again"):
        asked(eval, "__import__('os').kill(__import__('os').getppid(), 9)")
    assert asked(abs, -5) == 5
    os.kill(asked(os.getppid), signal.SIGKILL)
    time.sleep(0.2)
    assert asked(abs, -5) == 5


def test_threads_ask_one_after_another() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda x: asked(abs, -x), range(8))) == list(range(8))


def test_an_interrupted_question_ends_its_work_and_does_not_answer_the_next(tmp_path) -> None:
    asked(abs, -5)
    server, written = fork_server._servers[os.getpid()], tmp_path / "written"
    read = server.stdout

    class Interrupted:
        def readline(self, *_) -> bytes:
            while not (written.exists() and written.read_text()):
                time.sleep(0.01)
            raise KeyboardInterrupt

        read = readline

    server.stdout = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        asked(
            exec, f"import os, time; print(os.getpid(), file=open({str(written)!r}, 'w'), flush=True); time.sleep(600)"
        )
    status, end = Path("/proc", written.read_text().strip(), "status"), time.monotonic() + 10
    while (
        status.exists() and "\nState:\tZ" not in status.read_text()
    ):  # an entry that its new parent has not read is no process
        assert time.monotonic() < end
    read.close()
    assert asked(abs, -7) == 7
    assert fork_server._servers[os.getpid()] is not server


def test_a_server_ends_with_its_asker() -> None:
    code = (
        "import os; from course_lib.instruments import fork_server as server; server.IMPORTED = ()\n"
        "print(server.result(os.getppid, environment={}))"
    )
    for end in ("", "os.kill(os.getpid(), 9)"):
        done = subprocess.run([sys.executable, "-uc", f"{code}\n{end}"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (-9 if end else 0, "")
        for _ in range(100):
            if not Path(f"/proc/{int(done.stdout)}").exists():
                break
            time.sleep(0.1)
        else:
            pytest.fail("the server is still there")

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


def asked(work, *args, **more):
    return fork_server.result(work, *args, environment=os.environ | more)


def test_each_gets_a_process_of_its_own_with_this_folder_and_this_environment(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked(os.getcwd) == str(tmp_path)
    assert asked(os.getenv, "COLOUR", COLOUR="green") == "green"
    assert asked(os.getenv, "COLOUR") is None
    assert len({asked(os.getpid), asked(os.getpid), asked(os.getppid), os.getpid()}) == 4
    with ThreadPoolExecutor(4) as pool:  # threads ask one after another
        assert list(pool.map(lambda x: asked(abs, -x), range(8))) == list(range(8))


def test_what_goes_wrong_is_said_and_ends_with_its_process() -> None:
    for work, argument, message in (
        (os.listdir, "/no/such/folder", r"FileNotFoundError.*/no/such/folder"),
        (os._exit, 3, "the process ended with code 3"),
        (sys.exit, 4, "SystemExit: 4"),
        (signal.raise_signal, signal.SIGSEGV, "the process ended with code -11"),
    ):
        with pytest.raises(fork_server.ForkServerError, match=message):
            asked(work, argument)
    with pytest.raises(
        ValueError, match=r"work is <function .*<lambda>.*, which .* cannot be handed to another process"
    ):
        asked(lambda: 1)
    assert asked(abs, -5) == 5


def test_a_server_ends_with_its_asker_and_what_was_interrupted_ends_at_once(tmp_path) -> None:
    code = f"""
import os, signal, threading, time
from pathlib import Path
from course_lib.instruments import fork_server as server
server.IMPORTED = ()
def interrupt():
    while not Path({str(tmp_path / "there")!r}).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
os.kill(server.result(os.getppid, environment=os.environ), signal.SIGKILL)  # it is started again
threading.Thread(target=interrupt).start()
work = "import os, time; open({str(tmp_path / "there")!r}, 'w'); print(end=''); time.sleep(600)"
try:
    server.result(exec, work, environment=os.environ)
except KeyboardInterrupt:
    print(server.result(abs, -7, environment=os.environ), server.result(os.getppid, environment=os.environ))
"""
    for end in ("", "os.kill(os.getpid(), 9)"):
        (tmp_path / "there").unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-uc", f"{code}\n{end}"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (-9 if end else 0, "")
        answer, server = map(int, done.stdout.split())
        assert answer == 7
        stop = time.monotonic() + 10
        while Path(f"/proc/{server}").exists():
            assert time.monotonic() < stop, "the server is still there"
            time.sleep(0.1)

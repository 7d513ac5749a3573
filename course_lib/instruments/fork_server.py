"""A new process for each piece of work, without the seconds of its start.

The first one starts a server that imports torch and Triton, and nothing of the course. For each piece of work the server
forks itself: the fork reads the course's sources as they are now, and what it changes or breaks ends with it.
"""

import atexit
import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

IMPORTED = ("torch", "triton.compiler", "triton.backends.nvidia.compiler", "triton.experimental.gluon.language")
IDLE = 120.0  # seconds after which a server that is not asked ends
_ENDING = {signal.SIGTERM}
_servers: dict[int, subprocess.Popen[bytes]] = {}  # a fork of this process does not share its server
_asking = threading.Lock()


class ForkServerError(RuntimeError):
    """The process ended without a result; the words are the end of what it wrote to stderr."""


def result(work: Callable[..., Any], *args: Any, environment: Mapping[str, str]) -> Any:
    """``work(*args)``, computed in a new process with this environment and this working folder.

    ``work`` is a function of a module; it, its arguments and its result are pickled. Raises ValueError for what cannot be,
    ForkServerError with what an exception of ``work`` printed, or how the process ended. There has to be ``os.fork``, as there is
    wherever Triton has wheels.
    """
    try:
        question = pickle.dumps((dict(environment), os.getcwd(), pickle.dumps((work, args))))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"work is {work!r}, which with its arguments cannot be handed to another process ({error}); pass a function that stands "
            "in a module, and arguments that can be pickled"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "question").write_bytes(question)
        with _asking:
            code = _ask(folder) or _ask(folder)  # a server may have ended, being idle, just before it was asked
        answer = Path(folder, "answer")
        if code != b"0\n" or not answer.exists():
            words = Path(folder, "words")
            said = words.read_text(encoding="utf-8", errors="replace").strip() if words.exists() else ""
            ended = (
                f"the process ended with code {code.decode().strip()}"
                if code
                else "the server of processes does not start"
            )
            raise ForkServerError(said[-2000:] or ended)
        return pickle.loads(answer.read_bytes())


def _ask(folder: str) -> bytes:
    """The exit code of the fork that worked on ``folder``, as a line; nothing if the server is gone."""
    server = _servers.get(os.getpid())
    if server is None or server.poll() is not None:
        server = _servers[os.getpid()] = subprocess.Popen(
            [sys.executable, "-m", __name__, *IMPORTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"TRITON_INTERPRET": "0", "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
    assert server.stdin
    assert server.stdout
    code = b""
    try:
        server.stdin.write(os.fsencode(folder) + b"\n")
        server.stdin.flush()
        code = server.stdout.readline()
    except BrokenPipeError:
        pass
    finally:
        if not code:  # it has ended, or was interrupted: what it still answers is not for the next who asks
            server.terminate()  # it ends its fork first: nobody writes to the folder any more
            server.wait()
    return code


@atexit.register
def _end() -> None:
    server = _servers.pop(os.getpid(), None)
    if server and server.stdin:
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        server.wait()


# --- the server ---


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the process that asks, whose end ends this one
    for name in sys.argv[1:]:
        __import__(name)
    forks: list[int] = []

    def end(*_: Any) -> None:
        for pid in forks:
            with contextlib.suppress(ProcessLookupError):  # it had just ended
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    asked = b""
    while select.select([0], [], [], IDLE)[0]:
        more = os.read(0, 65_536)
        if not more:
            return
        asked += more
        while b"\n" in asked:
            folder, _, asked = asked.partition(b"\n")
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until it is among the forks
            pid = os.fork()
            if pid == 0:
                os._exit(_work(Path(os.fsdecode(folder))))
            forks.append(pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            forks.clear()
            os.write(1, b"%d\n" % code)


def _work(folder: Path) -> int:
    """In the fork: read the question, write the answer; 0 if there is one."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    with (folder / "words").open("wb") as words:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(words.fileno(), 1)
        os.dup2(words.fileno(), 2)
    try:
        environment, here, question = pickle.loads((folder / "question").read_bytes())
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(here)
        sys.path[0] = here
        work, args = pickle.loads(question)
        (folder / "answer").write_bytes(pickle.dumps(work(*args)))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


if __name__ == "__main__":
    _serve()

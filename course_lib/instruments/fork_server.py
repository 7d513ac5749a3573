"""A new process for each piece of work, without the seconds of its start.

The first one starts a server that imports torch, and nothing of the course. For each piece of work the server forks itself: the fork
reads the course's sources as they are now, and what it changes or breaks ends with it.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

IMPORTED = ("torch",)  # not Triton, which a fork imports as its environment says
_servers: dict[int, subprocess.Popen[bytes]] = {}  # a fork of this process does not share its server
_asking = threading.Lock()


class ForkServerError(RuntimeError):
    """The process ended without a result; the words are the end of what it wrote to stderr."""


def result(work: Callable[..., Any], *args: Any, environment: dict[str, str]) -> Any:
    """``work(*args)``, computed in a new process with this environment beside that of this process, and its working folder.

    ``work`` is a function of a module; it, its arguments and its result are pickled. Raises ForkServerError with what an exception of
    ``work`` printed, or how the process ended. There has to be ``os.fork``, as there is wherever Triton has wheels.
    """
    question = pickle.dumps((os.environ | environment, os.getcwd(), pickle.dumps((work, args))))
    with _asking:
        code, answer, words = _ask(question)
    if code or not answer:
        said = words.decode(errors="replace").strip()
        raise ForkServerError(said[-2000:] or f"the process ended with code {code}")
    return pickle.loads(answer)


def _ask(question: bytes) -> tuple[int, bytes, bytes]:
    """The exit code of the fork that worked, its answer, and what it wrote."""
    server = _servers.get(os.getpid())
    if server is None or server.poll() is not None:
        server = _servers[os.getpid()] = subprocess.Popen(
            [sys.executable, "-m", __name__, *IMPORTED],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    assert server.stdin
    assert server.stdout
    try:
        server.stdin.write(question)
        server.stdin.flush()
        return pickle.load(server.stdout)  # type: ignore[no-any-return]
    except (
        BaseException
    ) as error:  # it was interrupted, or has ended: what it still answers is not for the next who asks
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        if isinstance(error, EOFError | BrokenPipeError):
            raise ForkServerError("the server of processes has ended; ask again, which starts another one") from None
        raise


def _serve() -> None:
    """Until the process that asks has ended."""
    for name in sys.argv[1:]:
        __import__(name)
    while True:
        try:
            environment, here, question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as words:
            pid = os.fork()
            if pid == 0:
                os._exit(_work(environment, here, question, answer, words))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            for file in (answer, words):
                file.seek(0)
            pickle.dump((code, answer.read(), words.read()), sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _work(environment: dict[str, str], here: str, question: bytes, answer: BinaryIO, words: BinaryIO) -> int:
    """In the fork: write the answer; 0 if there is one."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(words.fileno(), 1)
    os.dup2(words.fileno(), 2)
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(here)
        sys.path[0] = here
        work, args = pickle.loads(question)
        answer.write(pickle.dumps(work(*args)))
        answer.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


if __name__ == "__main__":
    _serve()

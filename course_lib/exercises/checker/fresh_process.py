"""A new process, with limits on time and memory, in which the exercises have been imported in interpreter mode."""

import contextlib
import functools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from course_lib.exercises import catalogue
from course_lib.exercises.processes import isolation
from course_lib.exercises.processes.isolation import Sent

START = 120.0  # seconds for the server and a process to start
_STARTING = threading.Lock()


def sent(work: Callable[..., Iterable[Any]], *args: Any, seconds: float) -> Sent:
    """All that ``work(*args)`` yields, as plain data, from a process that may crash, hang or run out of memory.

    ``work`` is a function of a module; ``seconds`` count from the moment at which the process is ready to work. When time is up, or
    ``work`` has ended, all that it started is ended, too. Raises RuntimeError where no process can be forked.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise RuntimeError("this system cannot fork a process: use Linux, macOS, or WSL2 on Windows")
    receiver, sender = _context().Pipe(duplex=False)
    process = _context().Process(target=_child, args=(work, args, sender), daemon=True)
    with _STARTING, _interpreted():
        process.start()
    sender.close()
    patience = 0.0
    try:
        messages, ended = isolation.received(receiver.fileno(), seconds, START)
        patience = 0.0 if ended else isolation.GRACE
    finally:
        receiver.close()
        process.join(patience)
        process.terminate()
        process.join(isolation.GRACE)
        process.kill()
        process.join()
    return Sent(messages[1:], ended or isolation.how(process.exitcode))


@functools.cache
def _context() -> Any:
    """Processes forked off a server that has imported the exercises."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["course_lib.exercises.checker.checking", *catalogue.modules()])
    return context


@contextlib.contextmanager
def _interpreted() -> Iterator[None]:
    """The environment that the server is started with."""
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before


def _child(work: Callable[..., Iterable[Any]], args: tuple[Any, ...], sender: Any) -> None:
    isolation.supervise(lambda: isolation.send(sender.fileno(), _all(work, args)), sender.fileno())


def _all(work: Callable[..., Iterable[Any]], args: tuple[Any, ...]) -> Iterator[Any]:
    yield "ready"
    yield from work(*args)

"""A new process, with a time and a memory limit, in which the exercises have been imported on the interpreter lane."""

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from course_lib.exercises import catalogue

GIGABYTES = 4  # that a process may take on top of what the library does
START = 120.0  # seconds for the server and a process to start
_STARTING = threading.Lock()


class Sent(NamedTuple):
    """What came back, in order, and why it stopped early ('' if it did not)."""

    messages: tuple[Any, ...]
    ended: str = ""


def sent(work: Callable[..., Iterable[Any]], *args: Any, seconds: float) -> Sent:
    """All that ``work(*args)`` yields, from a process that may crash, hang or run out of memory; it must be a function of a module.

    ``seconds`` count from the moment at which the process is ready to work.
    When time is up, or ``work`` has ended, that process is killed with all that it started. This limits accidents; it is no sandbox:
    the code runs with the rights of whoever calls.
    """
    receiver, sender = _context().Pipe(duplex=False)
    process = _context().Process(target=_child, args=(work, args, sender), daemon=True)
    with _STARTING, _interpreted():
        process.start()
    sender.close()
    found: list[Any] = []
    try:
        receiver.poll(START)
        ended = _receive(receiver, process, time.monotonic() + seconds, found)
    finally:
        for kill in (lambda: os.killpg(process.pid, signal.SIGKILL), process.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
                kill()
        process.join()
        receiver.close()
    return Sent(tuple(found[1:]), f"it took more than {seconds:g} seconds" if ended is None else ended)


def _receive(receiver: Any, process: Any, end: float, found: list[Any]) -> str | None:
    """Collect messages until the process ends: '' or how it ended; None when time is up."""
    while True:
        ready = connection.wait([receiver, process.sentinel], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        try:
            while receiver.poll():
                found.append(receiver.recv())
        except EOFError:
            process.join(max(0.0, end - time.monotonic()))
        if not process.is_alive():
            return "" if process.exitcode == 0 else _how(process.exitcode)


def _how(code: int) -> str:
    return f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"


@functools.cache
def _context() -> Any:
    """Processes forked off a server that has imported the exercises, where there is forking; else new ones."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["course_lib.exercises.checking", *catalogue.modules()])
    return context


@contextlib.contextmanager
def _interpreted() -> Any:
    """The environment that the server, or the new process, is started with."""
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
    if hasattr(os, "setsid"):
        os.setsid()  # so that what a student's code starts can be ended with it
    _limit_memory()
    torch.set_num_threads(1)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # what students' code prints is not the grader's output
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    sender.send("ready")
    for message in work(*args):
        sender.send(message)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # there is no such limit on Windows and macOS
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + (GIGABYTES << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

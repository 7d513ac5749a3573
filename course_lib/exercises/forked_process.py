"""Runs a student's function where it can do no harm: in a fork of this process, with a time limit and an eye on memory accesses."""

import contextlib
import faulthandler
import inspect
import io
import os
import pickle
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.exercises.accesses import watched_memory

LIMIT = 5.0  # seconds for all cases together


class Failure(NamedTuple):
    """What ended a case early. kind: 'exception', 'time', 'crash'; line: of the student's own code, with its text."""

    kind: str
    words: str
    line: str = ""


class Outcome(NamedTuple):
    """A case's result, or a Failure, what the function printed, and what its kernel did that may explain a wrong result."""

    result: Any
    printed: str = ""
    notes: tuple[str, ...] = ()


def outcomes(function: Callable[..., Any], calls: Sequence[Callable[[], Any]], limit: float = LIMIT) -> list[Outcome]:
    """The outcome of each call, in order; after a call that ended the process, or took too long, none follow.

    Where a process can be forked (Linux, macOS) a crash or an endless loop ends that process only.
    ``function`` is the student's, for the line of an exception.
    """
    if not hasattr(os, "fork"):
        return list(_in_process(function, calls))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _child(function, calls, reader, writer)
    os.close(writer)
    try:
        found = list(_received(reader, limit))
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if found and isinstance(found[-1].result, Failure) and found[-1].result.kind == "time":
        return found
    if len(found) < len(calls):
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
        found.append(Outcome(Failure("crash", f"the process that ran it ended ({how}); the notebook is unharmed")))
    return found


def _received(reader: int, limit: float) -> Iterator[Outcome]:
    """Outcomes from the pipe until it closes or time is up."""
    end, buffer = time.monotonic() + limit, b""
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            yield Outcome(Failure("time", f"it did not end within {limit:g} seconds: does every loop come to an end?"))
            return
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            return
        buffer += chunk
        while len(buffer) >= 8 and len(buffer) >= 8 + (size := struct.unpack("<q", buffer[:8])[0]):
            yield pickle.loads(buffer[8 : 8 + size])
            buffer = buffer[8 + size :]


def _child(function: Callable[..., Any], calls: Sequence[Callable[[], Any]], reader: int, writer: int) -> None:
    """The forked process: run, send, leave without the parent's clean-up."""
    code = 1
    try:
        os.close(reader)
        # The parent's interrupts are the notebook's, and the threads of its pools do not exist here.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        torch.set_num_threads(1)
        faulthandler.disable()  # a crash is reported by the parent
        for outcome in _in_process(function, calls):
            try:
                message = pickle.dumps(outcome)
            except Exception as error:
                message = pickle.dumps(Outcome(Failure("exception", f"what it returned cannot be sent: {error}")))
            with os.fdopen(os.dup(writer), "wb") as pipe:
                pipe.write(struct.pack("<q", len(message)) + message)
        code = 0
    finally:
        os._exit(code)


def _in_process(function: Callable[..., Any], calls: Sequence[Callable[[], Any]]) -> Iterator[Outcome]:
    with watched_memory() as notes, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of a kernel's infinities in the interpreter
        for call in calls:
            printed = io.StringIO()
            notes.clear()
            try:
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                    result = call()
            except (Exception, SystemExit) as error:
                result = _failure(function, error)
            yield Outcome(result, printed.getvalue()[-2000:], tuple(notes))


def _failure(function: Callable[..., Any], error: BaseException) -> Failure:
    cause: BaseException = error
    while cause.__cause__ is not None:  # Triton's interpreter wraps what a kernel raises
        cause = cause.__cause__
    return Failure("exception", f"{type(cause).__name__}: {str(cause) or 'no message'}"[:600], _line(function, cause))


def _line(function: Callable[..., Any], error: BaseException) -> str:
    """The last line of the student's function on the way to the error."""
    plain = getattr(function, "fn", function)
    try:
        lines, first = inspect.getsourcelines(plain)
    except (OSError, TypeError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.name == plain.__name__ and f.lineno and first <= f.lineno < first + len(lines)]
    if not inside:
        return ""
    number = inside[-1].lineno or first
    return f"line {number - first + 1}: {lines[number - first].strip()}"

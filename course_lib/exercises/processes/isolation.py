"""Code that is not trusted, in a process of its own: with limits, an end in time for all that it started, and data for an answer.

The process is forked by a second one, the supervisor, to which whatever it starts falls back, twice forked daemons as well (Linux).
This holds against accidents and pranks; it is no sandbox: the code has the rights of whoever calls.
"""

import builtins
import contextlib
import ctypes
import faulthandler
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch

from course_lib.exercises import values

GIGABYTES = 4  # that a process may take on top of what the library does
TOGETHER = 3 << 30  # bytes of memory that all processes of a piece of work may fill; what they share counts once
FILE = 256 << 20  # bytes of a file that it may write
TOO_MUCH = b"memory"  # what stands in place of an exit code where they took more
LONGEST = 16 << 20  # bytes of a message
MOST = 64 << 20  # bytes of all messages
GRACE = 5.0  # seconds for a supervisor to end what there is
_LIBC: Any = ctypes.CDLL(None) if os.name == "posix" else None
DIE_WITH_PARENT, DUMPABLE, ADOPT = 1, 4, 36  # of prctl


class Sent(NamedTuple):
    """What came back, plain data in order, and why it stopped early ('' if it did not)."""

    messages: tuple[Any, ...]
    ended: str = ""


def forked(work: Callable[[], Iterable[Any]], seconds: float) -> Sent:
    """All that ``work()`` yields, as plain data, from a fork of this process that may crash, hang or run out of memory.

    Raises OSError where there is no room for one more process, or for a pipe.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings(), contextlib.ExitStack() as pipe:
        pipe.callback(os.close, reader)
        pipe.callback(os.close, writer)
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which do not exist in the fork
        supervisor = os.fork()
        pipe.pop_all()
    if supervisor == 0:
        try:
            os.close(reader)
            supervise(lambda: send(writer, work()), writer)
        finally:
            os._exit(1)
    os.close(writer)
    patience, end = 0.0, time.monotonic() + seconds
    try:
        messages, ended = received(reader, seconds)
        patience = 0.0 if ended else end - time.monotonic()
    finally:
        os.close(reader)
        status = _end(supervisor, patience)
    return Sent(messages, how(status) if ended == "" else ended)


def how(code: int) -> str:
    """In words how a process ended, of its exit code; '' if all was well."""
    return f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}" if code else ""


def _end(supervisor: int, patience: float) -> int:
    """Let a supervisor end with all that it looks after, at the latest then; its exit code, negative for a signal."""
    begin, asked = time.monotonic(), 0
    try:
        while not (found := os.waitpid(supervisor, os.WNOHANG))[0]:
            late = time.monotonic() - begin - patience
            if late > 0 and (not asked or late > GRACE):
                os.kill(supervisor, signal.SIGKILL if asked else signal.SIGTERM)
                asked += 1
            time.sleep(0.002)
    except ChildProcessError:  # somebody else has waited for it
        return 0
    return os.waitstatus_to_exitcode(found[1])


# --- messages: their length in eight bytes, and JSON ---


def send(writer: int, messages: Iterable[Any]) -> None:
    """Write plain data to a pipe. A process that ``messages`` forked off and that came back here is ended."""
    me = os.getpid()
    for message in messages:
        if os.getpid() != me:
            os._exit(0)
        data = values.written(message)
        if len(data) > LONGEST:
            data = values.written(values.too_large(len(data)))
        data = len(data).to_bytes(8, "little") + data
        while data:
            data = data[os.write(writer, data) :]


def received(reader: int, seconds: float, start: float = 0.0) -> tuple[tuple[Any, ...], str]:
    """The messages from a pipe until it is closed (''), or why no more are read. start: seconds more up to the first one."""
    end, buffer = time.monotonic() + seconds + start, bytearray()
    found: list[Any] = []
    total = 0
    while total < MOST:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return tuple(found), f"it took more than {seconds:g} seconds"
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return tuple(found), "" if not buffer else "its answer broke off"
        buffer += chunk
        total += len(chunk)
        while len(buffer) >= 8:
            size = int.from_bytes(buffer[:8], "little")
            if size > LONGEST:
                return tuple(found), "its answer cannot be read"
            if len(buffer) < 8 + size:
                break
            try:
                found.append(values.read(buffer[8 : 8 + size]))
            except (ValueError, RecursionError):
                return tuple(found), "its answer cannot be read"
            del buffer[: 8 + size]
            end = min(end, time.monotonic() + seconds) if start else end
            start = 0.0
    return tuple(found), "its answer is too long"


# --- the supervisor and the process under it ---


def supervise(work: Callable[[], None], *closed: int) -> NoReturn:
    """Run ``work`` in a fork, end what it started when it has ended or on SIGTERM, and end this process as the fork ended.

    closed: file descriptors that the supervisor does not keep open; ``work`` has these, and none of the caller's others.
    """
    os.setsid()
    for signal_ in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(signal_, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_all)
    prctl(ADOPT, 1)
    prctl(DIE_WITH_PARENT, signal.SIGTERM)
    faulthandler.disable()  # a crash is reported by who asked
    _limit()
    worker = os.fork()
    if worker == 0:
        try:
            prctl(DIE_WITH_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            quiet(closed)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    for descriptor in closed:
        os.close(descriptor)
    found, status = 0, 0
    while found != worker:
        found, status = os.waitpid(-1, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)
    end_descendants()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _end_all(*_: Any) -> NoReturn:
    end_descendants()
    os._exit(0)


def quiet(kept: Collection[int]) -> None:
    """No input, no output of its own, nothing that the caller has open (a kernel's sockets are shut down for both), one thread."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        listed = {int(name) for name in os.listdir("/dev/fd")}
    except OSError:  # there is none, or Landlock has taken it away
        listed = set(range(1024))
    for descriptor in {0, 1, 2} | listed - set(kept) - {nowhere}:
        with contextlib.suppress(OSError):  # that of the list itself
            os.fstat(descriptor)
            os.dup2(nowhere, descriptor)
    builtins.input = _no_input
    torch.set_num_threads(1)  # the threads of the pools do not exist in a fork


def _no_input(*_: Any) -> str:
    raise EOFError("nobody answers while the check runs")


def _limit() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # there are no such limits on Windows, nor all on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + (GIGABYTES << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def prctl(option: int, value: int) -> None:
    """Linux's call of that name; nothing elsewhere."""
    with contextlib.suppress(AttributeError):  # Linux has it
        _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def end_descendants() -> None:
    """Kill all processes below this one, until there are none."""
    end = time.monotonic() + GRACE / 2
    while (found := descendants()) and time.monotonic() < end:
        for signal_ in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal_)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants() -> list[int]:
    """The living processes below this one; where there is no /proc, none."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                state, parent = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    parents[int(entry)] = int(parent)
    below, before = {os.getpid()}, 0
    while len(below) != before:
        before = len(below)
        below |= {pid for pid, parent in parents.items() if parent in below}
    return sorted(below - {os.getpid()})


def memory(limit: int) -> int:
    """Bytes that the processes below this one fill together; up to ``limit`` what they share may be counted more than once."""
    found = descendants()
    resident = sum(_kilobytes(pid, "status", "VmRSS:") or 0 for pid in found) << 10
    if resident <= limit:  # quickly read; the rest takes the kernel milliseconds a process
        return resident
    shares = (_kilobytes(pid, "smaps_rollup", "Pss:") for pid in found)
    return sum(_kilobytes(pid, "status", "VmRSS:") or 0 if kb is None else kb for pid, kb in zip(found, shares)) << 10


def _kilobytes(pid: int, file: str, key: str) -> int | None:
    """A line of a process's file in /proc; None where it has none, or shows it to nobody."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith(key)).split()[1])
    return None

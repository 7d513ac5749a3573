"""Inside the sandbox: a server that has imported the exercises and forks, for each piece of work, a process that can do little else.

python -m course_lib.exercises.sandbox.server SOCKET SETTINGS, started by ``client.py`` with a copy of the library that has no oracles and
no solutions. Each message on the socket brings three file descriptors: of the question (to read), of the answer, and of the exit code
(to write). Where the system has namespaces each piece of work gets its own for processes, network and mounts; whatever it starts
is ended with it. SETTINGS: JSON, see ``Settings``.
"""

import contextlib
import ctypes
import functools
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch

from course_lib.exercises import catalogue
from course_lib.exercises.processes import isolation, landlock, large_pages, seccomp
from course_lib.exercises.sandbox import answering
from course_lib.exercises.sandbox.enclosure import EACH

SCRATCH = "/scratch"  # of a piece of work, where it has namespaces
ROOM = 64 << 20  # bytes of it, in 4,096 files at the most
PROCESSES, OPEN_FILES, FILE = 48, 256, 32 << 20
LONGEST_QUESTION = 256 << 20
PAUSE = 0.1  # seconds between two looks at the memory that a piece of work takes
_MOUNTS, _HOST, _IPC, _USER, _PIDS, _NETWORK = (
    0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000,
)  # of unshare  # fmt: skip
_NOSUID_NODEV, _READ_ONLY = 6, 1  # of mount
_NO_NEW_PRIVILEGES = 38  # of prctl
_CAPABILITIES = 0x20080522  # version 3 of capset
_size = 4 << 30  # bytes of address space that the server has
_LIBC: Any = ctypes.CDLL(None, use_errno=True)


class Settings(NamedTuple):
    """namespaces: whether there are any; account: the first of the numbers of accounts that work is given, 0: it keeps this one;
    readable: what Landlock leaves of the file system, none: it is not used; folder: where scratch folders lie without namespaces.
    """

    namespaces: bool
    account: int
    readable: list[str]
    folder: str


def main() -> None:
    control, settings = socket.socket(fileno=int(sys.argv[1])), Settings(*json.loads(sys.argv[2]))
    for module in catalogue.modules():
        __import__(module)
    import course_lib.exercises.page.plain_kernels  # noqa: F401 - so that no fork has to

    torch.ones(64).half().float()  # PyTorch asks /proc once what this CPU can, and work has no /proc

    global _size
    with contextlib.suppress(OSError):
        _size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _leave())
    isolation.prctl(isolation.DIE_WITH_PARENT, signal.SIGTERM)
    isolation.prctl(isolation.ADOPT, 1)
    isolation.prctl(isolation.DUMPABLE, 0)
    large_pages.take()
    number = 0
    control.send(b"ready")
    while True:
        message, descriptors, *_ = socket.recv_fds(control, 4096, 3)
        if not message:
            _leave()
        _reap()
        number += 1
        if os.fork() == 0:
            control.close()
            seconds, core = message.split()
            _stay_on(int(core))
            _guarded(functools.partial(_start, settings, number, float(seconds), *descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _stay_on(core: int) -> None:
    """However many processes a piece of work starts, it takes one core, and none of another's time; seccomp keeps it there."""
    with contextlib.suppress(OSError, AttributeError):  # Linux has it
        os.sched_setaffinity(0, {core})


def _guarded(work: Any) -> NoReturn:
    """``work()``, which does not come back, in a fork."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def _leave() -> NoReturn:
    isolation.end_descendants()
    os._exit(0)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _start(settings: Settings, number: int, seconds: float, ask: int, answer: int, ended: int) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # the first to go when memory is short
    account = settings.account and settings.account + number % EACH
    if not settings.namespaces:
        isolation.prctl(isolation.DIE_WITH_PARENT, signal.SIGTERM)
        scratch = tempfile.mkdtemp(dir=settings.folder)
        if account:
            os.chown(scratch, account, account)
        _look_after(settings, account, scratch, seconds, ask, answer, ended)
    _unshare()
    init = os.fork()
    if init == 0:
        isolation.prctl(isolation.DIE_WITH_PARENT, signal.SIGKILL)
        _mount(account)
        _guarded(lambda: _look_after(settings, account, SCRATCH, seconds, ask, answer, ended))
    for descriptor in (ask, answer):
        os.close(descriptor)
    isolation.prctl(isolation.DIE_WITH_PARENT, signal.SIGKILL)
    while not os.waitpid(init, os.WNOHANG)[0]:
        time.sleep(PAUSE)
        if isolation.memory(isolation.TOGETHER) > isolation.TOGETHER:
            os.kill(init, signal.SIGKILL)
            os.waitpid(init, 0)
            _tell(ended, isolation.TOO_MUCH)
            break
    os._exit(0)


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    _done(_LIBC.unshare(_HOST | _IPC | _PIDS | _NETWORK | (_USER if user else 0)))
    if user:
        isolation.prctl(isolation.DUMPABLE, 1)  # or these files are root's
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")


def _mount(account: int) -> None:
    """A scratch folder, and no /proc: that is left to whoever watches this process's memory."""
    _done(_LIBC.unshare(_MOUNTS))
    owner = account or os.getuid()
    for place, flags, options in (
        ("/proc", _NOSUID_NODEV | _READ_ONLY, "size=4k,nr_inodes=1"),
        ("/dev/shm", _NOSUID_NODEV, f"size=16m,nr_inodes=64,mode=700,uid={owner}"),
        (SCRATCH, _NOSUID_NODEV, f"size={ROOM},nr_inodes=4096,mode=700,uid={owner}"),
    ):
        _done(_LIBC.mount(b"tmpfs", place.encode(), b"tmpfs", ctypes.c_ulong(flags), options.encode()))


def _done(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _look_after(
    settings: Settings, account: int, scratch: str, seconds: float, ask: int, answer: int, ended: int
) -> NoReturn:
    """Have the work done by a process of its own; say how that ended; end when it has, when time is up, or when nobody waits for it."""
    isolation.prctl(isolation.ADOPT, 1)
    isolation.prctl(isolation.DUMPABLE, 0)
    signal.signal(signal.SIGTERM, lambda *_: _end(settings, account, scratch))
    worker = os.fork()
    if worker == 0:
        _guarded(lambda: _work(settings, account, scratch, seconds, ask, answer, ended))
    os.close(ask)
    os.close(answer)
    gone, limit, found, status = select.poll(), time.monotonic() + seconds + isolation.GRACE, 0, 0
    gone.register(ended, 0)
    look = time.monotonic() + PAUSE
    while not found and time.monotonic() < limit and not gone.poll(3):
        found, status = _ended(worker)
        if not settings.namespaces and time.monotonic() > look:  # else this is seen from outside
            if isolation.memory(isolation.TOGETHER) > isolation.TOGETHER:
                _tell(ended, isolation.TOO_MUCH)
                _end(settings, account, scratch)
            look = time.monotonic() + PAUSE
    if found:
        _tell(ended, b"%d" % os.waitstatus_to_exitcode(status))
    _end(settings, account, scratch)


def _tell(ended: int, how: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody waits any more
        os.write(ended, how)


def _ended(worker: int) -> tuple[int, int]:
    """Whether the worker has ended, and its status; daemons that fell back to this process are waited for on the way."""
    while (found := os.waitpid(-1, os.WNOHANG))[0] not in (0, worker):
        pass
    return found


def _end(settings: Settings, account: int, scratch: str) -> NoReturn:
    """End all that is left. A namespace of processes ends with this one, its first."""
    if not settings.namespaces:
        isolation.end_descendants()
        if account:
            _end_all_of(account)
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def _end_all_of(account: int) -> None:
    pid = os.fork()
    if pid == 0:
        os.setresuid(account, account, account)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(pid, 0)


def _work(
    settings: Settings, account: int, scratch: str, seconds: float, ask: int, answer: int, ended: int
) -> NoReturn:
    if not settings.namespaces:
        isolation.prctl(isolation.DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    with open(ask, "rb") as file:
        question = json.loads(file.read(LONGEST_QUESTION))
    os.close(ended)
    os.chdir(scratch)
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "MPLCONFIGDIR", "IPYTHONDIR"):
        os.environ[name] = scratch
    tempfile.tempdir = scratch
    isolation.quiet((answer,))
    _limit(seconds, settings.namespaces or account > 0)
    if account:
        os.setgroups([])
        os.setresgid(account, account, account)
        os.setresuid(account, account, account)
    isolation.prctl(_NO_NEW_PRIVILEGES, 1)
    if settings.readable:
        landlock.restrict(settings.readable, [scratch, "/dev/null"])
    seccomp.restrict()
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    _LIBC.capset(header, none)
    isolation.prctl(isolation.DUMPABLE, 1)
    if question["kind"] == "compile":
        answering.compiled(question, answer)
    isolation.send(answer, answering.answers(question) if question["kind"] == "answer" else ["here"])
    os._exit(0)


def _limit(seconds: float, own_processes: bool) -> None:
    """own_processes: whether nobody else's are counted."""
    for kind, most in (
        ("CORE", 0),
        ("CPU", int(seconds) + 1),
        ("AS", _size + (isolation.GIGABYTES << 30)),
        ("FSIZE", FILE),
        ("NOFILE", OPEN_FILES),
        *([("NPROC", PROCESSES)] if own_processes else []),
        ("MEMLOCK", 0),
        ("MSGQUEUE", 0),
    ):
        number = getattr(resource, f"RLIMIT_{kind}", None)
        if number is not None:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(number, (most, most))


if __name__ == "__main__":
    main()

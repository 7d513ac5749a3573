"""Linux's Landlock: a process gives up, for itself and all that it will start, every file but those that it names.

It needs no rights and no namespaces (Linux 5.13 and later, if the kernel has it switched on). Where the kernel knows how, TCP, signals to
other processes and abstract sockets go, too. The numbers are those of linux/landlock.h.
"""

import contextlib
import ctypes
import os
from collections.abc import Sequence
from typing import Any

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, on every architecture
_READ = 0b1101  # execute, read a file, read a directory
_READ_FILE = 0b101
_FILES = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}  # rights that can be taken, by version
_WRITE_FILE = 0b110 | 1 << 14  # what a file can be given: write, read, truncate
_NO_NEW_PRIVILEGES = 38  # of prctl


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    if os.name != "posix" or os.uname().sysname != "Linux":
        return 0
    return max(0, _call(_CREATE, None, 0, 1))


def restrict(readable: Sequence[str], writable: Sequence[str]) -> None:
    """From now on only files in and below these can be opened; those that do not exist are passed over.

    Raises OSError where the kernel refuses.
    """
    found = version()
    files = _FILES[min(found, 5)]
    rules = _Rules(files, 3 if found >= 4 else 0, 3 if found >= 6 else 0)
    size = 8 if found < 4 else 16 if found < 6 else 24
    ruleset = _done(_call(_CREATE, ctypes.byref(rules), size, 0))
    for paths, allowed in ((readable, _READ), (writable, files)):
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
                own = allowed if os.path.isdir(path) else allowed & (_READ_FILE | _WRITE_FILE) & files
                _done(_call(_ADD, ruleset, 1, ctypes.byref(_Beneath(own, parent)), 0))
                os.close(parent)
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _done(_call(_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _call(number: int, *args: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(number, *args))


def _done(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result

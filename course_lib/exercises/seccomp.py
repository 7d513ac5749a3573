"""Linux's seccomp: a process gives up, for itself and all that it will start, system calls by which it would go around its limits.

Those are namespaces of its own, in which it could mount as much memory as it likes; memory that no limit counts (memfd, System V);
other cores than its own; and doors into the kernel for which no answer to an exercise has a use. They fail with EPERM. The numbers are
those of Linux's headers.
"""

import ctypes
import errno
import platform
from typing import NamedTuple


class _Calls(NamedTuple):
    """An architecture, and its numbers of clone and of calls that are refused."""

    arch: int
    clone: int
    refused: tuple[int, ...]


_EVERYWHERE = (425, 447)  # io_uring_setup, memfd_secret
_CLONE_3 = 435
# unshare, setns, memfd_create, shmget, msgget, bpf, userfaultfd, perf_event_open, add_key, request_key, keyctl, sched_setaffinity
_CALLS = {
    "x86_64": _Calls(0xC000003E, 56, (272, 308, 319, 29, 68, 321, 323, 298, 248, 249, 250, 203)),
    "aarch64": _Calls(0xC00000B7, 220, (97, 268, 279, 194, 186, 280, 282, 241, 217, 218, 219, 122)),
}
_NAMESPACES = 0x7E020000  # flags of clone
_OTHER_ABI = 0x40000000  # from here on x86_64 has other numbers for its calls
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of a filter's instructions
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # what it can load
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_SET_SECCOMP, _FILTER = 22, 2  # of prctl


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def restrict() -> None:
    """From now on those calls fail. Needs no_new_privs; where Linux or the architecture knows no such filter, nothing happens."""
    calls = _CALLS.get(platform.machine())
    if calls is None or platform.system() != "Linux":
        return
    missing, refused = _FAIL | errno.ENOSYS, _FAIL | errno.EPERM
    steps = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, calls.arch),
        (_RETURN, 0, 0, missing),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, missing),
        (_EQUAL, 0, 1, _CLONE_3),  # its flags lie in memory, where a filter does not look; glibc then takes clone
        (_RETURN, 0, 0, missing),
    ]
    for number in (*_EVERYWHERE, *calls.refused):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refused)]
    steps += [
        (_EQUAL, 0, 3, calls.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, refused),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    ctypes.CDLL(None).prctl(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(steps), program)), 0, 0)

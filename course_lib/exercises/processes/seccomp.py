"""Linux's seccomp: a process gives up, for itself and all that it will start, system calls by which it would go around its limits.

Those are namespaces of its own, in which it could mount as much memory as it likes; memory that no limit counts (memfd, System V);
other cores than its own; and doors into the kernel for which no answer to an exercise has a use. They fail with EPERM. The numbers are
those of Linux's headers.
"""

import ctypes
import errno
import os
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple


class _Calls(NamedTuple):
    """An architecture's number, and those of its calls.

    refused: by work in the sandbox; meeting: by which processes of one account meet; opening: a file, with the number of the argument
    that has the flags; of_itself: whose first argument is 0 for the process itself; signal: to a thread of the process that is named.
    """

    arch: int
    clone: int
    refused: tuple[int, ...]
    fcntl: int
    signal: int
    opening: tuple[tuple[int, int], ...]
    of_itself: tuple[int, ...]
    meeting: tuple[int, ...]


_EVERYWHERE = (425, 447)  # io_uring_setup, memfd_secret
_CLONE_3 = 435
# pidfd_send_signal, pidfd_open, openat2, pidfd_getfd, fchmodat2, setxattrat, removexattrat
_MEETING = (424, 434, 437, 438, 452, 463, 466)
# refused: unshare, setns, memfd_create, shmget, msgget, bpf, userfaultfd, perf_event_open, add_key, request_key, keyctl, sched_setaffinity
# of_itself: prlimit64, sched_getaffinity
# meeting: what makes, renames, removes and changes files and folders, with times, owners and attributes; flock; sockets; ptrace,
# process_vm_readv and _writev, kcmp; signals; priorities, schedulers and groups of processes; semget, shmat, mq_open, inotify, fanotify
_CALLS = {
    "x86_64": _Calls(
        0xC000003E, 56, (272, 308, 319, 29, 68, 321, 323, 298, 248, 249, 250, 203), 72, 234, ((2, 1), (257, 2)), (302, 204),
        (
            83, 258, 88, 266, 133, 259, 86, 265, 82, 264, 316, 85, 84, 87, 263, 76, 77, 90, 91, 268, 92, 93, 94, 260, 132, 235, 280, 261,
            188, 189, 190, 197, 198, 199, 73, 41, 53, 101, 310, 311, 312, 62, 200, 129, 297, 140, 141, 142, 143, 144, 145, 314, 315, 251,
            252, 109, 111, 112, 121, 124, 57, 58, 64, 30, 240, 253, 294, 300, *_MEETING,
        ),
    ),
    "aarch64": _Calls(
        0xC00000B7, 220, (97, 268, 279, 194, 186, 280, 282, 241, 217, 218, 219, 122), 25, 131, ((56, 2),), (261, 123),
        (
            34, 35, 36, 37, 38, 33, 276, 45, 46, 52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16, 32, 198, 199, 117, 270, 271, 272, 129, 130, 138,
            240, 140, 141, 118, 119, 120, 121, 274, 275, 30, 31, 154, 155, 156, 157, 190, 196, 180, 26, 262, *_MEETING,
        ),
    ),
}  # fmt: skip
_NAMESPACES, _THREAD = 0x7E020000, 0x10000  # flags of clone
_CHANGES = 0x400243  # flags of open: for writing, or to make a file
_LOCKS = (6, 7, 37, 38)  # of fcntl
_OTHER_ABI = 0x40000000  # from here on x86_64 has other numbers for its calls
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of a filter's instructions
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # what it can load
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_MISSING, _REFUSED = _FAIL | errno.ENOSYS, _FAIL | errno.EPERM
_SET_SECCOMP, _FILTER, _NO_NEW_PRIVILEGES = 22, 2, 38  # of prctl
_LIBC: Any = ctypes.CDLL(None)


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def restrict() -> None:
    """From now on those calls fail. Needs no_new_privs; where Linux or the architecture knows no such filter, nothing happens."""
    calls = _known()
    if calls is None:
        return
    steps = [
        *_refused((*_EVERYWHERE, *calls.refused)),
        *_where(calls.clone, 0, (_ANY_BIT, _NAMESPACES), _REFUSED, _ALLOW),
    ]
    _install(calls, steps)


def alone() -> None:
    """From now on this process starts no other, changes no file or folder, and neither sees nor signals other processes, nor talks to
    them but by what is open: what the same account runs besides learns nothing from it. Sets no_new_privs; else as ``restrict``.
    """
    calls = _known()
    if calls is None:
        return
    _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    steps = [*_refused(calls.meeting), *_where(calls.clone, 0, (_ANY_BIT, _THREAD), _ALLOW, _REFUSED)]
    for number, flags in calls.opening:
        steps += _where(number, flags, (_ANY_BIT, _CHANGES), _REFUSED, _ALLOW)
    for number in calls.of_itself:
        steps += _where(number, 0, (_EQUAL, 0), _ALLOW, _REFUSED)
    steps += _where(calls.signal, 0, (_EQUAL, os.getpid()), _ALLOW, _REFUSED)
    steps += [(_EQUAL, 0, 2 + 2 * len(_LOCKS), calls.fcntl), (_LOAD, 0, 0, _FIRST_ARGUMENT + 8)]
    steps += [step for lock in _LOCKS for step in ((_EQUAL, 0, 1, lock), (_RETURN, 0, 0, _REFUSED))]
    _install(calls, [*steps, (_RETURN, 0, 0, _ALLOW)])


def _known() -> _Calls | None:
    return _CALLS.get(platform.machine()) if platform.system() == "Linux" else None


def _refused(numbers: Sequence[int]) -> list[tuple[int, int, int, int]]:
    return [step for number in numbers for step in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSED))]


def _where(number: int, argument: int, test: tuple[int, int], then: int, other: int) -> list[tuple[int, int, int, int]]:
    """What becomes of a call by one of its arguments."""
    kind, value = test
    steps = [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * argument), (kind, 0, 1, value)]
    return [*steps, (_RETURN, 0, 0, then), (_RETURN, 0, 0, other)]


def _install(calls: _Calls, steps: Sequence[tuple[int, int, int, int]]) -> None:
    steps = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, calls.arch),
        (_RETURN, 0, 0, _MISSING),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, _MISSING),
        (_EQUAL, 0, 1, _CLONE_3),  # its flags lie in memory, where a filter does not look; glibc then takes clone
        (_RETURN, 0, 0, _MISSING),
        *steps,
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    _LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(steps), program)), 0, 0)

"""Ranks on this machine: one function in several processes that send each other messages.

parts = run(function, 4, x)        # function(rank, x) in four processes; what they return, by rank
"""

import contextlib
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from course_lib import checks

MOST_RANKS = 64
BACKENDS = ("gloo", "nccl")
_SLICE = 0.005  # seconds between two looks at the processes
_GRACE = 5.0  # seconds in which the rank should end that others have missed
_MISSED = re.compile(
    r"connection|socket|broken pipe|gloo|nccl", re.IGNORECASE
)  # what gloo and NCCL say of a rank that is gone
_FRESH = "from course_lib.parallel.rank_processes import _fresh; _fresh()"


class RankError(RuntimeError):
    """A rank failed, or was not done in time; ``rank`` is its number, and the message says how. The other ranks were ended."""

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(message)
        self.rank = rank


def run(function: Callable[..., Any], ranks: int, *args: Any, limit: float = 60.0, backend: str = "gloo") -> list[Any]:
    """``function(rank, *args)`` in ``ranks`` processes that share a process group, torch.distributed's default; their results by rank.

    'gloo' forks this process, so that the function may stand in a cell of a notebook, and computes on the CPU, each rank with one
    thread. 'nccl' starts new processes, each with the GPU of its rank; the function stands in a module then. Results are lists,
    dictionaries and the like of tensors, which come back on the CPU without gradients, and plain data; what the ranks print is printed
    in their order. Raises RankError if a rank raises or dies, or if one is not done after ``limit`` seconds: whatever happens, no
    process is left. Raises TypeError or ValueError for other arguments, and where there are fewer GPUs than ranks.
    """
    checks.function("function", function)
    checks.whole("ranks", ranks, 1, MOST_RANKS)
    checks.number("limit", limit, above=0)
    checks.one_of("backend", backend, BACKENDS)
    if backend == "nccl" and torch.cuda.device_count() < ranks:
        raise ValueError(
            f"ranks is {ranks}, but this machine has {torch.cuda.device_count()} GPUs; pass at most as many"
        )
    if backend == "gloo" and not hasattr(os, "fork"):
        raise ValueError("backend is 'gloo', which forks this process, and this system cannot; use Linux or macOS")
    with tempfile.TemporaryDirectory() as folder:
        start = _forked if backend == "gloo" else _started
        pids = start(Path(folder), function, ranks, args, backend)
        try:
            _wait(Path(folder), pids, time.monotonic() + limit, limit)
        finally:
            _end(pids)
            for rank in range(ranks):
                sys.stdout.write(_text(Path(folder, f"{rank}.out")))
        return [torch.load(Path(folder, f"{rank}.result"), weights_only=False) for rank in range(ranks)]


# --- the process that asks ---


def _forked(
    folder: Path, function: Callable[..., Any], ranks: int, args: tuple[Any, ...], backend: str
) -> dict[int, int]:
    """Process ids, and 0 … ranks - 1 that they stand for."""
    pids: dict[int, int] = {}
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        for rank in range(ranks):
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", DeprecationWarning
                )  # a notebook has threads; the child uses none of theirs
                pid = os.fork()
            if pid == 0:
                os._exit(_work(folder, rank, ranks, backend, function, args, parent))
            pids[pid] = rank
    except BaseException:
        _end(pids)
        raise
    return pids


def _started(
    folder: Path, function: Callable[..., Any], ranks: int, args: tuple[Any, ...], backend: str
) -> dict[int, int]:
    try:
        if function.__module__ == "__main__":  # what pickle would take
            raise TypeError("it stands in the program that runs")
        Path(folder, "question").write_bytes(pickle.dumps((function, args)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"function is {function!r}, which with its arguments cannot be handed to a new process ({error}); pass a function that "
            "stands in a module, and arguments that can be pickled"
        ) from None
    command = [sys.executable, "-c", _FRESH, str(folder), str(ranks), backend]
    pids: dict[int, int] = {}
    for rank in range(ranks):
        pids[os.posix_spawn(sys.executable, [*command, str(rank), str(os.getpid())], os.environ)] = rank
    return pids


def _wait(folder: Path, pids: dict[int, int], end: float, limit: float) -> None:
    """Until all have ended well; ``pids`` keeps those that have not ended. Raises RankError otherwise."""
    while pids:
        failed = _ended(folder, pids)
        if failed:
            grace = time.monotonic() + _GRACE  # whoever missed another one may have ended before it
            while pids and all(_missed_another(folder, rank) for rank in failed) and time.monotonic() < grace:
                time.sleep(_SLICE)
                failed |= _ended(folder, pids)
            killed = {rank: -code for rank, code in failed.items() if code < 0}
            first = [rank for rank in killed or failed if not _missed_another(folder, rank)]
            rank = min(first or failed, key=lambda rank: _time(folder, rank))
            if killed:
                how = f"was killed by signal {killed[rank]} ({signal.Signals(killed[rank]).name})"
            else:
                how = f"ended with code {failed[rank]} and without a result"
            said = _text(Path(folder, f"{rank}.error")) or _text(Path(folder, f"{rank}.err"))[-2000:]
            raise RankError(rank, f"rank {rank} {how}; the other ranks were ended\n{said}".strip())
        if pids and time.monotonic() > end:
            late = sorted(pids.values())
            names = f"rank {late[0]} was" if len(late) == 1 else f"ranks {', '.join(map(str, late))} were"
            raise RankError(
                late[0], f"{names} not done after {limit:g} s and ended; does each message have a receiver?"
            )
        time.sleep(_SLICE)


def _ended(folder: Path, pids: dict[int, int]) -> dict[int, int]:
    """The exit codes of the ranks that have ended since without a result; who has ended leaves ``pids``."""
    failed = {}
    for pid, rank in list(pids.items()):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            del pids[pid]
            if (code := os.waitstatus_to_exitcode(status)) or not Path(folder, f"{rank}.result").exists():
                failed[rank] = code
    return failed


def _end(pids: dict[int, int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in list(pids):
        os.waitpid(pid, 0)
        del pids[pid]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _missed_another(folder: Path, rank: int) -> bool:
    """Whether the rank raised because another one was gone."""
    said = [line for line in _text(Path(folder, f"{rank}.error")).splitlines() if not line.startswith(" ")]
    return any(map(_MISSED.search, said))


def _time(folder: Path, rank: int) -> float:
    """When the rank raised; one that could not say comes first."""
    path = Path(folder, f"{rank}.error")
    return path.stat().st_mtime_ns if path.exists() else 0


# --- the processes ---


def _fresh() -> None:
    folder, ranks, backend, rank, parent = sys.argv[1:]
    function, args = pickle.loads(Path(folder, "question").read_bytes())
    os._exit(_work(Path(folder), int(rank), int(ranks), backend, function, args, int(parent)))


def _work(
    folder: Path, rank: int, ranks: int, backend: str, function: Callable[..., Any], args: tuple[Any, ...], parent: int
) -> int:
    """In the process of a rank: 0 if its result is written."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that asks, which ends this one
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        for descriptor, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / f"{rank}.{name}", os.O_WRONLY | os.O_CREAT), descriptor)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115 - a notebook's are its own
        torch.set_num_threads(1)  # OpenMP's threads were not forked: to wait for them would be for ever
        device = torch.device("cuda", rank) if backend == "nccl" else None
        if device:
            torch.cuda.set_device(device)
        elif sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meet = f"file://{folder / 'meet'}"  # a device connects NCCL here, and not at a first message that some ranks may never send
        dist.init_process_group(backend, init_method=meet, rank=rank, world_size=ranks, device_id=device)
        result = function(rank, *args)
        torch.save(pytree.tree_map(_plain, result), folder / f"{rank}.result")
        sys.stdout.flush()
        dist.barrier()  # who leaves early takes what he has sent with him
    except BaseException:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            (folder / f"{rank}.error").write_text(traceback.format_exc(), encoding="utf-8")
        return 1
    return 0


def _plain(x: Any) -> Any:
    return x.detach().cpu() if isinstance(x, torch.Tensor) else x


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)

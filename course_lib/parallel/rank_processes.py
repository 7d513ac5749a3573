"""Ranks on this machine: one function in several processes that send each other messages.

parts = run(function, 4, x)        # function(rank, x) in four processes; what they return, by rank
"""

import contextlib
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils import _pytree as pytree

from course_lib import checks

MOST_RANKS = 64
BACKENDS = ("gloo", "nccl")
_SLICE = 0.005  # seconds between two looks at the processes
_GRACE = 5.0  # seconds in which the rank should end that others have missed
_MISSED = re.compile("connection|socket|broken pipe|gloo|nccl", re.IGNORECASE)  # what these say of a rank that is gone

FORKED = (
    "This process has used its GPU or, where there is one, computed gradients, and a rank that is forked from it then can do neither: "
    "restart the kernel, and call parallel.run first"
)


class RankError(RuntimeError):
    """A rank failed, or was not done in time; ``rank`` is its number, and the message says how. The other ranks were ended."""

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(message)
        self.rank = rank


def run(function: Callable[..., Any], ranks: int, *args: Any, limit: float = 60.0, backend: str = "gloo") -> list[Any]:
    """``function(rank, *args)`` in ``ranks`` processes that share a process group, torch.distributed's default; their results by rank.

    'gloo' forks this process, so that the function may stand in a cell of a notebook, and computes on the CPU, each rank with one
    thread. 'nccl' starts new processes, each with the GPU of its rank; the function stands in a module then, and a script asks for them
    below ``if __name__ == "__main__"``. Results are lists, dictionaries and the like of tensors, which come back on the CPU without
    gradients, and plain data; what the ranks print is printed in their order. Raises RankError if a rank raises or dies, or if one is
    not done after ``limit`` seconds: no process is left, on Linux not even where this one is killed. Raises TypeError or ValueError for
    other arguments, and where there are fewer GPUs than ranks.
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
    if backend == "nccl" and function.__module__ == "__main__":
        raise ValueError(
            f"function is {function!r}, which cannot be handed to a new process; pass a function that stands in a module"
        )
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a notebook has threads; a forked rank uses none of theirs
        folder, method = Path(name), "fork" if backend == "gloo" else "spawn"
        given = folder, ranks, backend, function, args
        processes = mp.start_processes(
            _work, given, nprocs=ranks, join=False, daemon=True, start_method=method
        ).processes
        try:
            _wait(folder, processes, limit)
        finally:
            for process in processes:
                process.kill()
                process.join()
            for rank in range(ranks):
                sys.stdout.write(_text(folder / f"{rank}.out"))
        return [torch.load(folder / f"{rank}.result", weights_only=False) for rank in range(ranks)]


def _wait(folder: Path, processes: list[Any], limit: float) -> None:
    """Until all have ended well. Raises RankError otherwise."""
    end, running = time.monotonic() + limit, dict(enumerate(processes))
    while running:
        for rank, process in list(running.items()):
            if (code := process.exitcode) is not None:
                del running[rank]
                if code or not (folder / f"{rank}.result").exists():
                    raise RankError(rank, _told(folder, rank, code))
        if running and time.monotonic() > end:
            for rank in running:
                if (folder / f"{rank}.error").exists():  # it has missed another one, and waits for that to end
                    raise RankError(rank, _told(folder, rank, 1))
            names = f"ranks {', '.join(map(str, running))} were" if len(running) > 1 else f"rank {min(running)} was"
            raise RankError(
                min(running), f"{names} not done after {limit:g} s and ended; does each message have a receiver?"
            )
        time.sleep(_SLICE)


def _told(folder: Path, rank: int, code: int) -> str:
    how = f"ended with code {code} and without a result"
    if code < 0:
        how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
    said = _text(folder / f"{rank}.error") or _text(folder / f"{rank}.err")[-2000:]
    silent = not said and code != -signal.SIGKILL and torch.cuda.is_initialized()
    if silent or "fork-based" in said or "forked subprocess" in said:  # torch's words, which name no way out
        said += FORKED
    return f"rank {rank} {how}; the other ranks were ended\n{said}".strip()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _work(
    rank: int, folder: Path, ranks: int, backend: str, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """In the process of a rank: writes its result, or what it raised, and ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which torch has sent when the process ends that asks
    try:
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
    except BaseException as error:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            (folder / f"{rank}.error").write_text(traceback.format_exc(), encoding="utf-8")
            if _MISSED.search(f"{type(error).__name__}: {error}"):
                time.sleep(_GRACE)  # another rank is gone: that one is to be named
        os._exit(1)
    os._exit(0)


def _plain(x: Any) -> Any:
    return x.detach().cpu() if isinstance(x, torch.Tensor) else x

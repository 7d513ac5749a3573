"""A small event simulation of an attention kernel on one SM: who loads, who multiplies, who waits.

Blocks of K and V come into a ring of ``buffers`` or, with many warps, to each warpgroup by itself. Consumer
warpgroups take each block in turn: Q Kᵀ and P V on the SM's tensor cores, softmax on its CUDA cores. Durations are in
any one unit. What it leaves out: limits on the CUDA cores, on memory bandwidth between SMs, what issuing a copy takes,
and everything inside a matmul. K and V of a block share a buffer. Source: FlashAttention-3 (arXiv 2407.08608), sections
3.1 and 3.2, after whose figures 1 and 2 the last two modes are named (its kernel uses them together); the first two are
how it was done before.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from course_lib import checks

MODES = ("many warps", "multistage", "specialised", "ping-pong", "two-stage overlap")
TENSOR = ("QK", "PV")  # the work that is done on the tensor cores


class Span(NamedTuple):
    """One piece of work: warpgroups 1 … compute, 0 stands for copies to the ring; kind is 'load', 'QK', 'softmax' or 'PV'."""

    warpgroup: int
    kind: str
    block: int
    start: float
    end: float


@dataclass
class _Task:
    warpgroup: int
    kind: str
    block: int
    left: float
    needs: list["_Task"]
    start: float | None = None
    end: float | None = None


def simulate(
    blocks: int = 6,
    consumers: int = 2,
    buffers: int = 2,
    load: float = 2.0,
    qk: float = 2.0,
    softmax: float = 2.0,
    pv: float = 2.0,
    mode: str = "specialised",
) -> list[Span]:
    """The timeline of ``blocks`` blocks of keys, as spans in order of their start.

    'specialised': a producer loads; warpgroups share the tensor cores, each waits for its own matmul, softmax, matmul. 'many
    warps': no producer and no ring; each is a program of its own, which fetches a block for itself, waits, and computes.
    'multistage': no producer;
    the warpgroups issue the copies for the ring and wait for each other before each block, where 'specialised' has them in step
    anyway: the same timeline. 'ping-pong': the tensor cores serve one warpgroup at a time; a turn is P V of a block and
    Q Kᵀ of the next. 'two-stage overlap': within a warpgroup the next Q Kᵀ goes before the last P V, and its softmax runs
    beside that P V. These two have two blocks in use, so buffers is at least 2 there.
    """
    checks.one_of("mode", mode, MODES)
    if buffers < 2 and (mode == "two-stage overlap" or (mode == "ping-pong" and consumers > 1)):
        raise ValueError(f"buffers is 1; pass at least 2: with {mode} two blocks are in use at a time")
    tasks = _tasks(blocks, consumers, buffers, load, qk, softmax, pv, mode)
    turns = sorted((t for t in tasks if t.kind in TENSOR), key=_turn)
    return _run(tasks, turns if mode == "ping-pong" else None)


def in_order(
    order: Sequence[tuple[int, str, int]], blocks: int, buffers: int, load: float, qk: float, softmax: float, pv: float
) -> list[Span]:
    """The timeline of two consumers if the tensor cores serve one matmul at a time, in this order of (warpgroup, 'QK' or 'PV', block).

    A consumer has registers for two blocks of scores: Q Kᵀ of block j needs P V of block j - 2 to be done. K and V of a block share one
    of ``buffers``. Raises ValueError for an order in which one waits for a later one.
    """
    work: dict[tuple[int, str, int], _Task] = {}
    for block in range(blocks):
        loaded = _Task(0, "load", block, load, [work[0, "load", block - 1]] if block else [])
        if block >= buffers:
            loaded.needs += [work[warpgroup, "PV", block - buffers] for warpgroup in (1, 2)]
        work[0, "load", block] = loaded
        for warpgroup in (1, 2):
            scores = _Task(warpgroup, "QK", block, qk, [loaded])
            weights = _Task(warpgroup, "softmax", block, softmax, [scores])
            if block:
                weights.needs.append(work[warpgroup, "softmax", block - 1])
            if block > 1:
                scores.needs.append(work[warpgroup, "PV", block - 2])
            for task in (scores, weights, _Task(warpgroup, "PV", block, pv, [weights])):
                work[warpgroup, task.kind, block] = task
    return _run(list(work.values()), [work[key] for key in order])


def _tasks(
    blocks: int, consumers: int, buffers: int, load: float, qk: float, softmax: float, pv: float, mode: str
) -> list[_Task]:
    """All work with what it waits for. A buffer is free again when every consumer has used its block."""
    tasks: list[_Task] = []
    loads: list[_Task] = []  # one after the other, whoever asks
    matmuls: dict[tuple[int, int], _Task] = {}
    everyone = range(1, consumers + 1)
    if alone := mode == "many warps":
        buffers = 1
    for block in range(blocks):
        for owner in everyone if alone else [0]:
            users = [owner] if alone else everyone
            needs = loads[-1:] + [matmuls[user, block - buffers] for user in users if block >= buffers]
            loads.append(_Task(owner, "load", block, load, needs))
        for warpgroup in everyone:
            matmuls[warpgroup, block] = _Task(warpgroup, "PV", block, pv, [])
    tasks += loads
    for warpgroup in everyone:
        mine = loads[warpgroup - 1 :: consumers] if alone else loads
        scores = [_Task(warpgroup, "QK", block, qk, [mine[block]]) for block in range(blocks)]
        weights = [_Task(warpgroup, "softmax", block, softmax, [scores[block]]) for block in range(blocks)]
        for block in range(blocks):
            matmuls[warpgroup, block].needs += [weights[block]]
            if block:
                weights[block].needs.append(weights[block - 1])
                matmuls[warpgroup, block].needs.append(matmuls[warpgroup, block - 1])  # both add to the same O
                if mode == "two-stage overlap":  # Q Kᵀ goes first, then the last block's P V, beside which softmax runs
                    scores[block].needs += [weights[block - 1]] + ([matmuls[warpgroup, block - 2]] if block > 1 else [])
                    matmuls[warpgroup, block - 1].needs.append(scores[block])
                else:
                    scores[block].needs.append(matmuls[warpgroup, block - 1])
            tasks += [scores[block], weights[block], matmuls[warpgroup, block]]
    return tasks


def _run(tasks: list[_Task], turns: list[_Task] | None) -> list[Span]:
    """Let time pass from event to event; work on the tensor cores shares them evenly, or takes them turn by turn, in this order."""
    now = 0.0
    waiting, running = list(tasks), list[_Task]()
    nothing = 1e-9 * min(t.left for t in tasks)  # what rounding may leave of a task that is done
    while waiting or running:
        busy = [t for t in running if t.kind in TENSOR]
        for task in list(waiting):
            if any(need.end is None for need in task.needs):
                continue
            if task.kind in TENSOR and turns is not None:
                if busy or task is not turns[0]:
                    continue
                turns.pop(0)
            task.start = now
            waiting.remove(task)
            running.append(task)
            if task.kind in TENSOR:
                busy.append(task)
        if not running and turns:
            stuck = turns[0]
            raise ValueError(
                f"order lets {stuck.kind} of block {stuck.block} of warpgroup {stuck.warpgroup} wait for a matmul that comes later"
            )
        step = min(t.left * (len(busy) if t.kind in TENSOR else 1) for t in running)
        now += step
        for task in running:
            task.left -= step / (len(busy) if task.kind in TENSOR else 1)
            if task.left <= nothing:
                task.end = now
        running = [t for t in running if t.end is None]
    spans = [Span(t.warpgroup, t.kind, t.block, t.start or 0.0, t.end or 0.0) for t in tasks]
    return sorted(spans, key=lambda s: (s.start, s.warpgroup, s.end))


def _turn(task: _Task) -> tuple[int, int, int]:
    """The order of turns: P V of block j - 1 and Q Kᵀ of block j belong together, warpgroup after warpgroup."""
    return (task.block + (task.kind == "PV"), task.warpgroup, task.kind == "QK")


def idle_fraction(spans: list[Span]) -> float:
    """The share of the whole time in which the tensor cores do nothing."""
    work = sorted((s.start, s.end) for s in spans if s.kind in TENSOR)
    busy = reached = 0.0
    for start, end in work:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return 1 - busy / max(s.end for s in spans)


def loads(work: Sequence[float], workers: int, queue: bool, ahead: bool = False) -> list[float]:
    """How long each of ``workers`` is busy with ``work``, in this order: worker w takes pieces w, w + workers, … or, with a
    queue, whoever is free takes the next; ``ahead``: chooses it when it begins the piece before. The longest decides when all is
    done."""
    busy = [0.0] * workers
    if not queue:
        for i, piece in enumerate(work):
            busy[i % workers] += piece
        return busy
    left = iter(work)
    free = [(0.0, worker, next(left, None) if ahead else None) for worker in range(workers)]
    while free:
        _, worker, in_hand = heapq.heappop(free)
        begun = in_hand if ahead else next(left, None)
        if begun is not None:
            busy[worker] += begun
            heapq.heappush(free, (busy[worker], worker, next(left, None) if ahead else None))
    return busy

"""Attention on two GPUs of one machine: the ring in its orders, Ulysses and torch's context_parallel, beside one GPU's attention()."""

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib import parallel
from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.kernels.merging import merge
from course_lib.model.parallel import ORDERS
from course_lib.recordings.hopper import compile_together
from course_lib.recordings.training import HIDDEN

RANKS, LIMIT = 2, 3000.0  # GPUs; seconds for all
SHOWN = 16_384, 65_536  # tokens of the timelines
LONG = 262_144  # tokens: the ring in its best order alone, no all-gather, as many heads of keys as of queries
ROUNDS, LOOP = 5, 0.05  # turns of each call; seconds that a turn takes, about
LONGEST = 3.0  # and that all turns of the slowest take, about
WRONG = 0.02  # rms error as a share of the rms of what one GPU finds
ONE, LINK = "one GPU", "send and receive"
PASSES = ("forward", "forward and backward")
CONTEXT = {"context_parallel, all-gather": "allgather", "context_parallel, ring": "alltoall"}


class Cell(NamedTuple):
    """One sequence of n tokens; H heads of queries of d numbers, kv_heads of keys."""

    n: int
    causal: bool
    d: int
    heads: int
    kv_heads: int


SHAPES = tuple(itertools.product((False, True), (64, 128), (1, 4)))
CELLS = [
    Cell(n, causal, d, HIDDEN // d, HIDDEN // d // group)
    for n in (16_384, 65_536, LONG)
    for causal, d, group in SHAPES
    if n < LONG or group == 1
]


class Way(NamedTuple):
    """A call gives this rank's o, and its gradients; inside ``within``, which is entered once for many calls."""

    call: Callable[[], list[torch.Tensor]]
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


def ring_of_gpus() -> list[dict[str, Any]]:
    """bf16, 16k, 64k and 256k tokens of 2,048 numbers on two GPUs, one run: seconds of each way, forward and with gradients.

    Each rank is a process, times are those of the slower one. The calls of a cell take turns in random order, about LOOP seconds
    each, for a GPU's clock depends on what ran before; the messages of a step are timed alone, too, as 'send and receive'. What differs
    from one GPU's result is left out, with a printed line, as is a way that raises; RuntimeError if it is one of ours.
    """
    compile_together(_compiled, itertools.product((64, 128), (False, True)))
    return parallel.run(measured, RANKS, CELLS, ROUNDS, LOOP, limit=LIMIT, backend="nccl")[0]  # type: ignore[no-any-return]


def ring_of_gpus_kernels() -> list[dict[str, Any]]:
    """Which kernels ran when, on the first of two GPUs: a causal ring in zigzag order, 16 heads of 128, bf16, by torch's profiler.

    A row is a kernel, or an operation of memory: its name, its stream, and begin and end in seconds from the first one.
    """
    return parallel.run(kernels, RANKS, [Cell(n, True, 128, 16, 16) for n in SHOWN], limit=LIMIT, backend="nccl")[0]  # type: ignore[no-any-return]


def kernels(rank: int, cells: list[Cell]) -> list[dict[str, Any]]:
    """The rows, in the process of a rank."""
    from torch.profiler import ProfilerActivity, profile

    device, rows = torch.device("cuda", rank), []
    for cell, direction in itertools.product(cells, PASSES):
        call = _ways(cell, direction != PASSES[0], device)["ring, zigzag"].call
        for _ in range(3):
            call()
        dist.barrier()
        _finish(device)
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(3):
                call()
            _finish(device)
        ran = [x for x in profiler.events() if x.device_type == torch.autograd.DeviceType.CUDA]
        ran.sort(key=lambda x: x.time_range.start)
        for x in ran:
            row = {"direction": direction, "n": cell.n, "kernel": x.name[:80], "stream": x.device_resource_id}
            begin, end = ((time - ran[0].time_range.start) / 1e6 for time in (x.time_range.start, x.time_range.end))
            rows.append(row | {"begin": begin, "end": end})
    return rows


def _compiled(d: int, causal: bool) -> None:
    """The kernels of a ring, once, on one GPU."""
    q, k, v = leaves = [
        torch.randn(1, 4, 8192, d, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    ]
    o, L = attention(q, k, v, causal=causal, return_lse=True)
    torch.autograd.grad(o, leaves, q)
    merge(o.detach(), L.detach(), o.detach(), L.detach())
    torch.cuda.synchronize()


def measured(rank: int, cells: list[Cell], rounds: int, loop: float) -> list[dict[str, Any]]:
    """The rows, in the process of a rank; on CPUs in float32."""
    device = torch.device("cuda", rank) if dist.get_backend() == "nccl" else torch.device("cpu")
    rows: list[dict[str, Any]] = []
    for cell, direction in itertools.product(cells, PASSES):
        ways = _ways(cell, direction != PASSES[0], device)
        errors = _errors(ways, cell, rank)
        times = _times({name: ways[name] for name in errors}, rounds, loop, device)
        for name, seconds in times.items():
            timing = measure.Timing.of(seconds)
            row = {"algorithm": name, "direction": direction, **cell._asdict(), "ranks": dist.get_world_size()}
            row |= {"seconds": timing.median, "quarter": timing.quarter, "three_quarters": timing.three_quarters}
            rows.append(row | {"error": round(errors[name], 5)})
        if rank == 0:
            shown = ", ".join(
                f"{name} {row['seconds'] * 1e3:.4g} ms" for name, row in zip(times, rows[-len(times) :], strict=True)
            )
            print(f"{cell}, {direction}: {shown}", flush=True)
    return rows


def _ways(cell: Cell, gradients: bool, device: torch.device) -> dict[str, Way]:
    """Each way by name."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    shapes = [(1, heads, cell.n, cell.d) for heads in (cell.heads, cell.kv_heads, cell.kv_heads, cell.heads)]
    whole = [torch.randn(shape, device=device, dtype=dtype) for shape in shapes]

    def way(order: str, attend: Callable[..., Any], **more: Any) -> Way:
        *leaves, do = whole if order == "all" else _mine(whole, order)
        leaves = [x.detach().clone().requires_grad_(gradients) for x in leaves]

        def run() -> list[torch.Tensor]:
            o = attend(*leaves)
            return [o.detach(), *(torch.autograd.grad(o, leaves, do) if gradients else [])]

        return Way(run, **more)

    best, causal = "zigzag" if cell.causal else "contiguous", cell.causal
    how: dict[str, Any] = {"causal": causal, "length": cell.n}
    found = {ONE: way("all", partial(attention, causal=causal))}
    orders = ("contiguous", "zigzag", "striped") if causal and cell.n < LONG else (best,)
    for order in orders:
        found[f"ring, {order}"] = way(order, partial(parallel.ring_attention, order=order, **how))
    if cell.heads % dist.get_world_size() == 0:
        found["Ulysses"] = way("contiguous", partial(parallel.ulysses_attention, **how))
    for name, rotation in CONTEXT.items():
        if cell.n == LONG and rotation == "allgather":
            continue
        found[name] = way(
            best, partial(_fused, causal=causal), within=partial(_context_parallel, device, causal, rotation)
        )
    found[LINK] = Way(partial(_exchange, [torch.cat(_mine(whole[1:3], "contiguous"))]))
    return found


def _mine(tensors: list[torch.Tensor], order: str) -> list[torch.Tensor]:
    return [parallel.shard(x, dist.get_world_size(), dist.get_rank(), order) for x in tensors]


def _fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )


@contextlib.contextmanager
def _context_parallel(device: torch.device, causal: bool, rotation: str) -> Iterator[None]:
    """Within it torch's own takes shares in its order: zigzag under a mask, else contiguous. It wants a buffer to shard: one unused."""
    from torch.distributed.tensor import experimental
    from torch.distributed.tensor.experimental import _attention

    _attention.set_rotate_method(rotation)
    _attention._cp_options.enable_load_balance = causal
    mesh, unused = _mesh(device.type), torch.zeros(2 * dist.get_world_size(), device=device)
    fused = sdpa_kernel(SDPBackend.FLASH_ATTENTION)
    with fused, experimental.context_parallel(mesh, buffers=[unused], buffer_seq_dims=[0]):
        yield


@functools.cache
def _mesh(device: str) -> DeviceMesh:
    return init_device_mesh(device, (dist.get_world_size(),))


def _exchange(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """A step's messages alone."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    found = [torch.empty_like(x) for x in tensors]
    operations = [dist.P2POp(dist.isend, x, (rank + 1) % ranks) for x in tensors]
    operations += [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in found]
    for message in dist.batch_isend_irecv(operations):
        message.wait()
    return []


def _errors(ways: dict[str, Way], cell: Cell, rank: int) -> dict[str, float]:
    """The rms error of each way as a share of one GPU's result; ways that are wrong or raise are not among them."""
    right, found = ways[ONE].call(), {}
    for name, way in ways.items():
        order = name.removeprefix("ring, ")
        if order not in ORDERS:
            order = "zigzag" if name in CONTEXT and cell.causal else "contiguous"
        try:
            wanted = right if name == ONE else _mine(right, order)
            with way.within():
                pairs = list(zip(way.call(), wanted, strict=name != LINK))
            error = max((_share(x, y) for x, y in pairs), default=0.0)
            if not error <= WRONG:
                raise RuntimeError(f"its error is {error:.3f} of what one GPU finds")
        except Exception as problem:
            if name not in CONTEXT:
                raise
            error = float("inf")
            if rank == 0:
                print(f"{name} is left out: {cell}: {str(problem).splitlines()[0]}", flush=True)
        worst = torch.tensor(error, device=right[0].device)
        dist.all_reduce(worst, dist.ReduceOp.MAX)  # all ranks have to time the same calls
        if float(worst) <= WRONG:
            found[name] = float(worst)
    return found


def _share(x: torch.Tensor, right: torch.Tensor) -> float:
    """The rms error of x as a share of what is right, where it lies: over half a gigabyte, the CPU would take longer than all calls."""
    error = torch.linalg.vector_norm(x.double() - right.double()) / torch.linalg.vector_norm(right, dtype=torch.float64)
    return float(error.nan_to_num(nan=float("inf")))


def _times(ways: dict[str, Way], rounds: int, loop: float, device: torch.device) -> dict[str, list[float]]:
    """Seconds of a call in each round, by the slower rank; fewer rounds where a call takes seconds."""
    first = {name: _slowest(way, 1, device) for name, way in ways.items()}
    found = {name: [seconds] if seconds >= loop else [] for name, seconds in first.items()}
    turns, draw = min(rounds, max(2, round(LONGEST / max(first.values())))), random.Random(0)  # the same on each rank
    busy = [name for name in ways if name != LINK]
    order = [name for _ in range(turns) for name in draw.sample(busy, len(busy))]
    for name in [*order, *[LINK] * turns]:  # a GPU cools while it only sends, which would favour who comes next
        if len(found[name]) < turns:
            found[name].append(_slowest(ways[name], max(1, round(loop / first[name])), device))
    return found


def _slowest(way: Way, count: int, device: torch.device) -> float:
    with way.within():
        dist.barrier()
        _finish(device)
        begin = time.perf_counter()
        for _ in range(count):
            way.call()
        _finish(device)
        seconds = torch.tensor((time.perf_counter() - begin) / count, device=device, dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return float(seconds)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()

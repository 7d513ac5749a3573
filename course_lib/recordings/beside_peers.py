"""attention() beside cuDNN, FlashAttention-2, FlashAttention-4 and FlexAttention: replayed CUDA graphs, and calls as a user makes them.

All in one run, in alternating turns. The inputs require gradients in both kinds of time, so that every kernel also stores
what its backward pass needs, and the two differ in the host's share alone.
"""

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch._functorch import config as functorch
from torch.nn.attention import flex_attention as flex
from torch.nn.attention import sdpa_kernel

from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.instruments.peers import FUSED, plain_attention
from course_lib.recordings.hopper import compile_together
from course_lib.recordings.training import HIDDEN, TOKENS, flops
from course_lib.show.tables import Table

OURS = "attention()"
LENGTHS = (1024, 4096, 16_384)
CELLS = [(d, causal, n) for d in (64, 128) for causal in (False, True) for n in LENGTHS]
PASSES = {"forward": 1.0, "backward": 2.5, "forward and backward": 3.5}  # their FLOPs, by those of the forward pass
HOW = ("graphs", "eager")
KINDS = [(name, how) for name in PASSES for how in HOW if (name, how) != ("forward and backward", "graphs")]
ROUNDS, LOOP = 11, 15e-3  # turns; seconds that a loop of eager calls takes at least
WRONG = 0.02  # rms error as a share of the rms of what is right; rounding to bf16 makes 0.002 to 0.004

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Timed(NamedTuple):
    """Seconds of a call: median and quartiles over the turns. ``error``: the largest of o's and the gradients' rms errors, a share."""

    algorithm: str
    direction: str
    how: str
    d: int
    causal: bool
    n: int
    seconds: float
    quarter: float
    three_quarters: float
    tflops: float
    error: float


class Peer(NamedTuple):
    """An attention of q, k, v; inside ``within``, which is entered once for many calls. FA4 wants [B, N, H, D]."""

    attend: Attend
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    heads_last: bool = False


def peers(causal: bool, n: int) -> dict[str, Peer]:
    """attention() and those that it stands beside, by name; FA4 only where it can be imported."""
    torchs = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=causal)
    found = {OURS: Peer(partial(attention, causal=causal))}  # type: ignore[arg-type]
    found |= {name: Peer(torchs, partial(sdpa_kernel, FUSED[name])) for name in ("cuDNN", "FA2")}
    mask = flex.create_block_mask(_visible, None, None, n, n, device="cuda") if causal else None
    found["FlexAttention"] = Peer(partial(torch.compile(flex.flex_attention, dynamic=False), block_mask=mask))
    fa4, _ = flash_attention_4()
    if fa4 is not None:
        found["FA4"] = Peer(lambda q, k, v: _first(fa4(q, k, v, causal=causal)), heads_last=True)
    return found


def _visible(batch: Any, head: Any, i: Any, j: Any) -> Any:
    return i >= j


def flash_attention_4() -> tuple[Callable[..., Any] | None, str]:
    """FlashAttention-4's function of q, k, v [B, N, H, D], or None and why it is missing."""
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")  # what other processes have compiled
    try:
        from flash_attn.cute import flash_attn_func
    except Exception as error:  # not there, or not made for the versions of what it builds on
        return None, f"FA4 is left out: {error}; docs/speed.md says how to install flash-attn-4"
    return flash_attn_func, ""


def _first(found: Any) -> torch.Tensor:
    return found[0] if isinstance(found, tuple | list) else found


class _Cell:
    """The inputs of a cell, and what comes out."""

    def __init__(self, d: int, causal: bool, n: int) -> None:
        torch.manual_seed(0)
        shape = (TOKENS // n, HIDDEN // d, n, d)
        *self.inputs, self.do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        self.causal = causal

    @functools.cached_property
    def right(self) -> list[torch.Tensor]:
        """o, dq, dk, dv of the last head in float64, [N, d]."""
        q, k, v = (x[-1, -1].double().requires_grad_() for x in self.inputs)
        o = plain_attention(q, k, v, self.causal)
        return [o.detach(), *torch.autograd.grad(o, (q, k, v), self.do[-1, -1].double())]

    def leaves(self, peer: Peer) -> tuple[list[torch.Tensor], torch.Tensor]:
        """q, k, v that require gradients, and do, in the order of dimensions that this peer wants."""
        *inputs, do = (x.transpose(1, 2).contiguous() if peer.heads_last else x for x in (*self.inputs, self.do))
        return [x.detach().requires_grad_() for x in inputs], do

    def results(self, peer: Peer) -> list[torch.Tensor]:
        """o, dq, dk, dv of the last head, [N, d]."""
        leaves, do = self.leaves(peer)
        with peer.within():
            o = peer.attend(*leaves)
        found = [o.detach(), *torch.autograd.grad(o, leaves, do)]
        return [x[-1, :, -1] if peer.heads_last else x[-1, -1] for x in found]

    def error(self, peer: Peer) -> float:
        """The largest rms error of the results, as a share of the rms of what is right."""
        pairs = zip(self.results(peer), self.right, strict=True)
        return max(measure.rms_error(x, right) / float(right.square().mean().sqrt()) for x, right in pairs)


@functorch.patch(donated_buffer=False)  # FlexAttention's backward pass is run more than once after one forward pass
def attention_beside_peers() -> list[dict[str, Any]]:
    """bf16, 16,384 tokens of 2,048 numbers, N = 1k, 4k, 16k: seconds of each pass in both ways, for attention() and its peers.

    *graphs*: replays of CUDA graphs of several calls, so that the host has no share. *eager*: a loop of calls in Python
    with autograd on, of 15 ms or more, timed by CUDA events from an idle GPU to its end. FLOPs as the papers count them, 2.5
    times as many backward. Each output and gradient is held against float64 before it is timed; a peer that is wrong or
    raises is left out, with a printed line. Raises RuntimeError if attention() itself is wrong.
    """
    begin, missing = time.perf_counter(), flash_attention_4()[1]
    if missing:
        print(missing, flush=True)
    print(f"compiling for {len(CELLS)} cells, {min(len(CELLS), os.cpu_count() or 1)} at a time", flush=True)
    compile_together(_compile, CELLS)
    rows: list[Timed] = []
    left_out: set[str] = set()
    with torch.cuda.stream(torch.cuda.Stream()):  # a backward pass runs on the stream of its forward pass
        for d, causal, n in sorted(CELLS, key=lambda cell: cell[2]):
            rows += _cell(d, causal, n, left_out)
            label = f"d = {d}, {'causal' if causal else 'no mask'}, N = {n:,}"
            print(f"{time.perf_counter() - begin:4.0f} s: {label}", flush=True)
    return [row._asdict() for row in rows if row.algorithm not in left_out]


@functorch.patch(donated_buffer=False)
def _compile(d: int, causal: bool, n: int) -> None:
    """Fill the caches on disk; who cannot compile fails again, in its turn."""
    torch._inductor.config.compile_threads = 1  # there are as many of these processes as cores
    cell = _Cell(d, causal, n)
    for peer in peers(causal, n).values():
        with contextlib.suppress(Exception):
            cell.results(peer)


def _cell(d: int, causal: bool, n: int, left_out: set[str]) -> list[Timed]:
    """The rows of one cell; names of peers that fail in it are added to ``left_out``."""
    torch._dynamo.reset()  # so that FlexAttention is compiled for this length alone, and its guards are few
    cell, rows, errors = _Cell(d, causal, n), [], {}
    found = {name: peer for name, peer in peers(causal, n).items() if name not in left_out}
    for name, peer in found.items():
        try:
            errors[name] = cell.error(peer)
            if not errors[name] <= WRONG:
                raise RuntimeError(f"its error is {errors[name]:.3f} of what is right")
        except Exception as error:
            if name == OURS:
                raise RuntimeError(f"{name} fails at d = {d}, causal = {causal}, N = {n}: {error}") from error
            left_out.add(name)
            print(f"{name} is left out: at d = {d}, causal = {causal}, N = {n}: {error}", flush=True)
    calls = {name: _calls(cell, peer) for name, peer in found.items() if name not in left_out}
    for direction, how in KINDS:
        for name, timing in _times({x: (found[x], calls[x][direction]) for x in calls}, how == "graphs").items():
            tflops = PASSES[direction] * flops(n, causal) / timing.median / 1e12
            timed = Timed(name, direction, how, d, causal, n, *timing, round(tflops, 1), round(errors[name], 5))
            rows.append(timed)
    torch.cuda.empty_cache()
    return rows


def _calls(cell: _Cell, peer: Peer) -> dict[str, Callable[[], Any]]:
    leaves, do = cell.leaves(peer)
    with peer.within():
        o = peer.attend(*leaves)
    return {
        "forward": partial(peer.attend, *leaves),
        "backward": partial(torch.autograd.grad, o, leaves, do, retain_graph=True),
        "forward and backward": lambda: torch.autograd.grad(peer.attend(*leaves), leaves, do),
    }


def _times(calls: dict[str, tuple[Peer, Callable[[], Any]]], graph: bool) -> dict[str, measure.Timing]:
    if graph:
        inside = {name: partial(_loop, peer, call, 1) for name, (peer, call) in calls.items()}
        return measure.seconds_interleaved(inside, ROUNDS)
    counts, loops = {}, {}
    for name, (peer, call) in calls.items():
        loop = partial(_loop, peer, call)
        loop(3)
        counts[name] = math.ceil(LOOP / (measure.seconds(partial(loop, 5), repeats=3, warm_up=0).median / 5))
        loops[name] = partial(loop, counts[name])
    found = measure.seconds_interleaved(loops, ROUNDS, graph=False)
    return {name: measure.Timing(*(x / counts[name] for x in timing)) for name, timing in found.items()}


def _loop(peer: Peer, call: Callable[[], Any], count: int) -> None:
    with peer.within():
        for _ in range(count):
            call()


# --- what the rows come to ---


def ratios(rows: Sequence[Timed], to: str, direction: str, how: str, name: str = OURS) -> list[float]:
    """How many times as fast ``name`` is as ``to``, cell by cell; empty if ``to`` was not measured."""
    seconds = {row[:6]: row.seconds for row in rows}
    keys = [(direction, how, *cell) for cell in CELLS]
    return [seconds[(to, *key)] / seconds[(name, *key)] for key in keys if (to, *key) in seconds]


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def algorithms(rows: Sequence[Timed]) -> list[str]:
    return list(dict.fromkeys(row.algorithm for row in rows))


def table(rows: Sequence[Timed], direction: str, how: str) -> Table:
    """TFLOP/s of each attention in each cell, and how many times as fast ours is: geometric mean and slowest cell."""
    rate = {row[:6]: row.tflops for row in rows}
    short = [f"{d}{' causal' if causal else ''} {n // 1024}k" for d, causal, n in CELLS]
    lines = []
    for name in algorithms(rows):
        against = ratios(rows, name, direction, how)
        cells = [round(rate[(name, direction, how, *cell)]) for cell in CELLS]
        lines.append([name, *cells, f"{geometric_mean(against):.2f} ({min(against):.2f})"])
    return Table([f"TFLOP/s, {direction}, {how}", *short, "attention() over it"], lines)

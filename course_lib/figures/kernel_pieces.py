"""Lecture 10, kernels: their code as diffs, what the compiler makes of them, which of them fit in registers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from IPython.display import Markdown

from course_lib.figures.records import rows
from course_lib.instruments.compiled import inspect_all
from course_lib.kernels.hopper import RUNGS, THREE_MATMULS, forward, loops, pieces, rings, specialised
from course_lib.model import registers
from course_lib.show.display import excerpt, source
from course_lib.show.tables import Table


class Timed(NamedTuple):
    """A kernel's rate at one shape."""

    algorithm: str
    d: int
    causal: bool
    n: int
    tflops: float


def _lines(module: Any, first: str, last: str, new: Sequence[str] = ()) -> Markdown:
    return excerpt(Path(str(module.__file__)), first, last, new)


def copy_code() -> Markdown:
    """The kernel that copies one tile."""
    return source(pieces.tma_kernel)


def copy_launch() -> Markdown:
    """Its launch: the grid and two descriptors."""
    return _lines(pieces, "y = torch.empty_like(x)", "return y")


def ring_making() -> Markdown:
    """How a ring is made: its tiles, and two mbarriers for each."""
    return source(rings.make_ring)


def ring_code() -> Markdown:
    """What producer and consumers do with a ring; new is what a second buffer asks for."""
    return _lines(rings, "def fill(", "def make_ring(", ["buffer = n", "self.empty"])


def ring_loops() -> Markdown:
    """The loops of the kernel that adds up columns: its producer's and its consumer's."""
    return _lines(pieces, "def _issue(", "cols = gl.arange(0, COLS", ["ring."])


def ring_start() -> Markdown:
    """How the kernel that adds up columns starts its two loops on one ring."""
    return _lines(pieces, "ring = make_ring(", "def _check(")


def matmul_code() -> Markdown:
    """The part of the matmul's kernel in which it differs from the copy."""
    return _lines(
        pieces, "mbarrier.expect(arrived, a_desc", "rows = gl.arange(0, 64", ["b_desc, [0, 0]", "layout", "mma"]
    )


def partition_code() -> Markdown:
    """How the specialised kernel parts its warpgroups, with two consumers."""
    return _lines(specialised, "gl.warp_specialize(", "else:")


def consumer_code() -> Markdown:
    """The loop of a consumer that does one matmul after another."""
    return source(loops.one_after_another)


def compiled_pieces() -> Table:
    """What the copy of a tile and the matmul of two are for an H200, compiled here: how they reach HBM, and how they multiply."""
    tall, wide = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((1000, 64), (64, 128)))
    calls: dict[str, tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]] = {
        "copy of a tile": (pieces.tma_copy, (tall,), {}),
        "matmul of two tiles": (pieces.wgmma_matmul, (wide, wide), {}),
    }
    kinds = {
        "loads from HBM by threads": "ld.global",
        "copies by TMA": "cp.async.bulk.tensor",
        "waits for an mbarrier": "mbarrier.try_wait",
    }
    reports = dict(zip(calls, inspect_all(list(calls.values())), strict=True))
    lines = [[name, *map(found.count, kinds.values()), found.wgmma, found.registers] for name, found in reports.items()]
    return Table(["kernel", *kinds, "wgmma", "registers per thread"], lines)


def spills() -> Table:
    """Registers of a consumer's thread for tiles, by head size and by matmuls in flight, beside what the compiler does."""
    rate = {(r.algorithm, r.d): r.tflops for r in rows(Timed, "forward_ladder") if not r.causal and r.n == 4096}
    cases = [(d, rung) for d in (64, 128) for rung in (RUNGS["specialised"], RUNGS["overlap"], THREE_MATMULS)]
    meta = {d: torch.empty(1, 16, 4096, d, dtype=torch.bfloat16, device="meta") for d in (64, 128)}
    reports = inspect_all([(forward, (rung, *[meta[d]] * 3), {}) for d, rung in cases])
    lines: list[list[Any]] = []
    for (d, rung), report in zip(cases, reports, strict=True):
        need = registers.tiles(d, in_flight=rung.in_flight)
        has = registers.plan(2, 24).consumer if d == 128 else registers.plan(3, 32).consumer
        fate = "spills" if report.spilled_bytes else "fits"
        speed = f"{rate[rung.name, d] / rate['specialised', d]:.2f}"
        lines.append(
            [
                d,
                rung.in_flight,
                " + ".join(f"{name} {n}" for name, n in need.items()),
                sum(need.values()),
                has,
                fate,
                speed,
            ]
        )
    return Table(["d", "in flight", "registers for tiles", "sum", "it has", "compiled here", "recorded speed"], lines)

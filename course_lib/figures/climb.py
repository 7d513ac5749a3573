"""Lecture 11: nine kernels from Online to the top of an H200; what each step removes, what a count promises, what the clock says."""

import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from IPython.display import Markdown
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib import data
from course_lib.figures.climb_records import (
    BLOCKS,
    COUNTERS,
    LADDER,
    device,
    expected,
    gains,
    noise,
    rate,
    shares,
    swept,
    timed,
)
from course_lib.figures.records import label
from course_lib.instruments import assembly
from course_lib.instruments.compiled import Compiled, inspect_all
from course_lib.kernels import eight_bit
from course_lib.kernels.hopper import RUNGS, best, forward
from course_lib.model import registers
from course_lib.show import style
from course_lib.show.tables import Table

STEPS = {  # the five steps of the page: a rung, and the bottleneck that it removes
    "exp2": "instructions around each exponential",
    "causal block skipping": "blocks that the mask hides",
    "TMA": "registers that hold addresses",
    "specialised": "copying and computing in one warp",
    "overlap": "softmax while nobody multiplies",
}
SHOWN = {"causal block skipping": "skip", "specialised": "specialise"}  # rungs of which the page speaks by another word
STAIRS = "TFLOP/s upwards, a tread for each kernel with its factor over the one before, hollow diamonds for counts, lines for cuDNN and FA2"


@style.drawn(
    size=(12.5, 3.9),
    axes=(1, 2),
    alt="left, a bar for each kernel, TFLOP/s across, with a line for the peak; right, stairs, each step labelled with what it removes",
)
def plan(axes: Sequence[Axes]) -> None:
    """The climb before any step is measured: where it begins and ends beside its peers, and what each step removes."""
    bars, steps = axes
    peak = data.gpu("H200").flops_per_s("bf16") / 1e12
    for y, name in enumerate(("standard", "FA2", "Online", "cuDNN", "attention()")):
        bars.barh(y, rate(name), height=0.62, color=style.colour(name))
        bars.text(rate(name), y, f" {rate(name):.0f}, {rate(name) / peak:.0%}", va="center", fontsize=11)
        bars.text(0, y, f"{name} ", va="center", ha="right", fontsize=12)
    bars.axvline(peak, color=style.BLACK, lw=1, ls="--")
    bars.text(peak, 4.6, f"peak {peak:.0f} ", ha="right", fontsize=11)
    bars.set(xlim=(0, 1000), ylim=(-0.5, 5), xlabel="TFLOP/s", yticks=[])
    bars.set_title("From a third of the peak to seven tenths", loc="left", weight="bold")
    bars.grid(False)
    wide = 0.55
    steps.plot([-0.5, 0], [0, 0], color=style.BLUE, lw=4, solid_capstyle="butt")
    for i, (name, removed) in enumerate(STEPS.items()):
        x = wide * i
        steps.plot([x, x, x + wide], [i, i + 1, i + 1], color=style.BLUE, lw=4, solid_capstyle="butt")
        steps.text(x + 0.12, i + 0.45, f"{i + 1}  {SHOWN.get(name, name)}", va="center", weight="bold", fontsize=11.5)
        steps.text(x + 2.15, i + 0.45, f"− {removed}", va="center", fontsize=11.5)
    steps.text(-0.5, -0.1, "Online", va="top", fontsize=11.5)
    steps.text(wide * len(STEPS), len(STEPS) + 0.12, "attention()", va="bottom", ha="right", fontsize=11.5)
    steps.set(xlim=(-0.6, 8.4), ylim=(-0.6, 5.6))
    steps.set_title("what each step removes (heights not to scale)", loc="left")
    steps.axis("off")
    style.source_note(bars, f"{label(LADDER)}; bf16, d = 128, N = 4,096, no mask")


def visible_blocks() -> style.Picture:
    """Which blocks of a causal mask are full, cut, or hidden."""
    return style.picture(
        _visible_blocks,
        size=(6.6, 4.4),
        alt="a grid of blocks, queries downwards and keys across, in three colours: full, on the diagonal, hidden",
    )


def _visible_blocks(ax: Axes, side: int = 8) -> None:
    kinds = (
        (f"{side * (side - 1) // 2} full: no mask", style.SKY),
        (f"{side} on the diagonal: mask", style.ORANGE),
        (f"{side * (side - 1) // 2} hidden: not visited", "white"),
    )
    for query in range(side):
        for key in range(side):
            colour = kinds[0 if key < query else 1 if key == query else 2][1]
            ax.add_patch(Rectangle((key, side - 1 - query), 0.94, 0.94, fc=colour, ec="#C9C9C9", lw=0.8))
    for y, (words, colour) in zip((6.2, 5.2, 4.2), kinds, strict=True):
        ax.add_patch(Rectangle((side + 0.4, y), 0.5, 0.5, fc=colour, ec="#9A9A9A", lw=0.8))
        ax.text(side + 1.1, y + 0.25, words, va="center", fontsize=12)
    ax.text(side / 2, side + 0.25, "blocks of keys", ha="center")
    ax.text(-0.4, side / 2, "blocks of queries", rotation=90, va="center", ha="center")
    ax.set(xlim=(-0.9, side + 6), ylim=(-0.2, side + 0.9), aspect="equal")
    ax.axis("off")


def exponentials() -> Markdown:
    """What the assembler makes of the powers that ``tl.exp`` and ``tl.exp2`` need."""
    columns = [
        [name, *assembly.assembled(ptx)]
        for name, ptx in (("tl.exp", "ex2.approx.f32"), ("tl.exp2", "ex2.approx.ftz.f32"))
    ]
    long, short = columns
    short += [""] * (len(long) - len(short))
    return Markdown("\n".join(["```text", *(f"{a:40}{b}".rstrip() for a, b in zip(long, short, strict=True)), "```"]))


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Pair(NamedTuple):
    """Pointers and TMA at one tile: TFLOP/s, and how many programs fit on an SM, as compiled here."""

    tile: str
    pointers: float
    tma: float
    resident: tuple[int, int]


TILES = ((64, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 2), (64, 128, 4, 3), (64, 128, 4, 2))  # as Setting has them


def tiles(d: int, *settings: tuple[int, int, int, int]) -> list[Compiled]:
    """What the compiler says of causal block skipping and of TMA, in turn, at each (queries, keys, warps, stages)."""
    x = torch.empty(1, 16, 4096, d, dtype=torch.bfloat16, device="meta")
    calls: list[Call] = []
    for m, n, warps, stages in settings:
        for name in ("causal block skipping", "TMA"):
            rung = RUNGS[name]._replace(blocks=((m, n),) * 2, num_warps=(warps,) * 2, num_stages=(stages,) * 2)
            calls.append((forward, (rung, x, x, x), {}))
    return inspect_all(calls)


def pairs() -> list[Pair]:
    """Causal block skipping, which loads by pointers, and TMA at the same tiles, d = 64, without a mask."""
    resident = iter([programs(report) for report in tiles(64, *TILES)])
    return [
        Pair(
            f"{m} × {n}, {warps} warps, {stages} stages",
            swept("causal block skipping", 64, False, m, n, warps, stages),
            swept("TMA", 64, False, m, n, warps, stages),
            (next(resident), next(resident)),
        )
        for m, n, warps, stages in TILES
    ]


def programs(report: Compiled) -> int:
    """Resident programs of a kernel per SM of an H200, by registers and shared memory."""
    kib = data.gpu("H200").shared_kib_per_sm
    return min(registers.resident_programs(report.threads, report.registers, report.shared_bytes, kib).values())


def tma_tiles() -> style.Picture:
    """Pointers and TMA at the same tiles: the rates of both and the programs that fit on an SM."""
    return style.picture(
        _tma_tiles,
        pairs(),
        size=(11, 3.8),
        alt="TFLOP/s across, a row per tile: a dot for pointers, one for TMA, labelled with their ratio and with resident programs",
    )


def _tma_tiles(ax: Axes, found: list[Pair]) -> None:
    for y, pair in enumerate(found):
        ax.plot([pair.pointers, pair.tma], [y, y], color="#CFCFCF", lw=4, zorder=1)
        ax.plot(pair.pointers, y, "o", color=style.BLUE, ms=11)
        ax.plot(pair.tma, y, "o", color=style.SKY, mec=style.BLUE, ms=11)
        before, after = pair.resident
        words = f"{pair.tma / pair.pointers:.2f}×   {before} → {after}" + ("" if y else " resident programs")
        ax.text(max(pair.pointers, pair.tma) + 6, y, words, va="center", weight="bold" if after > before else "normal")
    last = found[-1]
    ax.text(last.pointers, len(found) - 1.35, "pointers", ha="center", color=style.BLUE, fontsize=11)
    ax.text(last.tma, len(found) - 1.35, "TMA", ha="center", color=style.BLUE, fontsize=11)
    ax.set_yticks(range(len(found)), [pair.tile for pair in found])
    ax.set(xlim=(330, 560), ylim=(len(found) - 0.5, -0.6), xlabel="TFLOP/s, d = 64, no mask, N = 4,096")
    ax.grid(False, axis="y")
    ax.set_title("TMA gains most where freed registers admit another program", loc="left", weight="bold")
    style.source_note(ax, f"{label(BLOCKS)}; programs as compiled here")


def order() -> Table:
    """What comes when in the loop over keys, d = 128: in PTX, which the assembler is given, and in its machine code."""
    x = torch.empty(1, 16, 4096, 128, dtype=torch.bfloat16, device="meta")
    calls: dict[str, Call] = {
        name: (forward, (RUNGS[name], x, x, x), {}) for name in ("overlap", "specialised", "ping-pong", "late wait")
    }
    calls["lecture 12's"] = (eight_bit.attention, (x, x, x), {"kernel": "Hopper"})
    found = {name: report.order for name, report in zip(calls, inspect_all(list(calls.values())), strict=True)}
    lines = [["overlap", "PTX", found["overlap"]["PTX"]]]
    lines += [[name, "machine code", order["machine code"]] for name, order in found.items()]
    return Table(["kernel", "in", "in the loop over blocks of keys"], lines)


def ten_cells() -> Table:
    """Each rung over the one before, N from 1,024 on: from the least gain to the most, and in how many of ten cells it is up."""
    lines = []
    for above, name in pairwise(RUNGS):
        found = {(d, causal): gains(name, above, d, causal) for d in (64, 128) for causal in (False, True)}
        up = [sum(gain > 1 for causal in (False, True) for gain in found[d, causal]) for d in (64, 128)]
        lines.append([SHOWN.get(name, name), *(f"{min(part):.2f} to {max(part):.2f}" for part in found.values()), *up])
    heads = ["step", "d = 64", "64, causal", "d = 128", "128, causal", "d = 64: up in ten", "d = 128: up in ten"]
    return Table(heads, lines)


@style.drawn(
    size=(11, 2.6),
    alt="one bar for the peak in four parts: cycles without a matmul, the lowered clock, the rest, and what is reached",
)
def lost(ax: Axes) -> None:
    """Where the peak goes that attention() does not reach, as counted under the profiler."""
    busy, clock, rest = shares()
    parts = (
        ("reached", busy * clock * rest, style.BLUE),
        ("mostly the end of the grid", busy * clock * (1 - rest), style.GREY),
        ("lower clock", busy * (1 - clock), style.SKY),
        ("cycles without a matmul", 1 - busy, style.ORANGE),
    )
    left = 0.0
    for name, share, colour in parts:
        ax.barh([0], [share], left=left, height=0.5, color=colour, edgecolor="white")
        ax.text(
            left + share / 2, 0, f"{share:.0%}", ha="center", va="center", weight="bold", color="white", fontsize=12
        )
        above = name != "mostly the end of the grid"
        ax.text(
            left + share / 2, 0.32 if above else -0.32, name, ha="center", va="bottom" if above else "top", fontsize=11
        )
        left += share
    ax.set(xlim=(0, 1), ylim=(-0.6, 0.6))
    ax.axis("off")
    ax.set_title("Idle cycles and the lower clock cost about as much", loc="left", weight="bold")
    style.source_note(ax, f"{label(COUNTERS)}; 32 heads of 8,192, d = 128, no mask")


def stairs(ax: Axes, d: int, mask: str, n: int, gpu: str = "H200") -> str:
    """Every rung at one shape, on an H200 or an H100: its rate, the middle half of its runs, its gain, and what a count gives for it.

    A gain within ``noise`` is grey, with ≈. Returns which rung attention() launches, and how it compares.
    """
    cell, names = (d, mask == "causal", n, gpu), list(RUNGS)
    within = max(abs(ratio - 1) for ratio in noise(gpu))
    for x, name in enumerate(names):
        run = timed(name, *cell)
        before = rate(names[x - 1], *cell) if x else run.tflops
        ax.plot(
            [x, x, x + 1], [before, run.tflops, run.tflops], color=style.colour(name), lw=3.5, solid_capstyle="butt"
        )
        quartiles = [run.tflops * run.seconds / time for time in (run.three_quarters, run.quarter)]
        ax.plot([x + 0.5, x + 0.5], quartiles, color=style.ORANGE, lw=3, zorder=4)
        factor = run.tflops / before
        clear = abs(factor - 1) > within
        words = f"{run.tflops:.0f}" if not x else f"{'' if clear else '≈ '}{factor:.2f}×"
        ax.text(
            x + 0.5, max(*quartiles, run.tflops) + 9, words, ha="center", va="bottom", fontsize=11.5,
            color=style.BLACK if clear or not x else style.GREY, weight="bold" if clear or not x else "normal",
        )  # fmt: skip
        if (count := expected(name, *cell)) is not None:
            ax.plot([x + 0.5], [before * count], "D", mfc="white", mec=style.BLACK, ms=8, mew=1.5, zorder=5)
    for name in ("FA2", "cuDNN"):
        height = rate(name, *cell)
        ax.axhline(height, color=style.colour(name), lw=1.5, zorder=1)
        ax.text(len(names) + 0.05, height, f"{name}\n{height:.0f}", va="center", color=style.colour(name), fontsize=11)
    under = [textwrap.fill(f"− {STEPS[name]}", 16) if name in STEPS else "" for name in names]
    ax.set_xticks([x + 0.5 for x in range(len(names))], [SHOWN.get(name, name) for name in names])
    for x, words in enumerate(under):
        ax.annotate(
            words, (x + 0.5, 0), (0, -24), xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="center", va="top", fontsize=9.5, color=style.GREY,
        )  # fmt: skip
    ax.set(xlim=(0, len(names)), ylim=(0, None), ylabel="TFLOP/s")
    ax.tick_params(axis="x", length=0)
    ax.grid(False, axis="x")
    style.source_note(
        ax,
        f"{label(LADDER, device(gpu))}; ◇ the page's count; orange: middle half of the runs; "
        f"≈: within {within:.1%}, as one kernel timed twice",
    )
    return _launched(*cell)


def _launched(d: int, causal: bool, n: int, gpu: str) -> str:
    rung, tiling = best(d, causal, n)
    own = rate("attention()", d, causal, n, gpu)
    peak = data.gpu(gpu).flops_per_s("bf16") / 1e12
    return (
        f"attention(), as recorded: {own:.0f} TFLOP/s, {own / rate('cuDNN', d, causal, n, gpu):.2f} × cuDNN, {own / peak:.0%} of the peak; "
        f"today it launches {rung.name} with {tiling.consumers} × 64 queries, {tiling.block_n} keys, {tiling.stages} buffers"
    )

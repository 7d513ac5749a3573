"""Figures: pure functions (ax, data) -> ax, one colour for each algorithm and tensor, units on every axis."""

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from course_lib import softmax
from course_lib.cost import attainable
from course_lib.data import Gpu
from course_lib.memory import Memory
from course_lib.style import (
    ALGORITHM,
    BLACK,
    BLUE,
    GREEN,
    GREY,
    MARKER,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    TENSOR,
    bytes_text,
    kind_label,
)

# --- matrices ---


def heatmap(
    ax: Axes,
    matrix: torch.Tensor,
    title: str,
    rows: Sequence[str] = (),
    cols: Sequence[str] = (),
    digits: int = 2,
    vmax: float | None = None,
    mark: int | None = None,
) -> Axes:
    """A small matrix as coloured cells with its numbers in them; row ``mark`` is framed."""
    values = matrix.double()
    top = float(values.abs().max()) if vmax is None else vmax
    ax.imshow(values.numpy(), cmap="cividis", vmin=-top if bool((values < 0).any()) else 0, vmax=top, aspect="auto")
    low = -top if bool((values < 0).any()) else 0.0
    for i, j in ((i, j) for i in range(values.shape[0]) for j in range(values.shape[1])):
        value = float(values[i, j])
        dark = (value - low) / (top - low or 1) < 0.55
        ax.text(j, i, f"{value:.{digits}f}", ha="center", va="center", color="white" if dark else "black", fontsize=12)
    if mark is not None:
        ax.add_patch(Rectangle((-0.5, mark - 0.5), values.shape[1], 1, fill=False, edgecolor=RED, lw=4))
    ax.set_xticks(range(len(cols)), cols)
    ax.set_yticks(range(len(rows)), rows)
    ax.grid(False)
    ax.tick_params(length=0)
    ax.set_title(title)
    return ax


def matrix_shapes(ax: Axes, n: int, d: int) -> Axes:
    """Q, K, V, S, P and O as rectangles to scale: what attention holds, and why S and P are the problem."""
    left, gap = 0.0, 0.22 * (4 * d + 2 * n) / 6
    for name, width in (("Q", d), ("K", d), ("S", n), ("P", n), ("V", d), ("O", d)):
        ax.add_patch(Rectangle((left, 0), width, n, facecolor=TENSOR[name], edgecolor="black", alpha=0.85))
        ax.text(left + width / 2, n * 1.05, f"{name}\n{n:,}×{width:,}", ha="center", va="bottom", fontsize=12)
        left += width + gap
    ax.set_xlim(-gap / 2, left - gap / 2)
    ax.set_ylim(-0.02 * n, n * 1.3)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


# --- memory and cost ---


def memory_levels(ax: Axes, gpus: Sequence[Gpu]) -> Axes:
    """Size against bandwidth of SRAM (all SMs) and HBM, one pair of points joined by a line for each GPU."""
    for gpu in gpus:
        sram = (gpu.sram_bytes, gpu.sram_bytes_per_s / 1e12)
        hbm = (gpu.hbm_gb * 1e9, gpu.hbm_bytes_per_s / 1e12)
        ax.plot(*zip(sram, hbm), color="#BBBBBB", lw=1.2, zorder=1)
        ax.plot(
            *sram, "o", color=GREEN, ms=10, label="SRAM (L1 and shared memory, all SMs)" if gpu is gpus[0] else None
        )
        ax.plot(*hbm, "s", color=RED, ms=9, label="HBM / GDDR" if gpu is gpus[0] else None)
        side = {
            "RTX 3090": (-8, 4, "right"),
            "RTX 4090": (0, 10, "center"),
            "V100": (8, -4, "left"),
            "L40S": (8, -14, "left"),
        }
        x, y, align = side.get(gpu.name, (8, -4, "left"))
        ax.annotate(gpu.name, hbm, xytext=(x, y), textcoords="offset points", ha=align, fontsize=11)
    ax.set(xscale="log", yscale="log", xlabel="size (bytes)", ylabel="bandwidth (TB/s)", xlim=(2e6, 1.2e12))
    ax.legend(loc="lower left")
    return ax


def trace(ax: Axes, memory: Memory) -> Axes:
    """The trace of a run: each load (below the line) and store (above it) as a bar in its tensor's colour.

    A hatched bar is a load of a tile that was loaded before.
    """
    moves = [event for event in memory.trace if event.op in ("load", "store")]
    loaded = set()
    for i, event in enumerate(moves):
        tile = (event.tensor, event.rows, event.cols)
        again = event.op == "load" and tile in loaded
        look = {"color": TENSOR[event.tensor], "hatch": "///" if again else "", "edgecolor": "white", "lw": 0}
        ax.bar(i, event.bytes if event.op == "store" else -event.bytes, width=0.9, **look)
        loaded.add(tile)
    for name in dict.fromkeys(event.tensor for event in moves):
        ax.bar(0, 0, color=TENSOR[name], label=name)
    starts = [i for i, e in enumerate(moves) if i == 0 or e.scope[:1] != moves[i - 1].scope[:1]]
    for i in starts:
        ax.axvline(i - 0.5, color="#777777", lw=1, ls=":")
        ax.text(
            i - 0.3,
            1.0,
            moves[i].scope[0] if moves[i].scope else "",
            transform=ax.get_xaxis_transform(),
            fontsize=11,
            va="bottom",
        )
    top = max(event.bytes for event in moves) * 1.1
    ax.set(xlabel="step (one load or store each)", ylabel="bytes:  ↓ loaded    stored ↑", xlim=(-0.6, len(moves) - 0.4))
    ax.set_ylim(-top, top)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{abs(y):,g}"))
    ax.axhline(0, color="black", lw=1)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1)
    return ax


def tile_budget(ax: Axes, tiles: Mapping[str, int], room: int) -> str:
    """Tiles of the given bytes side by side against the bytes of SRAM that there are; returns the sum in words."""
    end = 0.0
    for name, size in tiles.items():
        ax.barh(0, size / 1024, left=end, color=TENSOR[name], edgecolor="white", label=name)
        end += size / 1024
    ax.axvline(room / 1024, color=BLACK, ls="--", label="room")
    ax.set(xlabel="KiB of SRAM", xlim=(0, max(end, room / 1024) * 1.05))
    ax.set_yticks([])
    ax.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1))
    return f"{end:.0f} KiB of {room / 1024:.0f}: " + ("fits" if end * 1024 <= room else "does not fit")


def score_size(ax: Axes, n: int, bytes_per_element: int, gpu: Gpu) -> Axes:
    """The size of the score matrix S [n, n] over n, with the GPU's SRAM and HBM as lines and the chosen n as a dot."""
    lengths = [2**p for p in range(7, 18)]
    ax.plot(lengths, [m * m * bytes_per_element for m in lengths], color=TENSOR["S"], label="S, one head")
    ax.plot([n], [n * n * bytes_per_element], "o", color=TENSOR["S"], ms=12)
    ax.annotate(
        bytes_text(n * n * bytes_per_element),
        (n, n * n * bytes_per_element),
        textcoords="offset points",
        xytext=(-12, 10),
        ha="right",
    )
    ax.axhline(gpu.sram_bytes, color=GREEN, ls="--", label=f"{gpu.name}: all SRAM, {bytes_text(gpu.sram_bytes)}")
    ax.axhline(gpu.hbm_gb * 1e9, color=BLUE, ls="-.", label=f"{gpu.name}: all HBM, {bytes_text(gpu.hbm_gb * 1e9)}")
    ax.set(xscale="log", yscale="log", xlabel="sequence length N", ylabel="size of S (bytes)", ylim=(1e4, 1e12))
    ax.set_xscale("log", base=2)
    ax.legend(loc="lower right")
    kind_label(ax, "model")
    return ax


def roofline(ax: Axes, gpu: Gpu, dtype: str, points: Mapping[str, float]) -> Axes:
    """The roofline of one GPU; ``points`` maps an algorithm to its arithmetic intensity (FLOP/byte)."""
    ridge = gpu.ridge(dtype)
    low, high = min([0.5, *(p / 2 for p in points.values())]), max([4 * ridge, *(2 * p for p in points.values())])
    ax.plot([low, ridge, high], [attainable(gpu, x, dtype) / 1e12 for x in (low, ridge, high)], color=BLACK)
    ax.axvline(ridge, color="#777777", lw=1.2, ls=":")
    ax.text(ridge, 0.02, f" ridge {ridge:.0f}", transform=ax.get_xaxis_transform(), fontsize=11, color="#555555")
    for name, x in points.items():
        y = attainable(gpu, x, dtype) / 1e12
        ax.plot(
            [x],
            [y],
            MARKER[name],
            color=ALGORITHM[name],
            ms=12,
            label=f"{name}: {x:,.4g} FLOP/B, ≤ {y:,.3g} TFLOP/s",
            markeredgecolor="white",
        )
    ax.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP per HBM byte)", ylabel="attainable (TFLOP/s)")
    ax.set_title(f"{gpu.name}, {dtype}", loc="left")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    kind_label(ax, "model")
    return ax


def lines(
    ax: Axes,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    kind: str,
    base: int = 2,
) -> Axes:
    """One line for each algorithm over x, both axes logarithmic."""
    for name, y in series.items():
        key = name.split(",")[0].split(" (")[0]
        dashes = "--" if "," in name else "-"  # a variant of an algorithm keeps its colour
        ax.plot(x, y, dashes, marker=MARKER.get(key, "o"), color=ALGORITHM.get(key, GREY), label=name)
    ax.set_xscale("log", base=base)
    if max(x) <= 65_536:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set_yscale("log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    low, high = ax.get_ylim()
    if high / low < 100:  # plain numbers read better than 3 × 10⁰
        ax.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        for formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.legend(loc="best")
    kind_label(ax, kind)
    return ax


def time_bars(ax: Axes, milliseconds: Mapping[str, float], kind: str) -> str:
    """One horizontal bar for each algorithm; returns the ratios to the first in words."""
    first = next(iter(milliseconds.values()))
    for y, (name, ms) in enumerate(milliseconds.items()):
        ax.barh(y, ms, color=ALGORITHM[name], height=0.6)
        ax.text(ms, y, f" {ms:.3g} ms", va="center")
    ax.set_yticks(range(len(milliseconds)), list(milliseconds))
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlabel("milliseconds")
    ax.grid(False, axis="y")
    kind_label(ax, kind)
    return "speed, as multiples of the first: " + ", ".join(f"{n} {first / ms:.2f}" for n, ms in milliseconds.items())


# --- softmax ---


def online_step(ax: Axes, scores: Sequence[float], step: int, block: int = 1) -> str:
    """The online softmax after ``step`` blocks: a bar for each score, the running maximum, and what each bar weighs now.

    Dark bars are the block that just came in, light ones came before, grey ones have not been seen.
    Returns the state in words.
    """
    states = softmax.online_states(list(scores), block)
    step = min(step, len(states))
    before, state = (softmax.State(-math.inf, 0.0), *states)[step - 1 : step + 1]
    first, seen = (step - 1) * block, min(step * block, len(scores))
    small = len(scores) > 8
    for i, value in enumerate(scores):
        ax.bar(i, value, color=SKY if i < first else BLUE if i < seen else "#E4E4E4", edgecolor="white", width=0.86)
        weight = f"{math.exp(value - state.m):.3f}" if i < seen else ""
        label = f"{weight}" if small else f"e^({value:g} − {state.m:g})\n= {weight}" if weight else ""
        ax.text(i, max(value, 0), label, ha="center", va="bottom", fontsize=9 if small else 12)
    ax.plot([-0.5, seen - 0.5], [state.m, state.m], color=RED)
    ax.annotate(
        f"m = {state.m:.4g}", (seen - 0.5, state.m), xytext=(6, 0), textcoords="offset points", color=RED, va="center"
    )
    low, high = min([0.0, *scores]), max([0.0, *scores])
    room = (high - low) or 1.0
    ax.set(
        xlim=(-0.6, len(scores) + 0.4), ylim=(low - 0.05 * room, high + 0.3 * room), xlabel="position", ylabel="score x"
    )
    ax.set_xticks(range(len(scores)))
    ax.grid(False, axis="x")
    factor = softmax.correction([before.m], [state.m])[0]
    new = state.l - before.l * factor
    ax.set_title(f"l = {before.l:.4g} × {factor:.4g} + {new:.4g} = {state.l:.4g}", loc="left")
    return f"after {seen} of {len(scores)}: m = {state.m:.4g}, l = {state.l:.4g} (the old sum was multiplied by {factor:.4g})"


def key_blocks(axes: Sequence[Axes], scores: torch.Tensor, values: torch.Tensor, block: int) -> str:
    """One query's m, l and o over its blocks of keys, with the correction factors; scores [n], values [n, dv]."""
    state, history = softmax.start(scores, values), []
    for x, v in zip(scores.split(block), values.split(block)):
        before, state = state, softmax.update(state, x, v)
        factor = float(softmax.correction(before.m[None], state.m[None])[0])
        history.append((float(x.max()), float(state.m), factor, float(state.l), float(softmax.output(state)[0])))
    best, m, factors, l, o = (list(column) for column in zip(*history))
    at = range(len(history))
    axes[0].bar(at, best, color=SKY, label="largest score of the block")
    axes[0].step(at, m, where="mid", color=RED, label="m")
    axes[1].bar(at[1:], factors[1:], color=ORANGE)
    axes[1].set_xlim(axes[0].get_xlim())
    axes[2].plot(at, l, "o-", color=BLUE)
    axes[3].plot(at, o, "o-", color=BLACK, label="o / l so far")
    final = float(softmax.average(scores, values, len(scores))[0])
    axes[3].axhline(final, color=GREEN, ls="--", label="attention")
    for ax, label in zip(axes, ("score", "correction factor", "running sum $\\ell$", "output o / $\\ell$"), strict=True):
        ax.set(xlabel="block of keys", ylabel=label)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylim(None, max(m) + 0.35 * (max(m) - min(0.0, *best)))
    axes[0].legend(fontsize=10, ncols=2, loc="upper left")
    axes[3].legend(fontsize=10)
    return f"{sum(f < 1 for f in factors[1:])} of {len(factors) - 1} blocks after the first brought a correction"


# --- the course ---


def course_map(ax: Axes, lectures: Sequence[tuple[str, str, int]]) -> Axes:
    """The course on one page: (number, title, minutes) for each lecture, in reading order, three to a row."""
    per_row, colours = 3, (BLUE, GREEN, ORANGE, PURPLE)
    for i, (number, title, minutes) in enumerate(lectures):
        row, col = divmod(i, per_row)
        x, y = col * 4.1, -row * 1.5
        ax.add_patch(
            FancyBboxPatch(
                (x, y), 3.6, 1.0, boxstyle="round,pad=0.05", facecolor="white", edgecolor=colours[row % 4], lw=2.5
            )
        )
        ax.text(x + 0.1, y + 0.72, number, fontsize=15, fontweight="bold", color=colours[row % 4], va="center")
        ax.text(x + 3.5, y + 0.72, f"{minutes} min", fontsize=11, color="#555555", ha="right", va="center")
        ax.text(x + 0.1, y + 0.3, title, fontsize=12.5, va="center")
        if i + 1 < len(lectures):
            end = (x + 4.05, y + 0.5) if col < per_row - 1 else (1.8, y - 0.42)
            start = (x + 3.65, y + 0.5) if col < per_row - 1 else (x + 1.8, y - 0.05)
            ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#777777", "lw": 1.8})
    ax.set(xlim=(-0.2, 3.6 + 4.1 * (per_row - 1) + 0.2), ylim=(-1.5 * ((len(lectures) - 1) // per_row) - 0.3, 1.2))
    ax.axis("off")
    return ax

"""Figures: one style, one colour for each algorithm and tensor, units on every axis. Pure functions (ax, data) -> ax."""

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib import softmax
from course_lib.cost import Traffic, attainable
from course_lib.data import Gpu
from course_lib.memory import Memory

# Okabe and Ito's palette, told apart under every common colour blindness.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE, GREY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#8A8A8A",
)
ALGORITHM = {
    "standard": RED,
    "naive": BLACK,
    "offline": ORANGE,
    "online": BLUE,
    "fused": GREEN,
    "V1": SKY,
    "V2": BLUE,
    "compulsory": GREEN,
}
MARKER = {
    "standard": "s",
    "naive": "v",
    "offline": "s",
    "online": "o",
    "fused": "D",
    "V1": "^",
    "V2": "o",
    "compulsory": "D",
}
TENSOR = {
    "Q": BLUE,
    "K": ORANGE,
    "V": GREEN,
    "S": RED,
    "P": PURPLE,
    "O": BLACK,
    "A": BLUE,
    "B": ORANGE,
    "C": BLACK,
    "l": GREY,
    "m": SKY,
}

_STYLE: Any = {
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.labelsize": 13,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 2.4,
    "lines.markersize": 8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "svg.fonttype": "none",
    "svg.hashsalt": "flash-attention-course",
}


def use_style() -> None:
    """Make the course's style the default of matplotlib."""
    matplotlib.rcParams.update(_STYLE)


class Picture:
    """A finished figure: a PNG with a text that says what it shows (for a screen reader, a terminal, a comparison)."""

    def __init__(self, png: bytes, alt: str):
        self.png, self.alt = png, alt

    def __repr__(self) -> str:
        return f"[figure] {self.alt}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt, "width": shown_width(self.png)}}


# Pictures are drawn finer than they are shown, so that they stay sharp on a projector and a dense screen.
_SHOWN_DPI, _DRAWN_DPI = 90, 150


def shown_width(png: bytes) -> int:
    """The width in CSS pixels at which to show a picture of ours."""
    return round(int.from_bytes(png[16:20], "big") * _SHOWN_DPI / _DRAWN_DPI)


def render(
    plot: Callable[..., Any],
    *args: Any,
    size: tuple[float, float] = (8.5, 4.4),
    axes: tuple[int, int] = (1, 1),
    **kwargs: Any,
) -> tuple[bytes, Any]:
    """Draw ``plot(ax, *args, **kwargs)`` on a new figure of ``size`` inches; (PNG bytes, what plot returned).

    ``axes`` = (rows, columns) of sub-plots; with more than one, plot gets the flat list of axes.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size)
        FigureCanvasAgg(figure)
        grid = figure.subplots(*axes, squeeze=False).ravel().tolist()
        result = plot(grid[0] if len(grid) == 1 else grid, *args, **kwargs)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_DRAWN_DPI, metadata={"Software": None})
        return buffer.getvalue(), result


def picture(
    plot: Callable[..., Any],
    *args: Any,
    alt: str,
    size: tuple[float, float] = (8.5, 4.4),
    axes: tuple[int, int] = (1, 1),
    **kwargs: Any,
) -> Picture:
    """One still figure for a page; ``alt`` says in words what is to be seen."""
    return Picture(render(plot, *args, size=size, axes=axes, **kwargs)[0], alt)


# --- numbers ---

_BYTE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def bytes_text(n: float) -> str:
    """Bytes for reading, in powers of ten: 4,194,304 -> '4.19 MB'."""
    power = 0 if n < 1 else min(int(math.log10(n) / 3), len(_BYTE_UNITS) - 1)
    return f"{n / 1000**power:.3g} {_BYTE_UNITS[power]}"


def seconds_text(s: float) -> str:
    """Seconds for reading: 0.00042 -> '420 µs'."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if s >= size:
            return f"{s / size:.3g} {unit}"
    return f"{s / 1e-9:.3g} ns"


def kind_label(ax: Axes, kind: str) -> None:
    """Say on the figure where its numbers come from: 'model', 'recorded …' or 'this machine, now'."""
    ax.text(
        1.0, 1.02, kind, transform=ax.transAxes, ha="right", va="bottom", fontsize=11, color="#444444", style="italic"
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
) -> Axes:
    """A small matrix as coloured cells with its numbers in them."""
    values = matrix.double()
    top = float(values.abs().max()) if vmax is None else vmax
    ax.imshow(values.numpy(), cmap="cividis", vmin=-top if bool((values < 0).any()) else 0, vmax=top, aspect="auto")
    low = -top if bool((values < 0).any()) else 0.0
    for i, j in ((i, j) for i in range(values.shape[0]) for j in range(values.shape[1])):
        value = float(values[i, j])
        dark = (value - low) / (top - low or 1) < 0.55
        ax.text(j, i, f"{value:.{digits}f}", ha="center", va="center", color="white" if dark else "black", fontsize=12)
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
    ax.set_ylim(n * 1.02, -0.02 * n)
    ax.set_ylim(-0.02 * n, n * 1.35)
    ax.set_aspect("auto")
    ax.axis("off")
    return ax


# --- memory and cost ---


def memory_levels(ax: Axes, gpus: Sequence[Gpu]) -> Axes:
    """Size against bandwidth of SRAM (all SMs) and HBM, one pair of points joined by a line for each GPU."""
    for gpu in gpus:
        ax.plot(
            [gpu.sram_bytes, gpu.hbm_gb * 1e9],
            [gpu.sram_bytes_per_s / 1e12, gpu.hbm_bytes_per_s / 1e12],
            color="#BBBBBB",
            lw=1.2,
            zorder=1,
        )
    ax.scatter(
        [g.sram_bytes for g in gpus],
        [g.sram_bytes_per_s / 1e12 for g in gpus],
        s=90,
        color=GREEN,
        marker="o",
        label="SRAM (L1 and shared memory, all SMs)",
        zorder=2,
    )
    ax.scatter(
        [g.hbm_gb * 1e9 for g in gpus],
        [g.hbm_bytes_per_s / 1e12 for g in gpus],
        s=90,
        color=RED,
        marker="s",
        label="HBM / GDDR",
        zorder=2,
    )
    ax.set(xscale="log", yscale="log", xlabel="size (bytes)", ylabel="bandwidth (TB/s)")
    ax.legend(loc="lower left")
    return ax


def trace(ax: Axes, memory: Memory) -> Axes:
    """The trace of a run: each load (below the line) and store (above it) as a bar in its tensor's colour."""
    moves = [event for event in memory.trace if event.op in ("load", "store")]
    for i, event in enumerate(moves):
        ax.bar(i, event.bytes if event.op == "store" else -event.bytes, width=0.9, color=TENSOR[event.tensor])
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
    ax.set(
        xlabel="step (one load or store each)", ylabel="bytes moved", ylim=(-top, top), xlim=(-0.6, len(moves) - 0.4)
    )
    ax.text(0.995, 0.97, "stores: SRAM → HBM ↑", transform=ax.transAxes, ha="right", va="top", fontsize=11)
    ax.text(0.995, 0.03, "loads: HBM → SRAM ↓", transform=ax.transAxes, ha="right", va="bottom", fontsize=11)
    ax.axhline(0, color="black", lw=1)
    ax.legend(ncols=6, loc="upper left", fontsize=11, handlelength=1, columnspacing=1)
    return ax


def residency(ax: Axes, memory: Memory) -> Axes:
    """How full SRAM is after each event, with its capacity."""
    used = [event.sram_bytes for event in memory.trace]
    ax.fill_between(range(len(used)), used, step="post", color=SKY, alpha=0.7)
    if memory.sram_bytes is not None:
        ax.axhline(memory.sram_bytes, color=RED, ls="--", label=f"capacity {memory.sram_bytes:,} B")
        ax.legend(loc="upper right")
    ax.set(xlabel="event", ylabel="resident in SRAM (bytes)", ylim=(0, None))
    return ax


def traffic_bars(ax: Axes, traffics: Mapping[str, Traffic], unit: str = "MB") -> Axes:
    """HBM traffic of several algorithms as stacked bars, one segment for each tensor."""
    size = 1000.0 ** _BYTE_UNITS.index(unit)
    seen: set[str] = set()
    for y, traffic in enumerate(traffics.values()):
        left = 0.0
        for name in dict.fromkeys([*traffic.reads, *traffic.writes]):
            for moved, hatch in ((traffic.reads.get(name, 0), ""), (traffic.writes.get(name, 0), "///")):
                if moved:
                    label = name if name not in seen else None
                    seen.add(name)
                    ax.barh(
                        y,
                        moved / size,
                        left=left,
                        color=TENSOR[name],
                        hatch=hatch,
                        edgecolor="white",
                        label=label,
                        height=0.6,
                    )
                    left += moved / size
        ax.text(left, y, f" {left:,.3g}", va="center", fontsize=12)
    ax.set_yticks(range(len(traffics)), list(traffics))
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel(f"HBM traffic ({unit}); hatched: writes")
    ax.legend(ncols=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1, columnspacing=1)
    return ax


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
    ax.annotate(
        f"ridge {ridge:.0f}",
        (ridge, ax.get_ylim()[0]),
        xytext=(4, 6),
        textcoords="offset points",
        fontsize=11,
        color="#555555",
    )
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
    ax.legend(loc="lower right")
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
        ax.plot(x, y, marker=MARKER.get(key, "o"), color=ALGORITHM.get(key, GREY), label=name)
    ax.set_xscale("log", base=base)
    ax.set_yscale("log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend(loc="best")
    kind_label(ax, kind)
    return ax


# --- softmax ---


def online_step(ax: Axes, scores: Sequence[float], step: int, block: int = 1) -> str:
    """The online softmax after ``step`` blocks of scores: bars for the scores, the running maximum, each one's weight.

    Returns the state in words.
    """
    values = [float(s) for s in scores]
    states = softmax.online_states(values, block)
    seen = min(step * block, len(values))
    state = states[step - 1]
    for i, value in enumerate(values):
        current = i < seen <= i + block or (i >= seen - (seen - 1) % block - 1 and i < seen)
        ax.bar(i, value, color=(BLUE if current else SKY) if i < seen else "#E4E4E4", edgecolor="white", width=0.86)
        label = f"{value:g}" if i >= seen else f"{value:g}\n×e^{value - state.m:.3g}\n= {math.exp(value - state.m):.3f}"
        ax.text(i, max(value, 0), label, ha="center", va="bottom", fontsize=11 if len(values) <= 10 else 8)
    ax.plot([-0.5, seen - 0.5], [state.m, state.m], color=RED, lw=2.5)
    ax.text(seen - 0.45, state.m, f"m = {state.m:.4g}", color=RED, va="center", fontsize=13)
    low, high = min([0.0, *values]), max([0.0, *values])
    ax.set(
        xlim=(-0.6, len(values) + 0.6),
        ylim=(low - 0.05 * (high - low), high + 0.45 * (high - low or 1)),
        xlabel="position",
        ylabel="score x",
    )
    ax.set_xticks(range(len(values)))
    ax.grid(False, axis="x")
    before = states[step - 2] if step > 1 else softmax.State(-math.inf, 0.0)
    factor = softmax.correction([before.m], [state.m])[0]
    words = f"after {seen} of {len(values)}: m = {state.m:.4g}, l = {before.l:.4g} × {factor:.4g} + {state.l - before.l * factor:.4g} = {state.l:.4g}"
    ax.set_title(words, loc="left")
    return words


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

"""Memory levels, traces, budgets and the roofline."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from course_lib.data import Gpu
from course_lib.model.cost import Traffic
from course_lib.model.memory import Memory
from course_lib.model.roofline import attainable
from course_lib.show.style import (
    BLACK,
    BLUE,
    GREEN,
    MARKER,
    RED,
    bytes_text,
    colour,
    kind_label,
    shade,
)


def memory_levels(ax: Axes, gpus: Sequence[Gpu]) -> Axes:
    """Size against bandwidth of SRAM (all SMs) and HBM, one pair of points joined by a line for each GPU, names at both."""
    chips: dict[tuple[float, float], list[str]] = {}
    named = {
        "T4": (0, -20),
        "V100": (-9, -14),
        "RTX 3090": (-9, -3),
        "RTX 4090": (-9, -2),
        "L40S": (-6, 9),
        "B200": (9, 3),
    }
    named |= {"A100": (2, -19), "H100, H200": (-8, -10)}
    below = {"RTX 3090": (-9, -9), "RTX 4090": (-9, 5), "V100": (-2, -20), "L40S": (8, -14)}
    boxed: dict[str, Any] = {
        "fontsize": 11,
        "bbox": {"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.85},
        "zorder": 1.5,
    }
    for gpu in gpus:
        sram = (gpu.sram_bytes, gpu.sram_bytes_per_s / 1e12)
        hbm = (gpu.hbm_gb * 1e9, gpu.hbm_bytes_per_s / 1e12)
        chips.setdefault(sram, []).append(gpu.name)
        ax.plot(*zip(sram, hbm, strict=True), color="#BBBBBB", lw=1.2, zorder=1)
        ax.plot(
            *sram, "o", color=GREEN, ms=10, label="SRAM (L1 and shared memory, all SMs)" if gpu is gpus[0] else None
        )
        ax.plot(*hbm, "s", color=RED, ms=9, label="HBM / GDDR" if gpu is gpus[0] else None)
        x, y = below.get(gpu.name, (8, -4))
        ax.annotate(gpu.name, hbm, xytext=(x, y), textcoords="offset points", ha="left" if x > 0 else "right", **boxed)
    for sram, names in chips.items():  # GPUs with the same chip share a point
        words = ", ".join(dict.fromkeys(name.partition("-")[0] for name in names))
        x, y = named.get(words, (-9, 3))
        align = "center" if x == 0 else "left" if x > 0 else "right"
        ax.annotate(words, sram, xytext=(x, y), textcoords="offset points", ha=align, **boxed)
    ax.set(xscale="log", yscale="log", xlabel="size (bytes)", ylabel="bandwidth (TB/s)", xlim=(2e6, 1.2e12))
    ax.set_ylim(top=80)
    ax.legend(loc="lower left")
    kind_label(ax, "data sheets")
    return ax


def trace(ax: Axes, memory: Memory) -> Axes:
    """The trace of a run: each load (below the line) and store (above it) as a bar in its tensor's colour.

    A hatched bar is a load of a tile that was loaded before.
    """
    moves = [event for event in memory.trace if event.op in ("load", "store")]
    loaded, again = set(), []
    for event in moves:
        tile = (event.tensor, event.rows, event.cols)
        again.append(event.op == "load" and tile in loaded)
        if event.op == "load":
            loaded.add(tile)
    heights = [event.bytes if event.op == "store" else -event.bytes for event in moves]
    look: dict[str, Any] = {"color": [shade(event.tensor) for event in moves], "edgecolor": "white", "lw": 0}
    ax.bar(range(len(moves)), heights, width=0.9, hatch=["///" if twice else "" for twice in again], **look)
    for name in dict.fromkeys(event.tensor for event in moves):
        ax.bar(0, 0, color=shade(name), label=name)
    if any(again):
        ax.bar(0, 0, color="#999999", hatch="///", edgecolor="white", lw=0, label="loaded\nbefore")
    starts = [i for i, e in enumerate(moves) if i == 0 or e.scope[:1] != moves[i - 1].scope[:1]]
    end, raised = 0.0, False
    for i in starts:
        ax.axvline(i - 0.5, color="#777777", lw=1, ls=":")
        words = moves[i].scope[0] if moves[i].scope else ""
        raised = i < end and not raised  # a name that would run into the one before it stands a line higher
        ax.text(i - 0.3, 1.07 if raised else 1.0, words, transform=ax.get_xaxis_transform(), fontsize=11, va="bottom")
        end = i + 0.0105 * len(words) * len(moves)
    top = max(event.bytes for event in moves) * 1.1
    ax.set(xlabel="step (one load or store each)", ylabel="bytes: ↓ in  ↑ out", xlim=(-0.6, len(moves) - 0.4))
    ax.set_ylim(-top, top)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{abs(y):,g}"))
    ax.axhline(0, color="black", lw=1)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1)
    ax.text(1.02, 0, "counted", transform=ax.transAxes, fontsize=11, color="#444444", style="italic", va="bottom")
    return ax


def tile_budget(ax: Axes, tiles: Mapping[str, int], room: int) -> str:
    """Tiles of the given bytes side by side against the bytes of SRAM that there are; returns the sum in words."""
    end = 0.0
    for name, size in tiles.items():
        ax.barh(0, size / 1024, left=end, color=shade(name), edgecolor="white", label=name)
        end += size / 1024
    ax.axvline(room / 1024, color=BLACK, ls="--", label="room for one program")
    ax.text(end, 0, f" {end:,.0f} KiB", va="center", fontsize=12)
    ax.set(xlabel="KiB of SRAM", xlim=(0, max(end * 1.12, room / 1024 * 1.05)))
    ax.set_yticks([])
    ax.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1))
    kind_label(ax, "model")
    return f"{end:.0f} KiB of {room / 1024:.0f}: " + ("fits" if end * 1024 <= room else "does not fit")


def score_size(ax: Axes, n: int, bytes_per_element: int, gpu: Gpu) -> Axes:
    """The size of the score matrix S [n, n] over n, with the GPU's SRAM and HBM as lines and the chosen n as a dot."""
    lengths = [2**p for p in range(7, 18)]
    ax.plot(lengths, [m * m * bytes_per_element for m in lengths], color=shade("S"), label="S, one head")
    ax.plot([n], [n * n * bytes_per_element], "o", color=shade("S"), ms=12)
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
            MARKER.get(name, "o"),
            color=colour(name),
            ms=12,
            label=f"{name}: {x:,.4g} FLOP/B, ≤ {y:,.3g} TFLOP/s",
            markeredgecolor="white",
        )
    ax.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP per HBM byte)", ylabel="attainable (TFLOP/s)")
    ax.set_title(f"{gpu.name}, {dtype}", loc="left")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    kind_label(ax, "model")
    return ax


def traffic_bars(ax: Axes, traffics: Mapping[str, Traffic]) -> str:
    """One stacked bar for each algorithm: bytes by tensor, read (plain) and written (hatched); returns the totals."""
    seen = set()
    for y, traffic in enumerate(traffics.values()):
        left = 0.0
        for hatch, part in (("", traffic.reads), ("///", traffic.writes)):
            for name, size in part.items():
                shown = "ℓ" if name == "l" else name
                label = None if (name, hatch) in seen else f"{shown} written" if hatch else f"{shown} read"
                seen.add((name, hatch))
                ax.barh(y, size / 1e6, left=left, color=shade(name), hatch=hatch, edgecolor="white", lw=0, label=label)
                left += size / 1e6
    ax.set_yticks(range(len(traffics)), list(traffics))
    ax.invert_yaxis()
    ax.set_xlabel("MB between HBM and SRAM")
    ax.grid(False, axis="y")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=11)
    kind_label(ax, "model")
    return ", ".join(f"{name}: {bytes_text(t.total_bytes)}" for name, t in traffics.items())

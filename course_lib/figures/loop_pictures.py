"""Lecture 06, drawn: the walk from V1 to V2 beside its bounds, seats, and bytes at each level of the memory."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib import data
from course_lib.figures.loop_orders import BLOCK, Gain, counted, counts, gains, resident, shapes
from course_lib.figures.records import label
from course_lib.model import cost
from course_lib.plots import traffic_bars
from course_lib.show import style

STEPS = ("1  more programs", "2  O, ℓ, m stay\non the chip", "3  normalise once")
COMPARED = ("V1", "V1, parallel", "V2")


def loop_walk() -> style.Picture:
    """The three steps from V1 to V2 for few heads and for many: the gain on an H200 beside its bound."""
    return style.picture(
        _walk,
        {
            "16 heads of 16,384: parallelism gains most": gains(16, 16_384),
            "256 heads of 1,024: residency gains most": gains(256, 1024),
        },
        axes=(1, 2),
        size=(11.5, 3.6),
        alt="two panels, few long heads and many short ones, a row per step: a bar for the gain and a hollow diamond for its bound",
    )


def _walk(axes: Sequence[Axes], panels: dict[str, list[Gain]]) -> None:
    for ax, (title, steps) in zip(axes, panels.items(), strict=True):
        for y, (gain, shade) in enumerate(zip(steps, (style.GREEN, style.BLUE, style.GREY), strict=True)):
            ax.plot([1, gain.measured], [y, y], color=shade, lw=9, solid_capstyle="butt", zorder=2)
            ax.plot([gain.bound], [y], "D", mfc="white", mec=style.BLACK, ms=9, mew=1.6, zorder=4)
            ax.text(1.04, y + 0.36, f"measured {_factor(gain.measured)}", va="center", weight="bold", fontsize=11)
            ax.text(gain.bound * 1.13, y, f"at most {_factor(gain.bound)}", va="center", fontsize=10.5)
        ax.axvline(1, color=style.BLACK, lw=1)
        ax.set(xscale="log", xlim=(0.75, 80), ylim=(2.75, -0.5))
        ax.set_xticks([1, 2, 5, 10, 20, 50], ["1×", "2×", "5×", "10×", "20×", "50×"])
        ax.minorticks_off()
        ax.set_title(title, loc="left", fontsize=12.5, weight="bold")
        ax.spines["left"].set_visible(False)
        ax.grid(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(3), STEPS)
    axes[1].set_yticks([])
    style.source_note(axes[0], f"bars: {label('loop_orders')}   ◇ bound from a count")


def _factor(x: float) -> str:
    return f"{x:.0f}×" if x >= 10 else f"{x:.2f}×" if x < 1.15 else f"{x:.2g}×"


def seats() -> style.Picture:
    """An H200 as 132 SMs with two seats each, for V2: 16 heads, 256 heads, and 16 heads cut into blocks of queries."""
    panels = [
        (f"{heads} heads, {how}", programs)
        for heads, how, programs in (
            (16, "one program each", 16),
            (256, "one program each", 256),
            (16, "split: 4,096 programs", 16 * 16_384 // BLOCK),
        )
    ]
    return style.picture(
        _seats,
        panels,
        resident("V2", 16, 16_384, 3),
        axes=(1, 3),
        size=(11, 3.2),
        alt="three times the GPU as a grid of boxes, an SM each, with two squares that are filled where a program sits",
    )


def _seats(axes: Sequence[Axes], panels: list[tuple[str, int]], each: int) -> None:
    for ax, (title, programs) in zip(axes, panels, strict=True):
        seat_grid(ax, title, programs, each)


def seat_grid(ax: Axes, title: str, programs: int, each: int, words: str = "") -> None:
    """Draw an H200's SMs as boxes with ``each`` seats, filled by ``programs``; below stand ``words``, or how many seats are taken."""
    sms = data.gpu("H200").sms
    for sm in range(sms):
        row, column = divmod(sm, 12)
        x, y = column, -0.72 * row
        ax.add_patch(Rectangle((x, y), 0.86, 0.58, fc="#E4E4E4", antialiased=False))
        for seat in range(each):
            taken = seat * sms + sm < programs
            fill = style.BLUE if taken else "white"
            ax.add_patch(Rectangle((x + 0.1 + 0.36 * seat, y + 0.14), 0.3, 0.3, fc=fill, antialiased=False))
    filled, queue = min(programs, each * sms), max(0, programs - each * sms)
    words = words or f"{filled} of {each * sms} seats taken" + (f", {queue:,} programs wait" if queue else "")
    ax.set(xlim=(-0.2, 12.1), ylim=(-8.3, 0.9), aspect="equal")
    ax.axis("off")
    ax.set_title(title, loc="left", fontsize=12.5, weight="bold")
    ax.text(0, -7.5, words, fontsize=10.5, va="top")


def bytes_by_level() -> style.Picture:
    """64 heads of 4,096: the bytes that the formula counts, those between L2 and the SMs, and those between DRAM and L2."""
    return style.picture(
        _levels,
        64,
        4096,
        size=(10, 4.2),
        alt="gigabytes read and written as bars, by the formula, at the SMs and at DRAM, for three kernels",
    )


def _levels(ax: Axes, heads: int, n: int) -> None:
    for group, algorithm in enumerate(COMPARED):
        model, seen = counts(algorithm, heads, n), counted(algorithm, heads, n, 1)
        bars = (
            ("counted by the formula", model.read_bytes, model.write_bytes),
            ("between L2 and the SMs", seen.sm_read, seen.l2_write),
            ("between DRAM and L2", seen.dram_read, seen.dram_write),
        )
        for i, (where, read, written) in enumerate(bars):
            y, hollow = group * 4 + i, i == 0
            for left, size, shade in ((0, read, style.BLUE), (read, written, style.ORANGE)):
                look: dict[str, Any] = {"fc": "white", "lw": 1.6} if hollow else {"fc": shade, "lw": 0}
                ax.barh(y, size / 1e9, left=left / 1e9, height=0.72, ec=shade, **look)
            ax.text(
                (read + written) / 1e9 + 0.15,
                y,
                f"{where}: {style.bytes_text(read + written)}, {style.bytes_text(written)} written",
                va="center",
                fontsize=11,
            )
    ax.set_yticks([1, 5, 9], COMPARED)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.set(xlabel="GB, blue read, orange written", xlim=(0, 27))
    ax.set_xticks(range(0, 20, 5))
    ax.grid(False, axis="y")
    ax.set_title("The caches hide the writes of V1, parallel, from DRAM", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, f"64 heads of 4,096, {label('loop_orders_counters')}   hollow: a count")


def gains_by_heads() -> style.Picture:
    """The three gains at six shapes, over the number of heads, each kernel at its fastest setting."""
    return style.picture(
        _by_heads,
        {shape: gains(*shape, num_stages=None) for shape in shapes()},
        size=(9, 4.2),
        alt="the gain of each step on a logarithmic axis over the number of heads, hollow diamonds for the first step's bound",
    )


def _by_heads(ax: Axes, found: dict[tuple[int, int], list[Gain]]) -> None:
    for step, (shade, at) in enumerate(((style.GREEN, (4.4, 58)), (style.BLUE, (1.5, 2.8)), (style.GREY, (1.5, 0.72)))):
        longest = {heads: steps[step] for (heads, _), steps in sorted(found.items())}
        ax.plot(list(longest), [gain.measured for gain in longest.values()], color=shade, zorder=2)
        for (heads, _), steps in found.items():
            ax.plot([heads], [steps[step].measured], "o", color=shade, ms=8, zorder=3)
            if step == 0:
                ax.plot([heads], [steps[step].bound], "D", mfc="white", mec=style.BLACK, ms=8, mew=1.5, zorder=1)
        ax.text(*at, STEPS[step].replace("\n", " "), color=shade, fontsize=12, weight="bold")
    for (heads, n), steps in found.items():
        if heads == 1:
            ax.text(0.82, steps[0].measured, f"N = {n:,}", va="center", ha="right", fontsize=10)
    ax.axhline(1, color=style.BLACK, lw=1)
    ax.set(xscale="log", yscale="log", xlabel="heads", ylabel="gain", xlim=(0.36, 400), ylim=(0.6, 400))
    ax.set_xticks([1, 16, 64, 256], ["1", "16", "64", "256"])
    ax.set_yticks([1, 2, 5, 10, 100], ["1×", "2×", "5×", "10×", "100×"])
    ax.minorticks_off()
    ax.set_title("Few heads gain by parallelism, many by residency", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, f"{label('loop_orders')}, each kernel at its fastest setting   ◇ bound from seats")


def bytes_moved(ax: Axes, N: int, d: int, block_m: int, block_n: int, dtype: str, causal: str) -> str:
    """Draw the bytes of V1, V2 and what is compulsory for one head, by tensor; for a mask pass ``causal='causal'``. Returns the totals."""
    mask = causal == "causal"
    v1 = cost.flash_v1_traffic(N, d, block_n, dtype, block_m=block_m, causal=mask)
    v2 = cost.flash_v2_traffic(N, d, block_m, dtype, block_n=block_n, causal=mask, lse=True)
    return traffic_bars(ax, {"V1": v1, "V2": v2, "compulsory": cost.compulsory_traffic(N, d, dtype)})

"""Lecture 06: what each difference between FlashAttention and FlashAttention-2 could gain, and what it gains on an H200."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from course_lib import data
from course_lib.figures.records import label, rows
from course_lib.model import cost
from course_lib.show import style

D, BLOCK = 64, 64  # of all recordings of this lecture
WARPS, MOST_WARPS = 4, 64  # of a program; of an SM
LADDER = ("V1", "V1, parallel", "running", "V2")  # each with one change more than the one before
STEPS = ("1  more programs", "2  O, ℓ, m stay\non the chip", "3  normalise once")


class Timed(NamedTuple):
    """A kernel's time, in seconds; num_stages 1 is without software pipelining, 0 a kernel that has none to choose."""

    algorithm: str
    heads: int
    n: int
    num_stages: int
    seconds: float


class Counted(NamedTuple):
    """What the profiler counted in one kernel: bytes at each level of the memory, and the share of an SM's warps at work."""

    algorithm: str
    heads: int
    n: int
    num_stages: int
    kernel: str
    seconds: float
    occupancy: float
    l1_read: int
    l1_write: int
    sm_read: int
    l2_read: int
    l2_write: int
    dram_read: int
    dram_write: int


class Gain(NamedTuple):
    """The factor by which a step may speed up at most, by a count, and by which it does."""

    bound: float
    measured: float


def seconds(algorithm: str, heads: int, n: int, num_stages: int | None = None) -> float:
    """The recorded time of a version at one shape; without ``num_stages`` that of its fastest setting."""
    return min(
        run.seconds
        for run in rows(Timed, "loop_orders")
        if (run.algorithm, run.heads, run.n) == (algorithm, heads, n) and num_stages in (None, run.num_stages)
    )


def counted(algorithm: str, heads: int, n: int, num_stages: int) -> Counted:
    """What was counted in the attention kernel of a version, without the launches that fill and convert its tensors."""
    kernel = f"{algorithm.partition(',')[0].lower()}_kernel"
    return next(
        row
        for row in rows(Counted, "loop_orders_counters")
        if (row.algorithm, row.heads, row.n, row.num_stages, row.kernel) == (algorithm, heads, n, num_stages, kernel)
    )


def resident(algorithm: str, heads: int, n: int, num_stages: int) -> int:
    """Resident programs per SM, as counted: warps at work, four to a program."""
    return round(counted(algorithm, heads, n, num_stages).occupancy * MOST_WARPS / WARPS)


def gains(heads: int, n: int) -> list[Gain]:
    """The three steps from V1 to V2 at one shape: what seats, bytes and cycles allow at most, and what the clock shows."""
    seats = data.gpu("H200").sms * resident("V1, parallel", heads, n, 1)
    pair = cost.flash_v1_traffic(BLOCK, D, BLOCK, "fp16", block_m=BLOCK).total_bytes
    streamed = 2 * BLOCK * D * cost.element_bytes("fp16")  # K and V of a pair
    bounds = (seats / heads, pair / streamed, cycles("running", n) / cycles("V2", n))
    times = [seconds(name, heads, n, 1) for name in LADDER]
    return [Gain(bound, times[i] / times[i + 1]) for i, bound in enumerate(bounds)]


def cycles(order: str, n: int) -> float:
    """Cycles of an SM for one head in 'V1', 'running' or 'V2', if nothing overlaps: an SM of an H200 does 4,096 operations of
    a product, 128 multiplications or 16 exponentials or divisions a cycle (data sheet; CUDA programming guide)."""
    work = cost.attention_operations(order, n, D, BLOCK, BLOCK)
    return 4 * n * n * D / 4096 + work.rescale / 128 + (work.exp + work.divide) / 16


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
        size=(11.5, 3.7),
        alt="three times the GPU as a grid of boxes, an SM each, with two dots that are filled where a program sits",
    )


def _seats(axes: Sequence[Axes], panels: list[tuple[str, int]], each: int) -> None:
    sms = data.gpu("H200").sms
    for ax, (title, programs) in zip(axes, panels, strict=True):
        for sm in range(sms):
            row, column = divmod(sm, 12)
            x, y = column, -0.72 * row
            ax.add_patch(Rectangle((x, y), 0.86, 0.58, fc="#F1F1F1", ec="#C9C9C9", lw=0.6))
            for seat in range(each):
                taken = seat * sms + sm < programs
                look = {"fc": style.BLUE, "ec": style.BLUE} if taken else {"fc": "white", "ec": "#C0C0C0"}
                ax.add_patch(Circle((x + 0.24 + 0.38 * seat, y + 0.29), 0.14, lw=0.8, **look))
        filled, queue = min(programs, each * sms), max(0, programs - each * sms)
        words = f"{filled} of {each * sms} seats taken" + (f", {queue:,} programs wait" if queue else "")
        ax.set(xlim=(-0.2, 12.1), ylim=(-8.3, 0.9), aspect="equal")
        ax.axis("off")
        ax.set_title(title, loc="left", fontsize=12.5, weight="bold")
        ax.text(0, -7.5, words, fontsize=10.5, va="top")

"""Lectures 03, 06 and 16: what an H100 tells of an H200's kernels; it has the same SMs at the same clock, and slower HBM."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from course_lib import data
from course_lib.figures.loop_orders import Counted, Timed
from course_lib.figures.matmul_pictures import Timed as Matmul
from course_lib.figures.records import label, rows
from course_lib.figures.softmax_pictures import Timed as Softmax
from course_lib.show import style
from course_lib.show.tables import Table

H100 = "nvidia-h100"
NUMBERS = 2**30  # fp32 numbers of each recorded softmax, and of the copy beside them
PASSES = {"offline": 4, "online": 3, "fused": 1}  # times that all of them cross HBM, where a row does not fit on an SM
LONG = 2**16  # numbers in a row; these do not
WITHIN = 0.05
KINDS = {
    "softmax": ("softmax in passes", style.BLUE, "o"),
    "fused": ("softmax and average, fused", style.BLUE, "x"),
    "standard": ("standard attention", style.ORANGE, "s"),
    "V1": ("V1", style.RED, "D"),
    "others": ("V1, parallel; running; V2", style.GREEN, "^"),
}


class Slower(NamedTuple):
    """How many times as long a kernel takes on an H100 as on an H200: by the roofline, and by the clock; its recorded setting."""

    kind: str
    predicted: float
    measured: float
    setting: tuple[str, int, int, int]  # algorithm; rows or heads; N; num_stages, 0 if it has none


def copied() -> float:
    """The share of the data sheet's bandwidth that a copy of 4 GB reaches on an H200."""
    copy = next(run for run in rows(Softmax, "softmax_passes") if run.algorithm == "copy")
    return 2 * 4 * NUMBERS / copy.seconds / data.gpu("H200").hbm_bytes_per_s


def reachable() -> float:
    """Bytes per second that an H100's HBM should give: as large a share of its data sheet."""
    return copied() * data.gpu("H100").hbm_bytes_per_s


def predicted(kernels: Sequence[tuple[float, float]]) -> float:
    """The factor for (seconds on an H200, bytes at DRAM) one after another: each takes as long as before, or as its bytes need."""
    return sum(max(time, moved / reachable()) for time, moved in kernels) / sum(time for time, _ in kernels)


def slowdowns() -> list[Slower]:
    """The softmaxes of lecture 02 with long rows, and all that lecture 06 has counted at DRAM."""
    found = []
    for one, other in zip(rows(Softmax, "softmax_passes"), rows(Softmax, "softmax_passes", H100), strict=True):
        if one.algorithm in PASSES and one.n >= LONG:
            kind = "fused" if one.algorithm == "fused" else "softmax"
            factor = predicted([(one.seconds, PASSES[one.algorithm] * 4 * NUMBERS)])
            found.append(Slower(kind, factor, other.seconds / one.seconds, (one.algorithm, NUMBERS // one.n, one.n, 0)))
    counted = rows(Counted, "loop_orders_counters")
    for here, there in zip(rows(Timed, "loop_orders"), rows(Timed, "loop_orders", H100), strict=True):
        setting = (here.algorithm, here.heads, here.n, here.num_stages)
        if kernels := [(row.seconds, row.dram_read + row.dram_write) for row in counted if row[:4] == setting]:
            kind = here.algorithm if here.algorithm in KINDS else "others"
            found.append(Slower(kind, predicted(kernels), there.seconds / here.seconds, setting))
    return found


def slowdown(*setting: str | int) -> Slower:
    """That of (algorithm, rows or heads, N, num_stages)."""
    return next(run for run in slowdowns() if run.setting == setting)


@style.drawn(
    size=(8, 5),
    alt="a mark for each kernel, a shape and colour for each kind: its slowdown as measured over that predicted, with the diagonal",
)
def second_gpu(ax: Axes) -> None:
    """Each kernel's slowdown on an H100, measured over predicted."""
    ax.axline((1, 1), slope=1, color=style.GREY, lw=1.2, zorder=1)
    for kind, (words, color, marker) in KINDS.items():
        x, y = zip(*((run.predicted, run.measured) for run in slowdowns() if run.kind == kind), strict=True)
        ax.plot(x, y, marker, color=color, mfc="none", ms=8, mew=1.6, label=words)
    ax.set(
        xlabel="time on an H100 ÷ on an H200, by the roofline",
        ylabel="measured",
        xlim=(0.94, 1.47),
        ylim=(0.94, 1.47),
    )
    ax.set_aspect("equal")
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1), fontsize=11)
    style.source_note(ax, f"{label('loop_orders')}; {label('loop_orders', H100)}")


def roofline_travels() -> list[tuple[str, bool]]:
    """For each kind of kernel how far the clock is from the prediction at most, and whether that is 5 % or less."""
    found = []
    for kind, (words, *_) in KINDS.items():
        off = [run.measured / run.predicted - 1 for run in slowdowns() if run.kind == kind]
        worst = max(off, key=abs)
        found.append((f"{words}, {len(off)} cells: off by {worst:+.0%} at most", abs(worst) <= WITHIN))
    return found


def tiles_on_both() -> Table:
    """Lecture 03's matmul on both GPUs by the side of the tile, and cuBLAS."""
    found = []
    for one, other in zip(rows(Matmul, "matmul_tiles"), rows(Matmul, "matmul_tiles", H100), strict=True):
        name = one.block or one.algorithm
        found.append([name, f"{one.tflops:.0f}", f"{other.tflops:.0f}", f"{one.tflops / other.tflops:.2f}"])
    return Table(["tile", "TFLOP/s, H200", "TFLOP/s, H100", "time, H100 ÷ H200"], found)

"""Lecture 16: what a launch costs, how far one kernel differs from itself, clocks, settings of the compiler, standard attention."""

from typing import NamedTuple

from matplotlib.axes import Axes

from course_lib import data
from course_lib.figures.climb_records import noise
from course_lib.figures.loop_orders import seconds, shapes
from course_lib.figures.records import label, rows
from course_lib.model import cost
from course_lib.show import style
from course_lib.show.tables import Table


class Kernel(NamedTuple):
    """What the profiler found of one kernel: its clock in GHz, the share of cycles with a matmul, seconds, bytes at DRAM."""

    algorithm: str
    heads: int
    n: int
    clock_ghz: float
    tensor_cores: float
    seconds: float
    dram_read: int
    dram_write: int


class Call(NamedTuple):
    """What a call costs the host, in microseconds, as ``recordings.host`` times it."""

    n: int
    mode: str
    algorithm: str
    host_us: float


def launches(ax: Axes, kernel_us: int, launch_us: int) -> str:
    """Draw five calls of a kernel, eager and replayed from a graph: what the host does above, what the GPU does below.

    ``kernel_us`` and ``launch_us`` are microseconds, whole numbers from 1 on. Returns the time of a call in both ways, in words.
    """
    end = 0
    for call in range(5):
        ax.barh(3, launch_us - 0.6, left=call * launch_us, color=style.GREY)
        begin = max(end, (call + 1) * launch_us)
        ax.barh(2, kernel_us - 0.3, left=begin, color=style.BLUE)
        ax.barh(0, kernel_us - 0.3, left=launch_us + call * kernel_us, color=style.BLUE)
        end = begin + kernel_us
    ax.barh(1, launch_us - 0.6, color=style.GREY)
    ax.set_yticks([3, 2, 1, 0], ["eager: host", "GPU", "replayed: host", "GPU"])
    ax.set(xlabel="microseconds", xlim=(0, None))
    ax.grid(False, axis="y")
    style.kind_label(ax, "model")
    return f"one of many calls: {max(kernel_us, launch_us)} µs eager, {kernel_us} µs replayed"


def host_times() -> Table:
    """The host's microseconds for a call on 64 tokens, as attention() was made at first, as it is made, and beside torch's own."""
    calls = [call for call in rows(Call, "attention_host") if call.n == 64]
    took = {(call.algorithm, call.mode): f"{call.host_us:.0f}" for call in calls}
    modes = list(dict.fromkeys(call.mode for call in calls))
    names = {"attention(), at first": "an operator, Triton's launch"} | {x: x for x in ("attention()", "cuDNN", "FA2")}
    found = [[shown, *(took[name, mode] for mode in modes)] for shown, name in names.items()]
    return Table(["µs of the host", *modes], found)


@style.drawn(
    size=(9, 2.9),
    alt="a dot for each kernel that was timed twice, sorted, by how far its second rate is from its first, in per cent",
)
def self_noise(ax: Axes) -> None:
    """The same kernel timed twice in one run, the second time over the first, for each pair that the ladder holds."""
    per_cent = sorted(100 * (ratio - 1) for ratio in noise())
    ax.plot(range(len(per_cent)), per_cent, "o", color=style.BLUE, ms=6)
    ax.axhline(0, color=style.BLACK, lw=1)
    ax.set(xlabel="pairs, sorted", ylabel="second − first (%)")
    worst = max(map(abs, per_cent))
    ax.set_title(f"One kernel differs from itself by up to {worst:.1f} %", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, label("forward_ladder"))


@style.drawn(
    size=(9, 3.8), alt="a dot for each profiled kernel: its clock over the share of cycles in which tensor cores work"
)
def clocks(ax: Axes) -> None:
    """The clock at which kernels ran under the profiler, over the share of cycles in which a tensor core worked."""
    found = [row for name in ("loop_orders_counters", "eight_bit_counters") for row in rows(Kernel, name)]
    ax.plot([100 * k.tensor_cores for k in found], [k.clock_ghz for k in found], "o", color=style.BLUE, ms=6, alpha=0.6)
    slowest = min((k for k in found if k.algorithm == "V1"), key=lambda k: k.clock_ghz)
    busiest = max(found, key=lambda k: k.tensor_cores)
    long = f"V1, one program per head, {style.seconds_text(slowest.seconds)}"
    for k, words in ((slowest, long), (busiest, "attention()")):
        ax.annotate(words, (100 * k.tensor_cores, k.clock_ghz), (9, -4), textcoords="offset points", fontsize=11)
    ax.axhline(data.gpu("H200").boost_mhz / 1000, color=style.GREY, ls=":")
    ax.text(
        99,
        data.gpu("H200").boost_mhz / 1000 - 0.01,
        "highest clock",
        ha="right",
        va="top",
        color=style.GREY,
        fontsize=11,
    )
    ax.set(xlabel="cycles in which a tensor core works (%)", ylabel="clock (GHz)", xlim=(-2, 100), ylim=(1.6, 2.0))
    ax.set_title("Kernels with matmuls run at lower clocks", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, label("loop_orders_counters"))


def pipelining() -> Table:
    """How much longer kernels of lecture 06 take with ``num_stages`` 3 than with 1: the least and the most of six shapes."""
    found = []
    for name in ("V1", "V1, parallel", "running", "V2"):
        ratios = sorted(seconds(name, *shape, 3) / seconds(name, *shape, 1) for shape in shapes())
        found.append([name, f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"])
    return Table(["time with num_stages 3 ÷ with 1", "least", "most"], found)


def standard_kernels() -> Table:
    """Where standard attention's time goes: its four kernels, how often S crosses DRAM in each, its share, its bandwidth."""
    heads, n = 64, 4096
    steps = [row for row in rows(Kernel, "loop_orders_counters") if row[:3] == ("standard", heads, n)]
    square, whole, found = heads * n * n * cost.element_bytes("fp16"), sum(step.seconds for step in steps), []
    for name, step in zip(("S = QKᵀ", "S ÷ √d", "softmax", "PV"), steps, strict=True):
        moved = step.dram_read + step.dram_write
        found.append(
            [
                name,
                f"{moved / square:.2f}",
                style.seconds_text(step.seconds),
                f"{step.seconds / whole:.0%}",
                f"{moved / step.seconds / 1e12:.1f}",
            ]
        )
    return Table([f"kernel, {heads} heads of {n:,}", "crossings of S", "time", "share", "TB/s at DRAM"], found)

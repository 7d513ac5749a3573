"""Lecture 13: a ring of two GPUs, as it was recorded."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from course_lib import data
from course_lib.figures.h100 import H100
from course_lib.figures.many_gpus import D, ours
from course_lib.figures.records import Pass, label, rows
from course_lib.model import parallel, ring_timeline
from course_lib.show import style

ATTENTION = ("specialised_kernel", "before_kernel", "backward_kernel", "after_kernel")
RING, HEADS = 2, 16  # GPUs; heads of the recorded call
ONE, PASSES = "one GPU", ("forward", "forward and backward")  # as the recordings name them


class RingKernel(NamedTuple):
    """What ran on the first of two GPUs; begin and end in seconds."""

    direction: str
    n: int
    kernel: str
    begin: float
    end: float

    @property
    def lane(self) -> str:
        """'attention', 'sums' (with merges) or 'messages'."""
        if self.kernel.startswith("nccl"):
            return "messages"
        return "attention" if self.kernel in ATTENTION else "sums"


@functools.cache
def ring_call(n: int, direction: str = "forward and backward", call: int = 1) -> list[RingKernel]:
    """One of the three recorded calls, the second unless given; each has as many kernels, and as many messages, as the others."""
    ran = [x for x in rows(RingKernel, "ring_of_gpus_kernels", H100) if (x.n, x.direction) == (n, direction)]
    # By lanes, since a message that finds no free SM begins behind its call's first kernel.
    messages = [x for x in ran if x.lane == "messages"]
    kernels = [x for x in ran if x.lane != "messages"]
    found = [x for lane in (messages, kernels) for x in lane[call * len(lane) // 3 : (call + 1) * len(lane) // 3]]
    return sorted(found, key=lambda x: x.begin)


def ring_seconds(n: int, direction: str = "forward and backward") -> float:
    """From the first kernel's begin to the last one's end."""
    call = ring_call(n, direction)
    return max(x.end for x in call) - call[0].begin


def ring_share(n: int, lane: str = "attention", direction: str = "forward and backward") -> float:
    """The share of a call's time in which a lane has a kernel."""
    call = ring_call(n, direction)
    return sum(x.end - x.begin for x in call if x.lane == lane) / ring_seconds(n, direction)


def ring_times(n: int, direction: str) -> dict[tuple[bool, int, int], dict[str, float]]:
    """Seconds of each algorithm, by (causal, head size, heads of keys)."""
    cells: dict[tuple[bool, int, int], dict[str, float]] = {}
    for row in data.measured(H100, "ring_of_gpus").rows:
        if (row["n"], row["direction"]) == (n, direction):
            cells.setdefault((row["causal"], row["d"], row["kv_heads"]), {})[row["algorithm"]] = row["seconds"]
    return cells


def ring_gain(n: int, direction: str, over: str = ONE) -> tuple[float, float]:
    """The least and the largest ratio of ``over``'s time to that of the ring, without a mask and causal in zigzag order."""
    gains = [
        times[over] / times["ring, zigzag" if causal else "ring, contiguous"]
        for (causal, _, _), times in ring_times(n, direction).items()
    ]
    return min(gains), max(gains)


def ring_simulated(n: int) -> float:
    """Seconds that the simulation gives for ``ring_call(n)``, from the rates of one H100 in short bursts and of this link."""
    sent = (
        parallel.ring_bytes("contiguous", RING, 0, row["n"], row["kv_heads"], row["d"])[0].keys_values / row["seconds"]
        for row in data.measured(H100, "ring_of_gpus").rows
        if row["algorithm"] == "send and receive"
    )
    seconds, link = 0.0, max(sent)
    for direction in ("forward", "backward"):
        passes = (x for x in rows(Pass, "attention_beside_peers", H100) if ours(x) and x.direction == direction)
        rates = {x.n: x.tflops * 1e12 for x in passes if x.how == "graphs"}
        rate = rates[max(length for length in rates if length <= n / RING / 2)]
        line = ring_timeline.simulate(
            "zigzag", RING, n, HEADS, HEADS, D, rate, link, causal=True, backward=direction == "backward"
        )
        seconds += line.seconds
    return seconds


def link_rates(n: int) -> list[float]:
    """Bytes a second of the messages of all recorded calls: K and V, and with gradients K and V again, then dK and dV in fp32."""
    sent = parallel.ring_bytes("zigzag", RING, 0, n, HEADS, D, causal=True, backward=True)
    sizes = {PASSES[0]: [sent[0].keys_values], PASSES[1]: [*[sent[0].keys_values] * 2, sent[1].gradients]}
    found = []
    for direction, call in itertools.product(PASSES, range(3)):
        messages = (x for x in ring_call(n, direction, call) if x.lane == "messages")
        found += [size / (x.end - x.begin) for size, x in zip(sizes[direction], messages, strict=True)]
    return found


def late_message(n: int) -> tuple[float, float]:
    """Seconds that the third call's first message began behind the first kernel, and that the next kernel began behind that one's end."""
    call = ring_call(n, PASSES[1], 2)
    message = next(x for x in call if x.lane == "messages")
    first, second = [x for x in call if x.kernel == "specialised_kernel"]
    return message.begin - first.begin, second.begin - first.end


@style.drawn(
    size=(11, 4.8),
    axes=(2, 1),
    alt="two timelines of a GPU with lanes for attention, messages and sums; each message ends before the kernel above it",
)
def ring_recorded(axes: Sequence[Axes]) -> None:
    """A causal ring of two GPUs and its gradients, as the profiler saw the first GPU: attention, messages, and what is left."""
    steps = ("own keys", "the other's", "own, half the heads", "the other's keys", "own, other half")
    lanes, shades = ("attention", "messages", "sums"), (style.BLUE, style.ORANGE, style.GREY)
    for ax, n in zip(axes, (65_536, 16_384), strict=True):
        call = ring_call(n)
        begin, names, sent = call[0].begin, iter(steps), iter(("K, V", "K, V", "dK, dV in fp32"))
        for x in call:
            lane = lanes.index(x.lane)
            left, width = 1e3 * (x.begin - begin), 1e3 * (x.end - x.begin)
            ax.barh(lane, width, left=left, height=0.74, color=shades[lane], ec="white", lw=0.8 if lane < 2 else 0)
            if x.kernel in ("specialised_kernel", "backward_kernel"):
                ax.text(left + width / 2, lane, next(names), ha="center", va="center", color="white", fontsize=9.5)
            elif x.lane == "messages":
                ax.text(left + width, lane, f" {next(sent)}", va="center", fontsize=10)
        half = 1e3 * (next(x.begin for x in call if x.kernel == "before_kernel") - begin)
        end = 1e3 * ring_seconds(n)
        ax.axvline(half, color="black", lw=1, ls=(0, (3, 2)))
        for left, words in ((0, "forward"), (half + end / 200, "backward")):
            ax.text(left, -0.5, words, va="bottom", fontsize=10, style="italic")
        ax.set(xlabel="ms", xlim=(0, end * 1.005), ylim=(2.5, -0.95))
        ax.set_yticks(range(3), ["attention", "messages", "sums, merge"])
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        title = f"{n:,} tokens, {n // 2:,} per GPU: here all messages hide, and attention takes {ring_share(n):.0%} of the time"
        ax.set_title(title, loc="left", fontsize=12.5, weight="bold")
    style.source_note(axes[-1], f"the second of three calls; {label('ring_of_gpus_kernels', H100)}")

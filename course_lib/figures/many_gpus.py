"""Lecture 13, drawn: keys on their way round a ring, when a link hides, the ring beside Ulysses, and many GPUs simulated."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib import data
from course_lib.figures.boxes import PALE, arrow, blank, box
from course_lib.figures.records import Pass, label, rows
from course_lib.model import parallel, ring_timeline
from course_lib.plots import RANKS
from course_lib.show import style

HEADS, D = 32, 128  # of the model that the lecture calculates with
SIZES = (8, 64, 512)  # GPUs
FEW = 2048  # tokens of a GPU


class Ladder(NamedTuple):
    """A forward pass of the ladder of lecture 11."""

    algorithm: str
    d: int
    causal: bool
    n: int
    seconds: float
    tflops: float


@functools.cache
def kernel_rates(backward: bool = False) -> dict[int, float]:
    """Operations a second of ``attention()`` on an H200 without a mask, d = 128, by the recorded length; of its backward pass alone."""
    if backward:
        passes = rows(Pass, "attention_beside_peers")
        found = {x.n: x.tflops for x in passes if ours(x) and (x.direction, x.how) == ("backward", "graphs")}
    else:
        found = {x.n: x.tflops for x in rows(Ladder, "forward_ladder") if ours(x)}
    return {n: tflops * 1e12 for n, tflops in sorted(found.items())}


def ours(row: Ladder | Pass) -> bool:
    """Whether it is ``attention()`` at the lecture's head size, without a mask."""
    return row.algorithm == "attention()" and row.d == D and not row.causal


def kernel_rate(tokens: float, backward: bool = False) -> float:
    """The rate at the longest recorded length of at most so many tokens, or at the shortest."""
    rates = kernel_rates(backward)
    return rates[max((n for n in rates if n <= tokens), default=min(rates))]


@style.drawn(
    size=(11.5, 3.4),
    axes=(1, 4),
    alt="four circles of four GPUs, one for each step: a box with its queries that stay, and below it the keys that are there",
)
def ring_clock(axes: Sequence[Axes]) -> None:
    """Four GPUs on a clock face, at each of the four steps of a ring: queries stay, keys and values move on."""
    for step, ax in enumerate(axes):
        blank(ax, 3.3, -0.25, 3.75)
        ax.set_aspect("equal")
        places = [(1.15, 2.45), (2.3, 1.25), (1.15, 0.05), (0.0, 1.25)]  # 12, 3, 6 and 9 o'clock
        for rank, (x, y) in enumerate(places):
            source = (rank - step) % 4
            box(ax, x, y + 0.36, 0.86, 0.34, f"Q{rank}", "white", 10.5)
            box(ax, x, y, 0.86, 0.34, f"K{source} V{source}", RANKS[source], 9.5, alpha=0.55)
        if step < 3:
            for a, b in (
                ((2.05, 2.75), (2.6, 2.05)),
                ((2.6, 1.15), (2.05, 0.35)),
                ((1.1, 0.35), (0.5, 1.15)),
                ((0.5, 2.05), (1.1, 2.75)),
            ):
                arrow(ax, a, b, style.GREY)
        words = {0: ": own keys", 3: ": nothing is sent"}.get(step, "")
        ax.text(0, 3.45, f"step {step + 1}{words}", fontsize=12.5, weight="bold")


def hiding(ax: Axes, gpu: str, link: str, heads_per_kv: int, order: str) -> str:
    """Draw the seconds of a step of the ring over the tokens that a GPU holds: of its matmuls and of its messages. Returns where they meet.

    bf16, at the data sheet's rates; ``order`` 'no mask' or 'causal, zigzag', in which half of the pairs of a step are left.
    """
    flops, rate = data.gpu(gpu).flops_per_s("bf16"), data.link(link)
    visible = 1.0 if order == "no mask" else 0.5
    tokens = [2.0 ** (p / 2) for p in range(14, 41)]
    compute = [visible * 4 * c * c * HEADS * D / flops for c in tokens]
    send = [2 * c * HEADS / heads_per_kv * D * 2 / rate for c in tokens]
    meet = parallel.hiding_tokens(flops, rate, heads_per_kv, visible=visible)
    ax.plot(tokens, compute, color=style.BLUE)
    ax.plot(tokens, send, color=style.ORANGE)
    ax.axvline(meet, color=style.BLACK, lw=1.2, ls="--")
    ax.fill_between(
        tokens,
        compute,
        send,
        where=[x >= y for x, y in zip(send, compute, strict=True)],
        color=style.ORANGE,
        alpha=0.15,
    )
    ax.text(tokens[-1], compute[-1], " multiply", color=style.BLUE, va="center", weight="bold")
    ax.text(tokens[-1], send[-1], " send", color=style.ORANGE, va="center", weight="bold")
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(tokens[0], tokens[-1] * 3),
        xlabel="tokens on each GPU",
        ylabel="seconds of a step",
    )
    ax.set_xticks([2**p for p in (8, 10, 12, 14, 16, 18, 20)], ["256", "1k", "4k", "16k", "64k", "256k", "1M"])
    ax.minorticks_off()
    ax.set_title(f"Messages hide behind matmuls from {meet:,.0f} tokens on", loc="left", fontsize=12.5, weight="bold")
    style.kind_label(ax, "model, at data-sheet rates")
    return f"{gpu}, {link}: from {meet:,.0f} tokens on each GPU the messages take no longer than the matmuls"


@style.drawn(
    size=(9.5, 4.2),
    alt="a grid of numbers of GPUs and of query heads per head of keys, coloured by which of two ways sends less",
)
def ring_or_ulysses(ax: Axes) -> None:
    """The bytes of a forward ring over those of Ulysses, by the number of GPUs and of query heads for each head of keys."""
    ranks, groups = (2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32)
    for x, p in enumerate(ranks):
        for y, g in enumerate(groups):
            length = 64 * p
            ring = sum(step.keys_values for step in parallel.ring_bytes("zigzag", p, 0, length, HEADS // g, D))
            ratio = ring / sum(parallel.ulysses_bytes(p, 0, length, HEADS, HEADS // g, D))
            shade = PALE["grey"] if ratio == 1 else PALE["green"] if ratio < 1 else PALE["orange"]
            repeats = HEADS // g % p != 0
            ax.add_patch(Rectangle((x - 0.49, y - 0.48), 0.98, 0.96, fc=shade))
            ax.text(x, y, f"{ratio:.2g}×" + ("*" if repeats else ""), ha="center", va="center", fontsize=12)
    ax.set(
        xlim=(-0.5, len(ranks) - 0.5), ylim=(-0.5, len(groups) - 0.5), xlabel="GPUs", ylabel="query heads per KV head"
    )
    ax.set_xticks(range(len(ranks)), [str(p) for p in ranks])
    ax.set_yticks(range(len(groups)), [str(g) for g in groups])
    ax.grid(False)
    ax.tick_params(length=0)
    ax.set_title(
        "Bytes of the ring ÷ bytes of Ulysses: green, the ring sends less", loc="left", fontsize=12.5, weight="bold"
    )
    style.source_note(
        ax,
        f"exact counts, forward, {HEADS} query heads   * fewer KV heads than GPUs: Ulysses sends some of them repeatedly",
    )


def simulated(
    order: str, ranks: int, length: int, kv_heads: int, link: str, backward: bool = False
) -> ring_timeline.Timeline:
    """A causal ring of H200s: kernels as recorded on one GPU at the length of a block, the link by its data sheet."""
    block = math.ceil(length / ranks / (2 if order == "zigzag" else 1))
    rate = kernel_rate(block, backward)
    return ring_timeline.simulate(
        order, ranks, length, HEADS, kv_heads, D, rate, data.link(link), causal=True, backward=backward
    )


def busy_gpus(axes: Sequence[Axes], tokens: int, kv_heads: int, direction: str) -> str:
    """Draw, over NVLink and over InfiniBand, the share of time in which 8, 64 and 512 H200s multiply, in contiguous and zigzag order."""
    backward, words = direction == "backward", []
    for ax, link in zip(axes, ("NVLink 4", "InfiniBand NDR"), strict=True):
        for order, shade in (("zigzag", style.BLUE), ("contiguous", style.ORANGE)):
            busy = [simulated(order, ranks, tokens, kv_heads, link, backward).busy for ranks in SIZES]
            ax.plot(range(len(SIZES)), busy, "D-", color=shade, mfc="white", mew=1.8)
            up = order == "zigzag"
            ax.text(
                -0.1, busy[0] + (0.05 if up else -0.05), order, color=shade, va="bottom" if up else "top", weight="bold"
            )
            words.append(
                f"{link}, {order}: " + ", ".join(f"{ranks} GPUs {x:.0%}" for ranks, x in zip(SIZES, busy, strict=True))
            )
        ax.set(xlim=(-0.3, len(SIZES) - 0.7), ylim=(0, 1.2))
        ax.set_xticks(range(len(SIZES)), [f"{ranks}\n{_short(tokens // ranks)} each" for ranks in SIZES])
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        ax.set_xlabel("GPUs, and tokens of each")
        reach = ", if it reached all GPUs" if link == "NVLink 4" else ""  # it ends at a machine of eight
        ax.set_title(f"{link}: {data.link(link) / 1e9:.0f} GB/s{reach}", loc="left", fontsize=12.5, weight="bold")
    axes[0].set_ylabel("share of time that\nGPUs multiply")
    style.source_note(
        axes[0],
        f"simulated; kernels {label('attention_beside_peers' if backward else 'forward_ladder')}; links by data sheet",
    )
    return "; ".join(words)


@style.drawn(
    size=(11, 3.9),
    axes=(1, 2),
    alt="bars over time for four GPUs and two links: upper bars are the matmuls of each step, lower bars its messages",
)
def ring_timelines(axes: Sequence[Axes]) -> None:
    """Four simulated GPUs with few tokens each, causal in zigzag order: what they multiply and what they send, over two links."""
    for ax, link, words in zip(axes, ("NVLink 4", "InfiniBand NDR"), ("messages hide", "GPUs wait"), strict=True):
        line = simulated("zigzag", 4, 4 * FEW, 8, link)
        for span in line.spans():
            multiplies = span.lane == "compute"
            y, shade = span.rank - (0.19 if multiplies else -0.19), style.BLUE if multiplies else style.ORANGE
            left, width = 1e6 * span.start, 1e6 * (span.end - span.start)
            ax.barh(y, width, left=left, height=0.34, color=shade, ec="white", lw=1.5)
            if multiplies:
                ax.text(left + width / 2, y, f"{span.step + 1}", ha="center", va="center", color="white", fontsize=10)
        ax.set(xlabel="µs", ylim=(3.6, -0.6), xlim=(0, 1e6 * line.seconds * 1.02))
        ax.set_yticks(range(4), [f"GPU {rank}" for rank in range(4)])
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        ax.set_title(f"{link}: {words}", loc="left", fontsize=12.5, weight="bold")
    source = f"simulated, causal, zigzag; {FEW:,} tokens on each GPU; blue: matmuls, by step; orange: messages"
    style.source_note(axes[0], f"{source}; kernels {label('forward_ladder')}")


def _short(n: int) -> str:
    return f"{n // 1024}k" if n >= 1024 else str(n)

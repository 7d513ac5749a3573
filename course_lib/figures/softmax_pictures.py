"""Lecture 02, drawn: the ruler that moves, any order and any blocks, the first grid of programs, passes on an H200."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter

from course_lib.figures.records import label, rows
from course_lib.model import softmax
from course_lib.show import style

SCORES = (3, 2, 5, 1)  # of the whole course
ON_CHIP, LONG = (
    8192,
    32_768,
)  # scores: the block of the recording holds a row up to here; from here on each pass goes to HBM


class Timed(NamedTuple):
    """A softmax of 2^30 scores in rows of n, in seconds."""

    algorithm: str
    n: int
    seconds: float


def milliseconds(algorithm: str) -> dict[int, float]:
    """Row length -> recorded milliseconds of offline, online, fused, torch or copy on an H200."""
    return {run.n: 1e3 * run.seconds for run in rows(Timed, "softmax_passes") if run.algorithm == algorithm}


def speed_up(algorithm: str, least: int = 1, most: int = 2**30) -> list[float]:
    """How many times as fast as offline, for each row length from ``least`` to ``most``."""
    slow = milliseconds("offline")
    return [slow[n] / ms for n, ms in milliseconds(algorithm).items() if least <= n <= most]


def saved_pass() -> tuple[tuple[str, bool]]:
    """Evidence for C12, that saving one pass makes softmax up to 1.3 times as fast."""
    long, short = speed_up("online", least=LONG), speed_up("online", most=ON_CHIP)
    return (
        (f"H200, rows of {LONG:,} and more: two passes {min(long):.2f} to {max(long):.2f} times as fast as three; "
         f"rows up to {ON_CHIP:,}, which save no trip to HBM: {min(short):.2f} to {max(short):.2f} times",
         1.25 <= max(long) < 1.35),
    )  # fmt: skip


@style.drawn(
    size=(12, 3.9),
    axes=(1, 4),
    alt="four panels, one per arriving score: bars at the scores seen, as high as their terms, under an exponential curve; "
    "below, a ruler with its zero at the maximum",
)
def moving_ruler(axes: Sequence[Axes]) -> None:
    """What each of 3, 2, 5, 1 weighs after each arrival: bars under e^(x - m), on a ruler whose zero is m."""
    scores = torch.tensor(SCORES, dtype=torch.float64)
    before = softmax.start(scores)
    for i, (ax, state) in enumerate(zip(axes, softmax.online_states(scores), strict=True)):
        curve = torch.linspace(0, state.m, 100)
        ax.plot(curve, torch.exp(curve - state.m), color="#555555", lw=1.2, zorder=5)
        ax.plot([state.m], [1], "o", color="#555555", ms=4.5, zorder=5)
        for x in SCORES[: i + 1]:
            weight = math.exp(x - state.m)
            if state.m > before.m > -math.inf and x != SCORES[i]:
                ax.bar(x, math.exp(x - before.m), 0.62, fc="none", ec=style.GREY, ls="--", lw=1.2, zorder=2)
            ax.bar(x, weight, 0.62, color=style.BLUE if x == SCORES[i] else style.SKY, zorder=3)
            words = "1" if weight == 1 else f"{weight:.3f}"
            left = 0.12 if weight < 0.03 else 0  # room for the neighbour's number
            ax.text(x - left, weight + 0.03, words, ha="center", va="bottom", fontsize=10, zorder=6,
                    bbox={"fc": "white", "ec": "none", "pad": 0.6})  # fmt: skip
        ax.plot([0.3, 6.6], [-0.12, -0.12], color=style.RED, lw=1.4, clip_on=False)
        for x in range(1, 7):
            ax.plot([x, x], [-0.12, -0.15], color=style.RED, lw=1.4)
            zero = x == state.m
            ax.text(x, -0.17, f"{x - state.m:g}".replace("-", "−"), ha="center", va="top", color=style.RED,
                    fontsize=12.5 if zero else 10.5, weight="bold" if zero else None)  # fmt: skip
        factor = math.exp(before.m - state.m)
        if state.m > before.m > -math.inf:
            ax.text(0.75, 0.62, f"× {factor:.3f}", color="#666666", fontsize=11)
        ax.set_title(f"{SCORES[i]} arrives: m = {state.m:g}", loc="left", fontsize=12.5, weight="bold")
        sum_ = f"{before.l:.4g} × {factor:.3g} + {state.l - before.l * factor:.3g}" if i else "1"
        ax.text(0.3, 1.13, f"ℓ = {sum_}" + (f" = {state.l:.4g}" if i else ""), fontsize=10.5)
        ax.set(xlim=(0.2, 6.7), ylim=(-0.28, 1.2), xticks=range(1, 6), yticks=[])
        ax.xaxis.set_ticks_position("none")
        ax.set_xlabel("score", fontsize=11)
        ax.tick_params(labelsize=11)
        ax.grid(False)
        ax.spines["left"].set_visible(False)
        before = state
    axes[0].text(0.3, -0.105, "x − m", color=style.RED, fontsize=10.5, va="bottom")


def scores_in_order(ax: Axes, order: str, block: int) -> str:
    """m and ℓ of the same 64 scores, block by block, in one of three orders; in words: how many corrections, and the end."""
    block = min(block, 64)
    x = torch.randn(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    x = x if order == "as drawn" else x.sort(descending=order == "falling").values
    states = softmax.online_states(x, block)
    seen = [min(block * (k + 1), 64) for k in range(len(states))]
    m, l = ([float(part) for part in column] for column in ((s.m for s in states), (s.l for s in states)))
    ax.plot(range(1, 65), x, ".", color=style.GREY, ms=6, label="scores")
    ax.step([*seen, 65], [*m, m[-1]], where="post", color=style.RED, label="m")
    ax.step([*seen, 65], [*l, l[-1]], where="post", color=style.BLUE, label="ℓ")
    ax.axhline(l[-1], color=style.BLUE, ls=":", lw=1.2, label="ℓ at the end")
    ax.set(xlabel="scores seen", ylabel="score, m and ℓ", xlim=(0, 65), ylim=(-8, 18))
    ax.legend(ncols=4, loc="upper left", fontsize=12)
    corrections = sum(b > a for a, b in itertools.pairwise(m))
    return f"{corrections} corrections in {len(states)} blocks; at the end m = {m[-1]:.4f}, ℓ = {l[-1]:.4f}"


@style.drawn(
    size=(9.5, 2.5), alt="a strip of numbers in memory, cut into three programs; for each its columns and its mask"
)
def first_grid(ax: Axes) -> None:
    """The grid of the first kernel: three programs, four places each, over ten numbers."""
    n, block = 10, 4
    for program, shade in enumerate((style.BLUE, style.ORANGE, style.GREEN)):
        left = program * block * 1.06
        ax.text(left, 1.72, f"program {program}", fontsize=12.5, weight="bold", color=shade)
        for i in range(block):
            at, there = program * block + i, program * block + i < n
            look = {"fc": shade, "alpha": 0.3} if there else {"fc": "none", "ls": "--"}
            ax.add_patch(Rectangle((left + i, 0.75), 0.92, 0.8, ec=shade, lw=1.3, **look))
            ax.text(left + i + 0.46, 1.15, str(at), ha="center", va="center", fontsize=13, color="#000000")
            ax.text(left + i + 0.46, 0.4, "yes" if there else "no", ha="center", va="center", fontsize=11,
                    color=style.BLACK if there else style.RED, weight=None if there else "bold")  # fmt: skip
    ax.text(-0.15, 1.15, "cols", ha="right", va="center", fontsize=12, family="monospace")
    ax.text(-0.15, 0.4, "cols < n", ha="right", va="center", fontsize=12, family="monospace")
    ax.set(xlim=(-1.7, 12.6), ylim=(0.1, 2.1))
    ax.axis("off")


@style.drawn(
    size=(10, 4.6),
    alt="milliseconds over the row length, a line each for offline, online and fused, hollow marks for what bytes predict, "
    "and a plain copy",
)
def softmax_passes(ax: Axes) -> None:
    """Milliseconds for 4.3 GB of scores over the row length: three passes, two and one, beside a plain copy."""
    copy = milliseconds("copy")[2**30]
    for name, moved, words in (("offline", 4, "offline"), ("online", 3, "online"), ("fused", 1, "fused")):
        ms = milliseconds(name)
        ax.plot(list(ms), list(ms.values()), "o-", color=style.colour(name), ms=5)
        end = max(ms)
        ax.text(end * 1.25, ms[end], words, color=style.colour(name), va="center", weight="bold", fontsize=12)
        there = [n for n in ms if n >= LONG]
        ax.plot(there, [moved * copy / 2] * len(there), "D", mfc="none", mec=style.colour(name), ms=10, mew=1.3)
    ax.axhline(copy, color=style.GREY, ls=":", lw=1.6)
    ax.text(1100, copy - 0.12, "plain copy", color="#666666", fontsize=11, va="top")
    ax.text(2**16, 2.5, "◇ what the bytes predict, at the copy's rate", fontsize=11, va="center")
    ax.axvspan(900, ON_CHIP * 1.4, color="#EFEFEF", zorder=0)
    ax.text(1100, 4.75, "the block holds the row", fontsize=11, va="top")
    ax.set(xscale="log", xlim=(900, 2**23.4), ylim=(0, 5), xlabel="scores in a row", ylabel="milliseconds for 4.3 GB")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator([2**k for k in range(10, 23, 2)]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    ax.set_title("Long rows cost their passes; short ones stay on the chip", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, label("softmax_passes"))

"""Lecture 04: the weights that Lite hands out, its errors, and the test that accepts it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes

from course_lib import data, plots, runtime
from course_lib.figures.records import rows
from course_lib.instruments import measure
from course_lib.kernels.lite import flash_lite
from course_lib.model import reference, softmax
from course_lib.show import style
from course_lib.show.tables import Table

SCORES, VALUES, BLOCK = [3.0, 2.0, 5.0, 1.0], [10, 20, 30, 40], 2  # of the page's example
SHADES = (style.BLUE, style.SKY, style.ORANGE, style.YELLOW)


class Error(NamedTuple):
    """The largest error of a version for one head with d = 64."""

    algorithm: str
    dtype: str
    n: int
    max_error: float


@style.drawn(
    size=(10.5, 3.9),
    axes=(1, 2),
    alt="two panels, Lite and attention: the weights of four keys as stacked columns, a column per block, and a line at a full weight",
)
def stacked_weights(axes: Sequence[Axes]) -> None:
    """The weights of 3, 2, 5, 1 in two blocks, stacked: those of Lite block by block, those of attention one on the other."""
    blocks = [SCORES[i : i + BLOCK] for i in range(0, len(SCORES), BLOCK)]
    lite = [weight for block in blocks for weight in softmax.offline(torch.tensor(block).double()).tolist()]
    panels = (
        ("Lite: each block hands out 1", lite, True),
        ("Attention: all blocks share 1", softmax.offline(torch.tensor(SCORES).double()).tolist(), False),
    )
    for ax, (title, weights, anew) in zip(axes, panels, strict=True):
        top = 0.0
        for key, (weight, value) in enumerate(zip(weights, VALUES, strict=True)):
            block = key // BLOCK
            if key % BLOCK == 0:
                if block and not anew:
                    ax.plot([-0.3, 1.3], [top, top], ":", color=style.GREY, lw=1.5)
                top = 0.0 if anew else top
            ax.bar(block, weight, 0.6, bottom=top, color=SHADES[key], ec="white", lw=1)
            words, middle = f"{weight:.3f} · {value}", top + weight / 2
            if weight > 0.08:
                shade = "white" if key == 0 else style.BLACK
                ax.text(block, middle, words, ha="center", va="center", fontsize=11.5, color=shade)
            else:
                line = {"arrowstyle": "-", "color": style.GREY, "shrinkA": 0, "shrinkB": 0}
                at = (block + 0.46, middle + (0.08 if middle > 0.5 else -0.09))
                ax.annotate(words, (block + 0.3, middle), at, va="center", fontsize=11.5, arrowprops=line)
            top += weight
        ax.axhline(1, color=style.BLACK, lw=1, ls="--")
        ax.set(xlim=(-0.5, 1.95), ylim=(0, 1.25))
        ax.set_xticks([0, 1], ["block 1", "block 2"])
        ax.set_yticks([0, 0.5, 1])
        ax.grid(False)
        ax.set_title(title, loc="left", fontsize=12.5, weight="bold")
    axes[0].set_ylabel("weight")


Head = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def random_heads(lengths: Sequence[int], query_scale: float = 1.0, value_scale: float = 1.0) -> list[Head]:
    """Random q, k and v [n, 64] on the CPU for each length n: for one length the same in every table and figure."""
    found = []
    for n in lengths:
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(n, 64, generator=generator) for _ in range(3))
        found.append((query_scale * q, k, value_scale * v))
    return found


def block_averages(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block: int) -> torch.Tensor:
    """What Lite computes, in float64: the sum of one softmax average for each block of keys."""
    parts = zip(k.split(block), v.split(block), strict=True)
    return torch.stack([reference.attention(q, k_j, v_j) for k_j, v_j in parts]).sum(0)


def lite_errors() -> Table:
    """By length, in blocks of 64: the largest number of attention's output, and Lite's largest error here, as reported, and on an H200."""
    h200 = {
        r.n: r.max_error for r in rows(Error, "attention_one_head") if (r.algorithm, r.dtype) == ("lite", "float32")
    }
    reported = {row["n"]: row["lite"] for row in data.reported("attention_error")}
    cells = []
    for n, head in zip(reported, random_heads(list(reported)), strict=True):
        q, k, v = (x.to(runtime.device()) for x in head)
        right = reference.attention(q, k, v)
        errors = (measure.max_error(flash_lite(q, k, v), right), reported[n], h200[n])
        cells.append([n, n // 64, f"{float(right.abs().max()):.3f}", *(f"{error:.3f}" for error in errors)])
    return Table(["N", "key blocks", "right answer", "error here", "reported", "H200"], cells)


def growth(ax: Axes, block: int, spread: float) -> str:
    """Draw Lite's largest error over N, in blocks of ``block`` keys, beside the largest number of attention; Q has size ``spread``."""
    lengths, errors, sizes = [2**power for power in range(6, 11)], [], []
    for q, k, v in random_heads(lengths, query_scale=spread):
        right = reference.attention(q, k, v)
        errors.append(measure.max_error(block_averages(q, k, v, block), right))
        sizes.append(float(right.abs().max()))
    series = {"lite, largest error": errors, "attention, largest number": sizes}
    plots.lines(ax, lengths, series, "sequence length N", "magnitude", "this machine, now, float64", log=False)
    ax.set_xticks(lengths)
    ax.set_ylim(-0.04 * ax.get_ylim()[1])  # zeros stand clear of the axis
    return f"one block, and no error, up to N = {block:,}"


def usual_test(ax: Axes, scale: float, tolerance: float) -> str:
    """Draw Lite's largest error over N, in blocks of 64, and that of an output of zeros, against ``tolerance``; V has size ``scale``.

    Says at which N the test accepts Lite.
    """
    lengths = [64, 128, 256, 512, 1024]
    heads = random_heads(lengths, value_scale=scale)
    errors = [measure.max_error(block_averages(q, k, v, 64), reference.attention(q, k, v)) for q, k, v in heads]
    bottom = 6e-5  # of the axis, where an error of zero points down
    for at, error in enumerate(errors):
        mark, shade, words = ("o", style.BLUE, "accepted") if error <= tolerance else ("X", style.RED, "rejected")
        if error < bottom:
            mark, words = "v", "no error"
        height = max(error, bottom)
        ax.plot([at, at], [bottom, height], color=style.GREY, lw=1.5, zorder=1)
        ax.plot([at], [height], mark, ms=12, color=shade, clip_on=False)
        below = words == "accepted"  # clear of the tolerance, which lies above
        y, side = (height / 1.35, "top") if below else (height * 1.2, "bottom")
        ax.text(at + 0.12, y, words, va=side, fontsize=11, color=shade)
    sizes = [float(reference.attention(q, k, v).abs().max()) for q, k, v in heads]
    ax.plot(
        range(5), sizes, "D", mfc="white", mec=style.BLACK, ms=8, mew=1.5, label="error of an output of zeros", zorder=3
    )
    ax.legend(loc="upper left")
    ax.axhline(tolerance, color=style.BLACK, ls="--", lw=1.5)
    ax.text(6.15, tolerance * 1.15, f"tolerance {tolerance:g}", ha="right", fontsize=11)
    ax.set(yscale="log", ylim=(bottom, 40), xlim=(-0.3, 6.2), xlabel="sequence length N", ylabel="largest error")
    ax.set_xticks(range(5), [f"{n:,}" for n in lengths])
    style.kind_label(ax, "this machine, now, float64")
    accepted = ", ".join(f"{n:,}" for n, error in zip(lengths, errors, strict=True) if error <= tolerance)
    return f"the test accepts Lite at N = {accepted}"

"""Number formats: neighbours on the number line, and steps over magnitudes."""

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes

from course_lib.formats import format_of, rounded, step_at
from course_lib.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, colour, kind_label


def neighbours(ax: Axes, x: float, name: str) -> Axes:
    """The numbers of a format around x, with x itself where it lies between two."""
    kept = float(rounded(torch.tensor(x, dtype=torch.float64), name))
    step = step_at(kept, name)
    for i in range(-8, 9):
        y = kept + i * step
        if float(rounded(torch.tensor(y, dtype=torch.float64), name)) == y:
            ax.axvline(y, 0.25, 0.75, color=RED if i == 0 else colour(name), lw=4 if i == 0 else 2.5)
    if x != kept:
        ax.plot([x], [0.85], "v", color=ORANGE, ms=12)
    ax.set(
        xlim=(kept - 8.5 * step, kept + 8.5 * step), ylim=(0, 1), yticks=[], xlabel=f"numbers of {name} around {x:g}"
    )
    ax.ticklabel_format(axis="x", useOffset=False)
    ax.grid(False)
    return ax


def stage_lines(ax: Axes, lengths: Sequence[int], series: Mapping[str, Sequence[float]], ylabel: str) -> Axes:
    """The error that rounding one stage of attention brings, over N; one line for each stage."""
    looks = {"inputs": (BLACK, "s"), "scores": (RED, "^"), "weights": (PURPLE, "o"), "sums": (GREEN, "D")}
    for name, values in series.items():
        shade, marker = looks[name]
        ax.plot(lengths, values, marker=marker, color=shade, label=name)
    ax.set(xlabel="N, keys", ylabel=ylabel, yscale="log")
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [f"{n:,}" for n in lengths])
    ax.legend(title="rounded stage", loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, "this machine, now")
    return ax


def format_bars(ax: Axes, values: Mapping[str, float], xlabel: str, kind: str) -> Axes:
    """One bar for each format, on a logarithmic axis, with its value."""
    for y, (name, value) in enumerate(values.items()):
        ax.barh(y, value, color=colour(name), height=0.6)
        ax.text(value, y, f" {value:.2g}", va="center")
    ax.set_yticks(range(len(values)), list(values))
    ax.invert_yaxis()
    low, high = min(values.values()), max(values.values())
    ax.set(xscale="log", xlabel=xlabel, xlim=(low / 4, high * 6))
    ax.grid(False, axis="y")
    kind_label(ax, kind)
    return ax


def softcap(ax: Axes, x: torch.Tensor, cap: float) -> str:
    """cap · tanh(x / cap) over the score x, and its slope, by which a gradient is multiplied."""
    ax.plot(x, x, color=GREY, ls="--", label="no cap")
    ax.plot(x, cap * torch.tanh(x / cap), color=BLUE, label="capped score")
    ax.set(xlabel="score x", ylabel="capped score", ylim=(-1.3 * cap, 1.3 * cap))
    slope = ax.twinx()
    slope.plot(x, 1 - torch.tanh(x / cap) ** 2, color=ORANGE, label="slope")
    slope.set(ylabel="slope", ylim=(0, 1.05))
    slope.grid(False)
    slope.spines["right"].set_visible(True)
    ax.legend(
        *(a + b for a, b in zip(ax.get_legend_handles_labels(), slope.get_legend_handles_labels())), loc="upper left"
    )
    kind_label(ax, "by definition")
    return f"a score of {cap:g} keeps {1 - math.tanh(1) ** 2:.2f} of its gradient, one of {3 * cap:g} keeps {1 - math.tanh(3) ** 2:.2f}"


def relative_steps(ax: Axes, names: Sequence[str], x: float) -> str:
    """The largest relative rounding error over magnitudes; a line ends where its format does, and rises where steps stop shrinking.

    Returns which formats hold a number of magnitude x to 1 %.
    """
    for name in names:
        f = format_of(name)
        xs = [f.smallest, f.smallest_normal, f.largest]
        ax.plot(xs, [0.5, f.epsilon / 2, f.epsilon / 2], color=colour(name), label=name)
        ax.plot([f.largest], [f.epsilon / 2], "|", ms=16, mew=3, color=colour(name))
    ax.axvline(x, color=GREY, lw=1.5, ls="--")
    ax.text(x, 0.9, f" {x:g}", fontsize=12, va="bottom")
    limits = {"xscale": "log", "yscale": "log", "ylim": (1e-8, 3)}
    ax.set(xlabel="magnitude of the number", ylabel="largest relative error", **limits)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, "by definition")
    good = [name for name in names if step_at(x, name) / 2 <= 0.01 * x]
    return f"any number near {x:g} is held to 1 % in " + (", ".join(good) or "none of them")

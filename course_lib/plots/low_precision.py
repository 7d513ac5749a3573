"""Eight bits: a row on its way through the rotation, errors by ways of scaling, what accumulators keep, busy units."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from course_lib.show.style import BLACK, GREEN, GREY, MARKER, bar_places, colour, kind_label


def butterfly(axes: Sequence[Axes], stages: Sequence[torch.Tensor]) -> None:
    """``|x|`` of one row [d] before the rotation and after each stage, with the largest."""
    limit = max(float(x.abs().max()) for x in stages)
    for i, (ax, x) in enumerate(zip(axes, stages, strict=True)):
        ax.barh(range(len(x)), x.abs().tolist(), color=GREEN)
        name = "row" if i == 0 else "rotated" if i == len(stages) - 1 else f"stage {i}"
        ax.set_title(f"{name}\nlargest {float(x.abs().max()):.3g}", fontsize=12)
        ax.set(xlim=(0, limit * 1.05), yticks=[], xlabel="|x|")
        ax.invert_yaxis()


def row_bars(axes: Sequence[Axes], before: torch.Tensor, after: torch.Tensor) -> str:
    """The numbers of a row [d] before and after the rotation; what lies in the band rounds to 0 in int8."""
    for ax, x, name in zip(axes, (before, after), ("before", "after"), strict=True):
        step = float(x.abs().max()) / 127
        ax.bar(range(len(x)), x.tolist(), width=1.0, color=GREEN)
        ax.axhspan(-step / 2, step / 2, color=GREY, alpha=0.35, lw=0)
        lost = float((x.abs() < step / 2).double().mean())
        ax.set_title(name, loc="left")
        said = f"largest {float(x.abs().max()):.3g}, int8 step {step:.2g}, {lost:.0%} round to 0"
        ax.set(xlabel=f"position in the row\n{said}", ylabel="x")
    kind_label(axes[1], "this machine, now")
    return f"sum of squares: {float(before.square().sum()):.6g} before, {float(after.square().sum()):.6g} after"


def ways(ax: Axes, errors: Mapping[str, float], reference: float, kind: str) -> str:
    """The rms error of each way to 8 bits as a bar, that of 16 bits as a line; returns the ratio of the first to the best."""
    for y, (name, error) in enumerate(errors.items()):
        ax.barh(y, error, color=colour(name), height=0.62)
        ax.text(error, y, f" {error:#.2g}", va="center")
    ax.axvline(reference, color=BLACK, ls="--", lw=2)
    ax.text(reference, -0.75, "  fp16, flash", color=BLACK, fontsize=12)
    ax.set_yticks(range(len(errors)), list(errors))
    ax.set_ylim(len(errors) - 0.5, -1.1)
    ax.set(xlabel="rms error of O", xlim=(0, max(errors.values()) * 1.2))
    ax.grid(False, axis="y")
    kind_label(ax, kind)
    best = min(errors, key=lambda name: errors[name])
    first = next(iter(errors))
    return f"{first} over the best, {best}: {errors[first] / errors[best]:.2f}"


def error_ranges(ax: Axes, series: Mapping[str, Mapping[int, Sequence[float]]], ylabel: str, kind: str) -> Axes:
    """For each way its errors over N: the root mean square of the samples as a line, their range as a bar, all side by side."""
    for i, (name, samples) in enumerate(series.items()):
        middle = [(sum(e * e for e in errors) / len(errors)) ** 0.5 for errors in samples.values()]
        aside = 2 ** (0.07 * (i - (len(series) - 1) / 2))  # so that lines that agree do not cover each other
        at = [n * aside for n in samples]
        ls = ":" if name == "our kernel" else "-"
        ax.plot(at, middle, marker=MARKER.get(name, "o"), ls=ls, color=colour(name), label=name)
        ax.vlines(
            at,
            [min(errors) for errors in samples.values()],
            [max(errors) for errors in samples.values()],
            color=colour(name),
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(next(iter(series.values()))))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set(xlabel="N, queries and keys", ylabel=ylabel, ylim=(0, None))
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, kind)
    return ax


def kept(ax: Axes, shares: Mapping[str, Mapping[int, float]], kind: str) -> Axes:
    """What is left of small products in a sum with a large one, over how many powers of two lie between them."""
    for name, found in shares.items():
        ax.plot(list(found), list(found.values()), marker="o", color=colour(name), label=name)
    ax.set(
        xlabel="large product / small product, as a power of two", ylabel="share of the small ones\nthat is in the sum"
    )
    ax.set_ylim(-0.1, 1.15)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="center right")
    kind_label(ax, kind)
    return ax


def share_bars(ax: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float]], kind: str) -> Axes:
    """For each unit of the SM a bar for each kernel: the share of its peak, with the number."""
    for (name, values), (at, width) in zip(series.items(), bar_places(len(groups), len(series)), strict=True):
        ax.bar(at, values, width, color=colour(name), alpha=0.5 if "," in name else 1, label=name)
        for x, value in zip(at, values, strict=True):
            ax.text(x, value, f"{value:.0%}", ha="center", va="bottom", fontsize=12)
    ax.set_xticks(range(len(groups)), list(groups))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    ax.set(ylabel="share of the peak", ylim=(0, 1.05))
    ax.grid(False, axis="x")
    ax.legend(loc="upper right")
    kind_label(ax, kind)
    return ax

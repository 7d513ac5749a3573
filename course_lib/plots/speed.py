"""Times, errors and rates: lines and bars for each algorithm."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from course_lib.model.pipeline import TENSOR, Span
from course_lib.show.style import MARKER, WORK, bar_places, colour, kind_label


def lines(
    ax: Axes,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    kind: str,
    base: int = 2,
    log: bool = True,
) -> Axes:
    """One line for each algorithm over x, both axes logarithmic; without ``log`` the upright one is linear and begins at 0.

    A variant ('online, tf32') keeps its algorithm's colour; beside others of it its markers are hollow. Dashed is what a model
    says ('tiled, model').
    """
    variants: Counter[str] = Counter()
    for name, y in series.items():
        algorithm, _, variant = name.partition(",")
        look: dict[str, Any] = {"marker": MARKER.get(name) or MARKER.get(algorithm, "o"), "color": colour(name)}
        if variant and sum(other.partition(",")[0] == algorithm for other in series) > 1:
            look |= {"markerfacecolor": "white", "markeredgewidth": 2}
            if variants[algorithm] and name not in MARKER:
                look["marker"] = "sD^v"[(variants[algorithm] - 1) % 4]
            variants[algorithm] += 1
        if look["marker"] == "*":  # a star looks smaller than the others
            look["markersize"] = 13
        ax.plot(x, y, "--" if "model" in name else "-", label=name, **look)
    ax.set_xscale("log", base=base)
    if max(x) <= 65_536:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set(xlabel=xlabel, ylabel=ylabel, yscale="log" if log else "linear")
    low, high = ax.get_ylim()
    if not log:
        ax.set_ylim(0, high)
    elif high / low < 100:  # plain numbers read better than 3 × 10⁰
        ax.yaxis.set_minor_locator(LogLocator(subs=range(2, 10) if high / low < 5 else (2, 5)))
        ax.grid(True, axis="y", which="minor")
        for formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.legend(loc="best", handlelength=3.2 if any("model" in name for name in series) else None)
    kind_label(ax, kind)
    return ax


def timeline(ax: Axes, spans: Sequence[Span], idle: float) -> Axes:
    """A simulated pipeline: a row for copies on their way, for each consumer and for the tensor cores, a bar for each piece of work.

    Two pieces of one consumer that run at once have half a row each; on the tensor cores each consumer has its part. A copy that a
    consumer waits for is drawn in both rows.
    """
    seen, consumers = set(), max(span.warpgroup for span in spans)
    for span in spans:
        others = (s for s in spans if s is not span and s.warpgroup == span.warpgroup)
        beside = any(s.start < span.end - 1e-9 and span.start < s.end - 1e-9 for s in others)
        boxes = [(span.warpgroup - 0.4 + 0.4 * (beside and span.kind == "softmax"), 0.4 if beside else 0.8)]
        if span.kind == "load" and span.warpgroup:
            boxes.append((-0.4, 0.8))
        if span.kind in TENSOR:
            boxes.append((consumers + 0.6 + 0.8 * (span.warpgroup - 1) / consumers, 0.8 / consumers))
        for top, height in boxes:
            ax.barh(top, span.end - span.start, left=span.start, height=height, align="edge", color=WORK[span.kind],
                    edgecolor="white", label=None if span.kind in seen else span.kind)  # fmt: skip
            seen.add(span.kind)
    ax.set_yticks(range(consumers + 2), ["copies", *(f"consumer {i + 1}" for i in range(consumers)), "tensor cores"])
    ax.invert_yaxis()
    ax.set(xlabel="time (units)", title=f"tensor cores idle: {idle:.0%}")
    ax.grid(False, axis="y")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, "model")
    return ax


def grouped_bars(
    ax: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float]], ylabel: str, kind: str, log: bool = True
) -> Axes:
    """For each group a bar for each algorithm, on a logarithmic or a linear axis."""
    for (name, values), (at, width) in zip(series.items(), bar_places(len(groups), len(series)), strict=True):
        ax.bar(at, values, width, color=colour(name), label=name)
    ax.set_xticks(range(len(groups)), list(groups))
    ax.set(yscale="log" if log else "linear", ylabel=ylabel)
    ax.grid(False, axis="x")
    ax.legend(loc="upper left", ncols=len(series))
    low, high = ax.get_ylim()
    ax.set_ylim(*((low / 2, high * 3) if log else (0, high * 1.25)))
    kind_label(ax, kind)
    return ax


def curves(
    ax: Axes,
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    kind: str,
    x: Sequence[float] | None = None,
) -> Axes:
    """One curve for each algorithm over x, or its index; the later ones dashed and thinner, so that equal ones show."""
    for i, (name, values) in enumerate(series.items()):
        at = range(len(values)) if x is None else x
        ax.plot(at, values, ("-", "--", ":")[i % 3], lw=(6, 4, 3)[i % 3], color=colour(name), label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    kind_label(ax, kind)
    return ax

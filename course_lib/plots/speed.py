"""Times, errors and rates: lines and bars for each algorithm."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from course_lib.pipeline import Span
from course_lib.style import MARKER, WORK, colour, kind_label, seconds_text


def lines(
    ax: Axes,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    kind: str,
    base: int = 2,
) -> Axes:
    """One line for each algorithm over x, both axes logarithmic."""
    variants: Counter[str] = Counter()
    for name, y in series.items():
        algorithm, _, variant = name.partition(",")
        variants[algorithm] += bool(variant)
        dashes = (
            ("--", ":", "-.")[(variants[algorithm] - 1) % 3] if variant else "-"
        )  # a variant of an algorithm keeps its colour
        ax.plot(x, y, dashes, marker=MARKER.get(name) or MARKER.get(algorithm, "o"), color=colour(name), label=name)
    ax.set_xscale("log", base=base)
    if max(x) <= 65_536:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set_yscale("log")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    low, high = ax.get_ylim()
    if high / low < 100:  # plain numbers read better than 3 × 10⁰
        ax.yaxis.set_minor_locator(LogLocator(subs=range(2, 10) if high / low < 5 else (2, 5)))
        ax.grid(True, axis="y", which="minor")
        for formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.legend(loc="best")
    kind_label(ax, kind)
    return ax


def time_bars(ax: Axes, milliseconds: Mapping[str, float], kind: str) -> str:
    """One horizontal bar for each algorithm; returns the ratios to the first in words."""
    first = next(iter(milliseconds.values()))
    for y, (name, ms) in enumerate(milliseconds.items()):
        ax.barh(y, ms, color=colour(name), height=0.6, alpha=0.6 if "," in name else 1)
        ax.text(ms, y, f" {ms:.3g} ms", va="center")
    ax.set_yticks(range(len(milliseconds)), list(milliseconds))
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlabel("milliseconds")
    ax.grid(False, axis="y")
    kind_label(ax, kind)
    return "speed, as multiples of the first: " + ", ".join(f"{n} {first / ms:.2f}" for n, ms in milliseconds.items())


def chain(ax: Axes, seconds: Mapping[str, float], causes: Sequence[str], kind: str) -> str:
    """One bar for each version, each with what changed from the one above and the factor gained; returns the factors."""
    names, times = list(seconds), list(seconds.values())
    gains = [""] + [f"{before / after:.2f}×" for before, after in itertools.pairwise(times)]
    for y, (name, time) in enumerate(seconds.items()):
        ax.barh(y, time * 1e3, color=colour(name), height=0.62, alpha=0.6 if "," in name else 1)
        change = f"   {gains[y]} by {causes[y - 1]}" if y else ""
        ax.text(time * 1e3, y, f" {seconds_text(time)}{change}", va="center", fontsize=12)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="milliseconds", xlim=(min(times) * 1e3 / 3, max(times) * 1e3 * 8))
    ax.grid(False, axis="y")
    kind_label(ax, kind)
    return f"in all {times[0] / times[-1]:.0f} times: " + ", ".join(f"{g} by {c}" for g, c in zip(gains[1:], causes))


def climb(ax: Axes, tflops: Mapping[str, float], peers: Mapping[str, float], peak: float, kind: str) -> str:
    """One bar for each rung with its gain over the one above; a line for each peer; returns the best rung in words."""
    names, rates = list(tflops), list(tflops.values())
    for y, (name, rate) in enumerate(tflops.items()):
        ax.barh(y, rate, color=colour(name), height=0.68)
        gain = f"   {rate / rates[y - 1]:.2f}×" if y else ""
        ax.text(rate, y, f" {rate:.0f}{gain}", va="center", fontsize=12)
    for name, rate in peers.items():
        ax.plot([rate, rate], [-0.6, len(names) - 0.4], color=colour(name), ls="--", lw=2, zorder=3)
        ax.text(rate, -0.7, name, color=colour(name), ha="center", va="bottom", fontsize=12)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel=f"TFLOP/s (peak of the data sheet: {peak:,.0f})", xlim=(0, max(*rates, *peers.values()) * 1.2))
    ax.set_ylim(len(names) - 0.4, -1.3)
    ax.grid(False, axis="y")
    kind_label(ax, kind)
    best = max(tflops, key=lambda name: tflops[name])
    return (
        f"{best}: "
        + ", ".join(f"{tflops[best] / rate:.2f} × {name}" for name, rate in peers.items())
        + f", {tflops[best] / peak:.0%} of the peak"
    )


def lanes(ax: Axes, spans: Sequence[Span], idle: float) -> Axes:
    """A simulated pipeline: one lane for the producer and for each warpgroup, a bar for each piece of work."""
    seen = set()
    for span in spans:
        label = None if span.kind in seen else span.kind
        seen.add(span.kind)
        offset = 0.2 if span.kind == "softmax" else -0.2 if span.kind == "PV" else 0.0
        height = 0.4 if offset else 0.8
        ax.barh(span.lane + offset, span.end - span.start, left=span.start, height=height, color=WORK[span.kind],
                edgecolor="white", label=label)  # fmt: skip
    consumers = max(span.lane for span in spans)
    ax.set_yticks(range(consumers + 1), ["producer", *(f"warpgroup {i + 1}" for i in range(consumers))])
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
    width = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        at = [x + (i - (len(series) - 1) / 2) * width for x in range(len(groups))]
        ax.bar(at, values, width * 0.92, color=colour(name), label=name)
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

"""The ladder: time over length for every level of the stack."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from course_lib.style import MARKER, colour, kind_label

Points = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def ladder_lines(
    ax: Axes, series: Points, ylabel: str, kind: str, reported: Points | None = None, dotted: bool = False
) -> Axes:
    """A line for each rung, (lengths, values), both axes logarithmic; what a source reports as hollow markers, ``dotted`` or alone."""

    def marker(name: str) -> str:
        return MARKER.get(name.split(",")[0].split(" (")[0], "o")

    for name, (x, y) in series.items():
        dashes = "--" if "GPU" in name else "-"
        ax.plot(x, y, dashes, marker=marker(name), color=colour(name), label=name)
    for name, (x, y) in (reported or {}).items():
        ax.plot(x, y, linestyle=":" if dotted else "none", marker=marker(name), ms=12, mew=2.2, mfc="none",
                color=colour(name), label=f"{name}: reported")  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set(xlabel="N, queries and keys", ylabel=ylabel)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, kind)
    return ax

"""The ladder: time over length for every level of the stack."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from course_lib.show.style import GREY, MARKER, colour, kind_label

Points = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def ladder_lines(
    ax: Axes, series: Points, ylabel: str, kind: str, reported: Points | None = None, dotted: bool = False
) -> Axes:
    """A line for each rung, (lengths, values), both axes logarithmic; what a source reports as hollow markers, ``dotted`` or alone.

    A rung that comes a second time, as 'Python (one machine)' and 'Python (another)', is dashed there, as is what runs on a GPU.
    """

    def marker(name: str) -> str:
        return MARKER.get(name.split(",")[0].split(" (")[0], "o")

    seen: set[str] = set()
    for name, (x, y) in series.items():
        rung = name.split(" (")[0]
        dashes = "--" if "GPU" in rung or rung in seen else "-"
        seen.add(rung)
        size = 13 if marker(name) == "*" else None  # a star looks smaller than the others
        ax.plot(x, y, dashes, marker=marker(name), ms=size, color=colour(name), label=name)
    for name, (x, y) in (reported or {}).items():
        ax.plot(x, y, linestyle=":" if dotted else "none", marker=marker(name), ms=12, mew=2.2, mfc="none",
                color=colour(name))  # fmt: skip
    if reported:  # one entry for all: the colours say which rung
        ax.plot([], [], linestyle=":" if dotted else "none", marker="o", ms=12, mew=2.2, mfc="none",
                color=GREY, label="hollow: reported")  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(sorted({float(n) for lengths, _ in series.values() for n in lengths}))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set(xlabel="N, queries and keys", ylabel=ylabel)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, kind)
    return ax

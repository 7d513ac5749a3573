"""Draws the map of the course that lecture 00 and the README show: python -m course_lib.publish.course_map"""

import io
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from course_lib.files import write_atomically
from course_lib.publish import notebooks
from course_lib.show import style

PATH = notebooks.NOTEBOOKS / "course_map.svg"
SIZE = (12, 7.2)  # inches
PARTS = {  # part -> number of its first lecture
    "I  Why": 0,
    "II  The kernel": 3,
    "III  In a model": 7,
    "IV  The metal": 9,
    "V  Beyond the kernel": 13,
    "Appendices": 15,
}
_COLOURS = (style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.RED, style.GREY)
_LEFT, _WIDE, _STEP, _TALL, _ROW = 3.45, 3.6, 3.95, 0.95, 1.25


def parts() -> dict[str, list[tuple[str, str, int]]]:
    """part -> (number, title, minutes of self-study) of its lectures in reading order."""
    lectures = {
        int(about["number"]): (about["number"], about["title"], about["study"])
        for about in map(notebooks.about, notebooks.lectures())
    }
    ends = [*list(PARTS.values())[1:], 100]
    return {
        part: [lectures[n] for n in sorted(lectures) if first <= n < end]
        for (part, first), end in zip(PARTS.items(), ends, strict=True)
    }


def draw(ax: Axes) -> Axes:
    """The course on one page: a row for each part."""
    rows = parts()
    for row, (part, lectures) in enumerate(rows.items()):
        y, colour = -row * _ROW, _COLOURS[row]
        ax.text(0, y + _TALL / 2, part, fontsize=12, fontweight="bold", color=colour, va="center")
        for col, (number, title, minutes) in enumerate(lectures):
            x = _LEFT + col * _STEP
            ax.add_patch(
                FancyBboxPatch(
                    (x, y), _WIDE, _TALL, boxstyle="round,pad=0.03", fc="white", edgecolor=colour, linewidth=2.3
                )
            )
            ax.text(x + 0.1, y + 0.68, number, fontsize=13.5, fontweight="bold", color=colour, va="center")
            ax.text(x + _WIDE - 0.1, y + 0.68, f"{minutes} min", fontsize=10, color="#555555", ha="right", va="center")
            ax.text(x + 0.1, y + 0.27, title, fontsize=10.2, color="black", va="center")
    widest = max(map(len, rows.values()))
    ax.set(xlim=(-0.1, _LEFT + widest * _STEP), ylim=(-_ROW * (len(rows) - 1) - 0.2, _TALL + 0.2))
    ax.axis("off")
    return ax


def write(path: Path = PATH) -> None:
    """Write the map as SVG, with its text as text."""
    with rc_context(style.RC):
        figure = Figure(figsize=SIZE)
        draw(figure.subplots())
        figure.savefig(svg := io.StringIO(), format="svg", metadata={"Date": None})
    write_atomically(path, svg.getvalue())


if __name__ == "__main__":
    write()
    print(PATH.relative_to(PATH.parents[1]))

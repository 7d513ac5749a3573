"""The course on one page."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from course_lib import checks
from course_lib.show.style import BLUE, GREEN, ORANGE, PURPLE


def course_map(ax: Axes, lectures: Sequence[tuple[str, str, int]]) -> Axes:
    """The course on one page: (number, title, minutes) for each lecture, in reading order, three to a row."""
    for i, lecture in enumerate(checks.several("lectures", lectures, most=100)):
        number, title, minutes = checks.several(f"lectures[{i}]", lecture, length=3)
        checks.text(f"the number of lectures[{i}]", number)
        checks.text(f"the title of lectures[{i}]", title)
        checks.positive_int(f"the minutes of lectures[{i}]", minutes)
    per_row, colours = 3, (BLUE, GREEN, ORANGE, PURPLE)
    for i, (number, title, minutes) in enumerate(lectures):
        row, col = divmod(i, per_row)
        x, y = col * 4.1, -row * 1.5
        ax.add_patch(
            FancyBboxPatch(
                (x, y), 3.6, 1.0, boxstyle="round,pad=0.05", facecolor="white", edgecolor=colours[row % 4], lw=2.5
            )
        )
        ax.text(x + 0.1, y + 0.72, number, fontsize=15, fontweight="bold", color=colours[row % 4], va="center")
        ax.text(x + 3.5, y + 0.72, f"{minutes} min", fontsize=11, color="#555555", ha="right", va="center")
        ax.text(x + 0.1, y + 0.3, title, fontsize=12.5, va="center")
        if i + 1 < len(lectures):
            end = (x + 4.05, y + 0.5) if col < per_row - 1 else (1.8, y - 0.42)
            start = (x + 3.65, y + 0.5) if col < per_row - 1 else (x + 1.8, y - 0.05)
            ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#777777", "lw": 1.8})
    ax.set(xlim=(-0.2, 3.6 + 4.1 * (per_row - 1) + 0.2), ylim=(-1.5 * ((len(lectures) - 1) // per_row) - 0.3, 1.2))
    ax.axis("off")
    return ax

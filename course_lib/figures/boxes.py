"""What diagrams are drawn with: boxes with words, arrows, and an empty frame for them."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_lib.show import style

PALE = {"grey": "#E8E8E8", "blue": "#CDE9F8", "green": "#B2E1D5", "orange": "#F8E3B3", "red": "#F6D9C7"}
WORDS = 11.5  # size of letters
HEAD: dict[str, Any] = {"loc": "left", "fontsize": 13, "weight": "bold"}


def box(
    ax: Axes, x: float, y: float, w: float, h: float, words: str, shade: str, size: float = WORDS, **look: Any
) -> None:
    """A rounded box with words in its middle."""
    frame = "round,pad=0.02,rounding_size=0.06"
    ax.add_patch(FancyBboxPatch((x, y), w, h, boxstyle=frame, fc=shade, ec="#777777", lw=1, **look))
    ax.text(x + w / 2, y + h / 2, words, ha="center", va="center", fontsize=size)


def arrow(
    ax: Axes, a: tuple[float, float], b: tuple[float, float], shade: str = style.BLUE, dashed: bool = False
) -> None:
    """An arrow from a to b."""
    line = "--" if dashed else "-"
    ax.add_patch(
        FancyArrowPatch(a, b, arrowstyle="-|>", mutation_scale=15, color=shade, lw=1.8, linestyle=line, zorder=3)
    )


def blank(ax: Axes, width: float, low: float, high: float) -> None:
    """No axes, and a frame of this size."""
    ax.set(xlim=(-0.1, width), ylim=(low, high))
    ax.axis("off")

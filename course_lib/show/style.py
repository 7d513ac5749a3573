"""The look of the course: colours, fonts, how a figure becomes a picture, and numbers as text."""

import base64
import functools
import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart under every common colour blindness.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE, GREY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#8A8A8A",
)
_LOOKS = {  # of an algorithm: colour, marker
    "standard": (RED, "s"),
    "offline": (ORANGE, "s"),
    "online": (BLUE, "o"),
    "fused": (GREEN, "D"),
    "V1": (SKY, "^"),
    "V2": (BLUE, "o"),
    "running": (ORANGE, "h"),
    "compulsory": (GREEN, "D"),
    "flash": (BLUE, "o"),
    "lite": (PURPLE, "X"),
    "sdpa": (GREY, "P"),
    "tiled": (BLUE, "o"),
    "attention": (BLUE, "o"),
    "attention()": (BLUE, "*"),
    "Python + autograd": (ORANGE, "^"),
    "Python": (BLACK, "o"),
    "C++ nodes": (GREEN, "D"),
    "C++ -O2": (SKY, "v"),
    "C++ -O3": (SKY, "x"),
    "PyTorch": (RED, "s"),
    "SDPA": (GREY, "P"),
    "Lite": (PURPLE, "X"),
    "Online": (BLUE, "o"),
    "FA2": (GREY, "o"),
    "cuDNN": (BLACK, "o"),
    "FA4": (ORANGE, "o"),
    "outer loop over K/V": (SKY, "o"),
    "outer loop over Q": (ORANGE, "o"),
    "two passes": (BLUE, "o"),
    # the ladder of lecture 11: by pointers, by descriptors, by specialised warps
    "exp2": (BLUE, "o"),
    "tuned": (BLUE, "o"),
    "causal block skipping": (BLUE, "o"),
    "TMA": (SKY, "o"),
    "persistent": (SKY, "o"),
    "specialised": (GREEN, "o"),
    "overlap": (GREEN, "o"),
    "ping-pong": (GREEN, "o"),
    "late wait": (GREEN, "o"),
    "three matmuls": (PURPLE, "o"),
    "ring": (BLUE, "o"),
    "fixed order": (ORANGE, "o"),
    "queue": (BLUE, "o"),
    # lecture 12
    "8 bits": (GREEN, "D"),
    "from 16 bits": (SKY, "o"),
    "Triton in 8 bits": (ORANGE, "s"),
    "one scale": (ORANGE, "s"),
    "block scales": (SKY, "^"),
    "row scales": (PURPLE, "o"),
    "one scale and rotation": (BLUE, "o"),
    "block scales and rotation": (GREEN, "D"),
    "our kernel": (BLACK, "x"),
}
ALGORITHM = {name: colour for name, (colour, _) in _LOOKS.items()}
MARKER = {name: marker for name, (_, marker) in _LOOKS.items()}
TENSOR = {
    "Q": BLUE,
    "K": ORANGE,
    "V": GREEN,
    "S": RED,
    "P": PURPLE,
    "O": BLACK,
    "A": BLUE,
    "B": ORANGE,
    "C": BLACK,
    "l": GREY,
    "m": SKY,
    "L": PURPLE,
    "D": YELLOW,
    "dQ": "#7FB8D8",
    "dK": "#F2CF7F",
    "dV": "#7FCEB9",
    "dO": "#7F7F7F",
}
FORMAT = {"fp32": BLACK, "tf32": PURPLE, "fp16": BLUE, "bf16": ORANGE, "e4m3": GREEN, "e5m2": SKY, "int8": RED}
WORK = {"load": GREY, "QK": BLUE, "softmax": ORANGE, "PV": GREEN}  # what a warpgroup does


def colour(name: str) -> str:
    """The colour of an algorithm or a number format, the same throughout the course; 'V1, parallel' is V1, 'fp16 (cut)' fp16."""
    key = name.split(",")[0].split(" (")[0]
    return ALGORITHM.get(key) or FORMAT.get(key) or GREY


def shade(tensor: str) -> str:
    """The colour of a tensor, the same throughout the course; grey for one that has none of its own."""
    return TENSOR.get(tensor, GREY)


RC: Any = {
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.labelsize": 13,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 2.4,
    "lines.markersize": 8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "svg.fonttype": "none",
    "svg.hashsalt": "flash-attention-course",
}


def use_style() -> None:
    """Make the course's style the default of matplotlib."""
    matplotlib.rcParams.update(RC)


class Picture:
    """A finished figure: a PNG with a text that says what it shows (for a screen reader, a terminal, a comparison)."""

    def __init__(self, png: bytes, alt: str):
        self.png, self.alt = png, alt

    def __repr__(self) -> str:
        return f"[figure] {self.alt}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt, "width": shown_width(self.png)}}


# Pictures are drawn finer than they are shown, so that they stay sharp on a projector and a dense screen.
_SHOWN_DPI, _DRAWN_DPI = 90, 150
_SLIDE = 1190  # CSS pixels: as wide as a picture is on a slide


def shown_width(png: bytes, tallest: float | None = None) -> int:
    """The width in CSS pixels at which to show a picture of ours.

    On slides, where ``tallest`` is given or COURSE_FIGURE_HEIGHT, it is as wide as the slide, or that tall.
    """
    width, height = (int.from_bytes(png[i : i + 4], "big") * _SHOWN_DPI / _DRAWN_DPI for i in (16, 20))
    tallest = tallest or float(os.environ.get("COURSE_FIGURE_HEIGHT", "0"))
    return round(min(_SLIDE, width * tallest / height) if tallest else width)


def render(
    plot: Callable[..., Any],
    *args: Any,
    size: tuple[float, float] = (8.5, 4.4),
    axes: tuple[int, int] = (1, 1),
    **kwargs: Any,
) -> tuple[bytes, Any]:
    """Draw ``plot(ax, *args, **kwargs)`` on a new figure of ``size`` inches; (PNG bytes, what plot returned).

    ``axes`` = (rows, columns) of sub-plots; with more than one, plot gets the flat list of axes.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=size, dpi=_DRAWN_DPI)
        canvas = FigureCanvasAgg(figure)
        grid = figure.subplots(*axes, squeeze=False).ravel().tolist()
        result = plot(grid[0] if len(grid) == 1 else grid, *args, **kwargs)
        buffer = io.BytesIO()
        canvas.print_png(buffer, metadata={"Software": None})  # savefig would draw everything twice
        return buffer.getvalue(), result


def picture(
    plot: Callable[..., Any],
    *args: Any,
    alt: str,
    size: tuple[float, float] = (8.5, 4.4),
    axes: tuple[int, int] = (1, 1),
    **kwargs: Any,
) -> Picture:
    """One still figure for a page; ``alt`` says in words what is to be seen."""
    return Picture(render(plot, *args, size=size, axes=axes, **kwargs)[0], alt)


def drawn(
    alt: str, size: tuple[float, float] = (8.5, 4.4), axes: tuple[int, int] = (1, 1)
) -> Callable[[Callable[[Any], Any]], Callable[[], Picture]]:
    """Makes a function that draws on its axes one that takes nothing and returns the ``picture``."""

    def of(plot: Callable[[Any], Any]) -> Callable[[], Picture]:
        @functools.wraps(plot)
        def made() -> Picture:
            return picture(plot, alt=alt, size=size, axes=axes)

        del made.__wrapped__  # the reference shows a function's own arguments: none
        return made

    return of


# --- numbers ---

_BYTE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def bytes_text(n: float) -> str:
    """Bytes for reading, in powers of ten: 4,194,304 -> '4.19 MB'."""
    return _in_unit([(n / 1000**power, unit) for power, unit in enumerate(_BYTE_UNITS)])


def seconds_text(s: float) -> str:
    """Seconds for reading: 0.00042 -> '420 µs'."""
    return _in_unit([(s / size, unit) for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))])


def _in_unit(choices: Sequence[tuple[float, str]]) -> str:
    """Three digits in the first unit in which they, rounded, stay below 1,000; whole numbers in the last one if none does."""
    value, unit = next((c for c in choices if float(f"{c[0]:.3g}") < 1000), choices[-1])
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"


def bar_places(groups: int, bars: int) -> list[tuple[list[float], float]]:
    """For each of ``bars`` bars of a group: where it stands in each of ``groups`` groups at 0, 1, …, and its width."""
    width = 0.8 / bars
    return [([x + (i - (bars - 1) / 2) * width for x in range(groups)], width * 0.92) for i in range(bars)]


def kind_label(ax: Axes, kind: str) -> None:
    """Say on the figure where its numbers come from: 'model', 'recorded …' or 'this machine, now'."""
    ax.text(
        1.0,
        1.02,
        kind,
        transform=ax.transAxes,
        ha="right",
        va="bottom",
        fontsize=11,
        color="#444444",
        style="italic",
    )


def source_note(ax: Axes, words: str) -> None:
    """Small, grey, below the whole figure of ``ax``: where its numbers come from, what a hollow mark means."""
    ax.get_figure(root=True).supxlabel(  # type: ignore[union-attr]
        words, x=0.995, ha="right", fontsize=9.5, color=GREY, style="italic"
    )

"""What eight bits lose: outliers and their rotation, where the error sits, and the paper's table of errors."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from course_lib import data, plots
from course_lib.figures.records import label, rows
from course_lib.instruments import measure
from course_lib.instruments.peers import plain_attention
from course_lib.model import reference
from course_lib.model.quantize import FORMATS, eight_bit_attention, outliers, quantise, rotate, signs
from course_lib.model.rounding import rounded_attention
from course_lib.show import style
from course_lib.show.tables import Table

ERRORS = "eight_bit_errors"
LENGTHS = (1024, 2048, 4096, 8192, 16_384)
SHADES = matplotlib.colormaps["Reds"].resampled(5)
BEFORE, BOTH = "fp8, one scale", "fp8, block scales and rotation"  # what the paper compares

# --- outliers ---


def outlier_size(ax: Axes, per: str) -> Axes:
    """On this machine: the error of ordinary numbers that share a scale with one outlier, over its size, in three formats."""
    torch.manual_seed(0)
    sizes, series = [1.0, 10.0, 100.0, 1e3, 1e4, 3e4, 1e5, 1e6], dict[str, list[float]]({form: [] for form in FORMATS})
    x = torch.randn(256, 64)
    others = torch.ones_like(x, dtype=torch.bool)
    others[17, 5] = False
    for size in sizes:
        x[17, 5] = size
        for form, errors in series.items():
            kept = quantise(x, form, per).restored
            errors.append(float((kept - x)[others].square().mean().sqrt()))
    words = "size of the outlier", "rms error of the others,\nwhose size is about 1", "this machine, now"
    return plots.lines(ax, sizes, series, *words, base=10)


def one_row(axes: Sequence[Axes], d: int, outlier: float, seed: int) -> str:
    """A row of d numbers with one outlier, before and after the rotation."""
    torch.manual_seed(seed)
    row = torch.randn(1, d)
    row[0, d // 3] = outlier
    return plots.row_bars(axes, row[0], rotate(row, signs(d, seed))[0])


class Scores(NamedTuple):
    """512 queries and 4,096 keys of the paper's inputs, their exact scores, and where two numbers beyond 5 meet."""

    q: torch.Tensor
    k: torch.Tensor
    exact: torch.Tensor
    meet: torch.Tensor

    def error(self, format: str, per: str, turn: bool) -> torch.Tensor:
        """What rounding Q and K to 8 bits adds to each score, if they are rotated first or not."""
        a, b = (quantise(rotate(x, signs(128)) if turn else x, format, per).restored for x in (self.q, self.k))
        return a @ b.T / math.sqrt(128) - self.exact


def scores() -> Scores:
    """The draw that the page speaks of."""
    q, k, _ = outliers(4096, 128, seed=1)
    q = q[:512]
    meet = ((q.abs() > 5).double() @ (k.abs() > 5).double().T) > 0
    return Scores(q, k, q @ k.T / math.sqrt(128), meet)


def score_errors() -> Table:
    """For int8 and e4m3 and four ways to scale: median, rms and largest error of a score."""
    drawn, found = scores(), []
    ways = (("one scale", "tensor"), ("block scales", "block"), ("row scales", "row"), ("one scale, rotated", "tensor"))
    for form in ("int8", "e4m3"):
        for words, per in ways:
            error = drawn.error(form, per, "rotated" in words).abs()
            found.append(
                [form, words, *(f"{y:.3f}" for y in (error.median(), error.square().mean().sqrt(), error.max()))]
            )
    return Table(["format", "scales", "median error of a score", "rms", "largest"], found)


@style.drawn(
    size=(12, 4.3),
    axes=(1, 3),
    alt="three maps of scores, queries by keys, shaded by size and by error, with circles where two outliers meet",
)
def meeting_points(axes: Sequence[Axes]) -> None:
    """64 × 64 scores, and the error of each in e4m3, as the inputs are and rotated, with circles where two outliers meet."""
    drawn, part = scores(), (slice(0, 64), slice(1088, 1152))
    maps = (
        ("scores: large where outliers meet", drawn.exact.abs(), 10.0, "size of a score"),
        (
            "errors in e4m3: largest at two of these",
            drawn.error("e4m3", "tensor", False).abs(),
            0.5,
            "error of a score",
        ),
        ("rotated first: no longer there", drawn.error("e4m3", "tensor", True).abs(), 0.5, "error of a score"),
    )
    for ax, (title, values, most, words) in zip(axes, maps, strict=True):
        image = ax.imshow(values[part], cmap=SHADES, vmin=0, vmax=most, interpolation="nearest")
        for y, x in drawn.meet[part].nonzero().tolist():
            ax.add_patch(Circle((x, y), 3, fill=False, ec=style.BLUE, lw=1.8, clip_on=False))
        ax.set_title(title, loc="left", fontsize=12)
        ax.set(xlabel="64 keys", xticks=[], yticks=[])
        ax.grid(False)
        bar = ax.figure.colorbar(
            image, ax=ax, orientation="horizontal", shrink=0.8, pad=0.02, ticks=[0, 0.4 * most, most]
        )
        bar.ax.set_xticklabels(["0", f"{0.4 * most:g}", f"{most:g} or more"], fontsize=10.5)
        bar.set_label(words, fontsize=11)
    axes[0].set_ylabel("64 queries")
    style.source_note(axes[0], "○ two numbers beyond 5 meet; this machine, now")


def where_they_meet() -> Table:
    """The rms error of scores in which two outliers meet, and of all others, and the worst factor on a weight."""
    drawn, found = scores(), []
    for words, turn in (("as they are", False), ("rotated", True)):
        error = drawn.error("e4m3", "tensor", turn)
        there, elsewhere = (float(error[part].square().mean().sqrt()) for part in (drawn.meet, ~drawn.meet))
        found.append([words, f"{there:.2f}", f"{elsewhere:.3f}", f"{math.exp(float(error.abs().max())):.1f}"])
    return Table(["e4m3, one scale", "rms error where they meet", "elsewhere", "worst factor on a weight"], found)


# --- the paper's errors ---


class Erred(NamedTuple):
    """One draw on an H200: the rms error of O by a way to 8 bits, and the share of it in the worst hundredth of the rows."""

    way: str
    n: int
    rms_error: float
    worst: float


def errors(way: str, n: int) -> list[float]:
    """The rms errors of the draws of one way at one length."""
    return [row.rms_error for row in rows(Erred, ERRORS) if (row.way, row.n) == (way, n)]


def rms(found: Sequence[float]) -> float:
    """The root mean square of several rms errors."""
    return math.sqrt(sum(e * e for e in found) / len(found))


def gain(n: int) -> float:
    """By what factor block scales and rotation lower the error of one scale at length n, on an H200."""
    return rms(errors(BEFORE, n)) / rms(errors(BOTH, n))


def worst_rows(way: str, n: int) -> float:
    """The mean share of the squared error that the worst hundredth of the rows holds."""
    shares = [row.worst for row in rows(Erred, ERRORS) if (row.way, row.n) == (way, n)]
    return sum(shares) / len(shares)


def error_over_length(ax: Axes, ways: str) -> Axes:
    """Recorded on an H200: the error of four ways to 8 bits and of our kernel over N; ``ways`` 'all', 'rotated' or 'not rotated'."""
    names = {
        "one scale": BEFORE,
        "block scales": "fp8, block scales",
        "one scale and rotation": "fp8, one scale and rotation",
        "block scales and rotation": BOTH,
        "our kernel": "kernel",
    }
    rotated = ("one scale and rotation", "block scales and rotation", "our kernel")
    shown = {
        words: {n: errors(name, n) for n in LENGTHS}
        for words, name in names.items()
        if ways == "all" or (words in rotated) == (ways == "rotated")
    }
    return plots.error_ranges(ax, shown, "rms error of O", label(ERRORS))


def output_sizes() -> Table:
    """The rms of O itself, four draws of 128 queries on this machine, for the shortest and the longest rows."""
    found = []
    for n in (LENGTHS[0], LENGTHS[-1]):
        draws = [outliers(n, 128, seed=seed) for seed in range(4)]
        squares = [float(reference.attention(q[:128], k, v).square().mean()) for q, k, v in draws]
        found.append([n, f"{math.sqrt(sum(squares) / len(squares)):.2f}"])
    return Table(["N", "rms of O"], found)


def paper_table() -> Table:
    """The error table of FlashAttention-3's paper beside one draw on this machine and eight on an H200, at 8,192 keys."""
    q, k, v = outliers(8192, 128, seed=0)
    exact = reference.attention(q[:512], k, v)
    q, k, v = q[:512].float(), k.float(), v.float()
    options: dict[str, dict[str, Any]] = {
        BEFORE: {"per": "tensor"},
        BOTH: {"sign": signs(128)},
        "fp8, one scale and rotation": {"per": "tensor", "sign": signs(128)},
        "fp8, block scales": {},
    }
    here = {
        way: measure.rms_error(eight_bit_attention(q, k, v, block=128, **how), exact)
        for way, how in measure.progress(options.items(), "four ways to 8 bits")
    }
    here["fp16, plain"] = measure.rms_error(plain_attention(q.half(), k.half(), v.half()), exact)
    flash = rounded_attention(q, k, v, inputs="fp16", weights="fp16").half()
    here["fp16, flash"] = measure.rms_error(flash, exact)
    found = []
    for row in data.reported("eight_bit_error"):
        way, paper, h200 = row["way"], row["rms_error"], rms(errors(row["way"], 8192))
        found.append([way, f"{paper:.1e}", f"{here[way]:.1e}", f"{h200:.2e}", f"{h200 / paper:.2f}"])
    found.append(["our kernel, block scales and rotation", "", "", f"{rms(errors('kernel', 8192)):.2e}", ""])
    return Table(["way", "paper", "here, one draw", "H200, 8 draws", "H200 ÷ paper"], found)


def rotation_helps() -> list[tuple[str, bool]]:
    """For each length the gain, and whether it is 2.6 at least, 15 % off allowed: a larger gain is for the claim, not against it."""
    return [(f"H200, 8 draws, N = {n:,}: {gain(n):.2f} times", gain(n) > 2.6 / 1.15) for n in LENGTHS]


TRIED: dict[str, dict[str, Any]] = {
    "one scale": {"per": "tensor"},
    "block scales": {},
    "row scales": {"per": "row"},
    "one scale and rotation": {"per": "tensor", "sign": True},
    "block scales and rotation": {"sign": True},
}


class _Draw(NamedTuple):
    """Inputs in fp32, their exact output, and the rms error of 16 bits."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    exact: torch.Tensor
    sixteen: float


@functools.lru_cache(maxsize=1)
def _draws(rate: float, outlier: float, d: int) -> list[_Draw]:
    """What stays while the block and the format change."""
    found = []
    for seed in range(3):
        q, k, v = outliers(1024, d, rate, outlier, seed)
        exact = reference.attention(q[:128], k, v)
        q, k, v = q[:128].float(), k.float(), v.float()
        o = rounded_attention(q, k, v, inputs="fp16", weights="fp16")
        found.append(_Draw(q, k, v, exact, measure.rms_error(o, exact)))
    return found


def ablation(ax: Axes, rate: float, outlier: float, d: int, block: int, form: str) -> str:
    """On this machine: the error of O by five ways to 8 bits, three draws of 128 queries and 1,024 keys, fp16 as a dashed line."""
    squares, sixteen = dict.fromkeys(TRIED, 0.0), 0.0
    for q, k, v, exact, error in _draws(rate, outlier, d):
        for way, how in TRIED.items():
            options = how | ({"sign": signs(d)} if "sign" in how else {})
            o = eight_bit_attention(q, k, v, format=form, block=block, **options)
            squares[way] += measure.rms_error(o, exact) ** 2 / 3
        sixteen += error**2 / 3
    return plots.ways(ax, {way: math.sqrt(x) for way, x in squares.items()}, math.sqrt(sixteen), "this machine, now")

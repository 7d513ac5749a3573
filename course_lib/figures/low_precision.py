"""Lecture 12: outliers and their rotation, where the error sits, the paper's table, and eight bits on an H200."""

import functools
import math
from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any, NamedTuple

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from course_lib import checks, data, plots
from course_lib.figures.records import label, rows
from course_lib.instruments import measure
from course_lib.instruments.compiled import inspect_all
from course_lib.instruments.peers import plain_attention
from course_lib.kernels import eight_bit
from course_lib.model import reference
from course_lib.model.quantize import FORMATS, eight_bit_attention, outliers, quantise, rotate, signs
from course_lib.model.rounding import rounded_attention
from course_lib.show import style
from course_lib.show.tables import Table

SPEED, ERRORS, COUNTERS, SUMS, LONG = (
    f"eight_bit_{name}" for name in ("speed", "errors", "counters", "sums", "long_rows")
)
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


def meeting_points() -> style.Picture:
    """64 × 64 scores, and the error of each in e4m3, as the inputs are and rotated, with circles where two outliers meet."""
    return style.picture(
        _meeting_points,
        axes=(1, 3),
        size=(12, 4.3),
        alt="three maps of scores, queries by keys, shaded by size and by error, with circles where two outliers meet",
    )


def _meeting_points(axes: Sequence[Axes]) -> None:
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
    checks.one_of("ways", ways, ["all", "rotated", "not rotated"])
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


# --- the kernel ---


def registers_of_p() -> Table:
    """Compiled here: what exchanges and byte shuffles the order of V's keys costs or saves."""
    x = torch.empty(1, 16, 4096, 128, dtype=torch.bfloat16, device="meta")
    kernels: dict[str, dict[str, Any]] = {
        "Triton, keys in order": {"kernel": "Triton", "permuted": False},
        "Triton, permuted": {"kernel": "Triton"},
        "Hopper (Gluon), permuted": {"kernel": "Hopper"},
    }
    reports = inspect_all([(eight_bit.attention, (x, x, x), options) for options in kernels.values()])
    names = ("shfl", "prmt", "ex2")
    found = [
        [name, *(code.count(word) for word in names), code.wgmma, code.registers, code.spilled_bytes]
        for name, code in zip(kernels, reports, strict=True)
    ]
    return Table(["compiled here for sm_90", *names, "wgmma", "registers", "spilled bytes"], found)


class Timed(NamedTuple):
    """A kernel at one shape: TFLOP/s as the papers count, and seconds."""

    algorithm: str
    d: int
    causal: bool
    n: int
    tflops: float
    seconds: float


def rate(algorithm: str, d: int, causal: bool, n: int) -> float:
    """The recorded TFLOP/s of a kernel in the run of 8 bits."""
    return next(r.tflops for r in rows(Timed, SPEED) if (r.algorithm, r.d, r.causal, r.n) == (algorithm, d, causal, n))


def speed(ax: Axes, d: int, mask: str) -> Axes:
    """Recorded: TFLOP/s over N of attention() in bf16 and of three ways to attention in 8 bits; ``mask`` 'none' or 'causal'."""
    causal = checks.one_of("mask", mask, ["none", "causal"]) == "causal"
    names = {"attention(), bf16": "attention()", "8 bits": "8 bits", "from 16 bits": "8 bits, from 16 bits"}
    names["Triton in 8 bits"] = "8 bits, Triton"
    series = {words: [rate(name, d, causal, n) for n in LENGTHS] for words, name in names.items()}
    return plots.lines(ax, LENGTHS, series, "N, queries and keys", "TFLOP/s", label(SPEED), log=False)


def ratios(name: str, other: str, d: int) -> list[float]:
    """Rate ÷ rate from N = 4,096 on, with and without a causal mask."""
    return [rate(name, d, c, n) / rate(other, d, c, n) for c in (False, True) for n in LENGTHS[2:]]


def speed_ratios() -> Table:
    """Geometric mean, least and most of four ratios of rates, for both head sizes."""
    pairs = (
        ("8 bits", "attention()"),
        ("8 bits", "cuDNN"),
        ("8 bits, from 16 bits", "attention()"),
        ("8 bits, Triton", "8 bits, Triton, keys in order"),
    )
    found = []
    for d in (128, 64):
        for a, b in pairs:
            r = ratios(a, b, d)
            other = f"{b}, bf16" if b in ("attention()", "cuDNN") else b
            found.append([f"{a} ÷ {other}", d, *(f"{x:.2f}" for x in (geometric_mean(r), min(r), max(r)))])
    return Table(["TFLOP/s, N from 4,096 on", "d", "geometric mean", "least", "most"], found)


class Counted(NamedTuple):
    """What the profiler counted in one kernel, 32 heads of 8,192 × 128: busy shares, instructions of all warps, the clock."""

    algorithm: str
    heads: int
    n: int
    seconds: float
    clock_ghz: float
    instructions: int
    tensor_cores: float
    special_functions: float
    issue_slots: float

    @property
    def cycles(self) -> float:
        """Cycles that 64 × 128 scores took on one SM: those of their matmuls over the tensor cores' share."""
        return (1024 if self.algorithm == "attention()" else 512) / self.tensor_cores

    @property
    def issued(self) -> float:
        """Instructions that each of an SM's four schedulers issued for 64 × 128 scores."""
        return self.instructions / (self.heads * self.n**2 / (64 * 128)) / 4


def counted(algorithm: str) -> Counted:
    """The recorded row of 'attention()', '8 bits' or '8 bits, Triton'."""
    return next(row for row in rows(Counted, COUNTERS) if row.algorithm == algorithm)


def block_cycles() -> Table:
    """What 64 × 128 scores took in two kernels, in cycles and in instructions, and the whole call in time."""
    found = []
    for name, words in (("attention()", "16 bits, attention()"), ("8 bits", "8 bits")):
        c = counted(name)
        found.append([words, f"{c.cycles:,.0f}", f"{c.issued:.0f}", f"{c.seconds * 1e3:.2f}", f"{c.clock_ghz:.2f}"])
    return Table(["64 × 128 scores", "cycles", "instructions per scheduler", "whole call, ms", "GHz"], found)


def busy_units() -> style.Picture:
    """The share of its peak that each unit of an SM reaches in 16 and in 8 bits."""
    return style.picture(
        _busy_units,
        size=(9.5, 3.6),
        alt="share of the peak as bars, a group for each unit, a bar for each of two kernels",
    )


def _busy_units(ax: Axes) -> None:
    units = {
        "tensor cores": "tensor_cores",
        "special function units": "special_functions",
        "issue slots": "issue_slots",
    }
    shares = {name: [getattr(counted(name), key) for key in units.values()] for name in ("attention()", "8 bits")}
    plots.share_bars(ax, list(units), shares, label(COUNTERS))


def waits() -> Table:
    """What warps waited for, by Nsight Compute's names: the three most frequent reasons of each kernel, memory, and wgmma."""
    found = []
    for row in data.measured("nvidia-h200", COUNTERS).rows:
        shares = {key[6:]: value for key, value in row.items() if key.startswith("warps_") and key != "warps_selected"}
        whole = sum(shares.values()) + row["warps_selected"]
        most = sorted(shares, key=lambda key: -shares[key])[:3]
        most += [reason for reason in ("long_scoreboard", "gmma") if reason not in most]
        found.append([row["algorithm"], ", ".join(f"{key} {shares[key] / whole:.0%}" for key in most)])
    return Table(["kernel", "warps wait for"], found)


# --- sums ---


class LongRow(NamedTuple):
    """O ÷ 0.875 for n equal weights, by what sums over the keys."""

    accumulator: str
    n: int
    ratio: float


def long_row(accumulator: str, n: int) -> float:
    """The recorded ratio of 'Hopper, fp32', 'Triton, fp32' or 'Triton, tensor cores'."""
    return next(row.ratio for row in rows(LongRow, LONG) if (row.accumulator, row.n) == (accumulator, n))


def kept(ax: Axes, products: str) -> Axes:
    """Recorded: the share of small products that is in a sum with a large one; ``products`` 'both', 'e4m3' or 'bf16'."""
    forms = ("e4m3", "bf16") if checks.one_of("products", products, ["both", "e4m3", "bf16"]) == "both" else (products,)
    recorded = data.measured("nvidia-h200", SUMS).rows
    shares = {f: {row["power"]: row["kept"] for row in recorded if row["format"] == f} for f in forms}
    return plots.kept(ax, shares, label(SUMS))


# --- beside FlashAttention-3 ---


def ablation_of_fa3() -> Table:
    """What specialised warps and overlap bring in FlashAttention-3's paper and in our kernels, 16 bits, d = 128, no mask."""
    paper = {row["kernel"]: row["tflops"] for row in data.reported("fa3_ablation")}
    ladder = {
        row.algorithm: row.tflops
        for row in rows(Timed, "forward_ladder")
        if (row.d, row.causal, row.n) == (128, False, 8192)
    }
    both, alone = paper["both"], paper["specialised, no overlap"]
    found = [
        ["both", f"{both:g}", f"{ladder['overlap']:.0f}"],
        ["specialised warps, no overlap within a warpgroup", f"{alone:g}", f"{ladder['specialised']:.0f}"],
        ["overlap, no specialised warps", f"{paper['overlap, not specialised']:g}", ""],
        ["that overlap gains", f"{both / alone:.2f}×", f"{ladder['overlap'] / ladder['specialised']:.2f}×"],
    ]
    return Table(["TFLOP/s", "FlashAttention-3, H100, N = 8,448", "ours, H200, N = 8,192"], found)

"""Lecture 09: three formats on one line, the error of each stage, the 0.002 of a source, and error over time on an H200."""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import torch
from matplotlib.axes import Axes

from course_lib import data, plots, runtime
from course_lib.figures.records import label, rows
from course_lib.instruments import measure
from course_lib.kernels.online import flash_online
from course_lib.model import reference
from course_lib.model.formats import FORMATS, step_at
from course_lib.model.rounding import rounded_attention
from course_lib.show import style
from course_lib.show.tables import Table

ON_A_LINE = ("fp16", "bf16", "e4m3")
WINDOWS = ((1.0, 0.9842, 1.0166), (256.0, 251.9, 260.3), (65_504.0, 64_480.0, 66_700.0))  # (what is written, from, to)
SHORT = ("tf32", "fp16", "bf16")


def numbers_between(low: float, high: float, name: str) -> list[float]:
    """The numbers of a format from low, above 0, to high."""
    found, x = [], math.ceil(low / step_at(low, name)) * step_at(low, name)
    while x <= min(high, FORMATS[name].largest):
        found.append(x)
        x += step_at(x, name)
    return found


@style.drawn(
    size=(12, 3.0),
    axes=(1, 3),
    alt="three stretches of the number line, and on each a row of dots for each of three formats",
)
def number_lines(axes: Sequence[Axes]) -> None:
    """The numbers of fp16, bf16 and e4m3 as dots on one line, near 1, near 256 and where fp16 ends."""
    for ax, (at, low, high) in zip(axes, WINDOWS, strict=True):
        for y, name in enumerate(reversed(ON_A_LINE)):
            xs, ends = numbers_between(low, high, name), FORMATS[name].largest
            if ends > low:
                ax.plot([low, min(ends, high)], [y, y], color="#DDDDDD", lw=1, zorder=1)
            ax.plot(xs, [y] * len(xs), "o", ms=3.4, color=style.colour(name), zorder=2)
            step = step_at(at, name)
            words = f"step {step:g}" if step >= 1 else f"step 1/{1 / step:,.0f}"
            words = f"ends at {ends:,.0f}" if ends <= at else words
            ax.text(low, y + 0.22, f"{name}: {words}", fontsize=11, color=style.BLACK)
        ax.set(xlim=(low - 0.03 * (high - low), high + 0.03 * (high - low)), ylim=(-0.5, 2.75), yticks=[])
        ax.set_xticks([at], [f"{at:,.0f}"])
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        ax.grid(False)
    axes[0].set_title("The same sixteen bits: fp16 is denser, bf16 goes on", loc="left", fontsize=12.5, weight="bold")
    style.source_note(axes[0], "model; steps at the marked number")


def stage_errors(ax: Axes, short: str, scale: float) -> Axes:
    """The error of attention over N, on this machine, when one stage alone is rounded to the format ``short``; Q times ``scale``."""
    torch.manual_seed(0)
    lengths, series = [64, 256, 1024, 4096], dict[str, list[float]](inputs=[], scores=[], weights=[], accumulator=[])
    for n in lengths:
        q, k, v = torch.randn(64, 64) * scale, torch.randn(n, 64), torch.randn(n, 64)
        exact = reference.attention(q, k, v)
        size = float(exact.square().mean().sqrt())
        for stage, found in series.items():
            o = rounded_attention(q, k, v, **{stage: short})  # type: ignore[arg-type]
            found.append(measure.rms_error(o, exact) / size)
    half = FORMATS[short].epsilon / 2
    ax.axhline(half, color=style.GREY, ls="--", lw=1.4, label="half a step at 1")
    return plots.stage_lines(ax, lengths, series, "rms error ÷ rms of the output")


class OneHead(NamedTuple):
    """The largest error of a version for one head of n tokens, d = 64, in a number format."""

    n: int
    dtype: str
    algorithm: str
    max_error: float


def largest_error(algorithm: str, n: int) -> float:
    """The recorded largest error of 'online' or 'online, tf32' on an H200, given fp32."""
    return next(
        row.max_error
        for row in rows(OneHead, "attention_one_head")
        if (row.algorithm, row.n, row.dtype) == (algorithm, n, "float32")
    )


def errors_by_length() -> Table:
    """Largest errors of Online in fp32: as a source reports them, of the kernel here, and on an H200 in IEEE fp32 and TF32."""
    found = []
    for n, reported in _reported():
        torch.manual_seed(0)
        q, k, v = (torch.randn(n, 64, device=runtime.device()) for _ in range(3))
        here = measure.max_error(flash_online(q, k, v), reference.attention(q, k, v))
        ieee, tf32 = (largest_error(algorithm, n) for algorithm in ("online", "online, tf32"))
        found.append([n, f"{reported:.3f}", f"{here:.0e}", f"{ieee:.0e}", f"{tf32:.4f}"])
    return Table(["N", "reported", "here", "H200, IEEE fp32", "H200, TF32"], found)


def _reported() -> list[tuple[int, float]]:
    return [(int(row["n"]), float(row["online"])) for row in data.reported("attention_error")]


def draws() -> Table:
    """Median and range of the largest error in 21 draws, tf32 by rounding and by cutting, beside the H200's one draw."""
    found = []
    for n, reported in measure.progress(_reported(), "N"):
        both = [sorted(errors) for errors in zip(*(_draw(n, seed) for seed in range(21)), strict=True)]
        words = [f"{median(e):.4f} ({e[0]:.4f} … {e[-1]:.4f})" for e in both]
        ratio = f"{median(both[1]) / median(both[0]):.1f}"
        found.append([n, *words, ratio, f"{largest_error('online, tf32', n):.4f}", f"{reported:.3f}"])
    return Table(["N", "rounded, here", "cut off, here", "cut ÷ rounded", "H200, TF32", "reported"], found)


def _draw(n: int, seed: int) -> tuple[float, float]:
    """The largest error of one draw, rounded and cut off."""
    torch.manual_seed(seed)
    q, k, v = (torch.randn(n, 64) for _ in range(3))
    exact = reference.attention(q, k, v)
    rounding, cutting = (
        rounded_attention(q, k, v, inputs="tf32", weights="tf32", toward_zero=cut) for cut in (False, True)
    )
    return measure.max_error(rounding, exact), measure.max_error(cutting, exact)


class ByFormat(NamedTuple):
    """One head of 16,384 × 64 on an H200; the error of the kernel and that of rounding its inputs, both rms."""

    algorithm: str
    format: str
    scale: float
    seconds: float
    rms_error: float
    input_rms_error: float

    @property
    def error(self) -> float:
        """Of both together, as squares added: against fp32 inputs."""
        return math.hypot(self.rms_error, self.input_rms_error)


def by_format(algorithm: str, format: str, scale: float = 1.0) -> ByFormat:
    """The recorded run of 'online' or 'standard' in a format, with Q times 1 or 10."""
    return next(
        row
        for row in rows(ByFormat, "number_formats")
        if (row.algorithm, row.format, row.scale) == (algorithm, format, scale)
    )


def error_over_time(ax: Axes, scale: str) -> Axes:
    """For each format a filled mark for Online and a hollow one for plain PyTorch: milliseconds and rms error, Q times 1 or 10."""
    factor = float(scale)
    for name, run in _runs(factor):
        hollow = run.algorithm == "standard"
        shade = style.colour(name)
        ax.plot(run.seconds * 1e3, run.error, "o", ms=11, mec=shade, mfc="white" if hollow else shade, mew=2.2)
        ax.text(run.seconds * 1e3 * 1.09, run.error, name, va="center", fontsize=12)
    for words, face in (("Online", style.GREY), ("plain PyTorch", "white")):
        ax.plot([], [], "o", ms=11, mec=style.GREY, mfc=face, mew=2.2, label=words)
    ax.legend(loc="lower left")
    ax.set(xscale="log", yscale="log", xlim=(0.15, 11), xlabel="milliseconds", ylabel="rms error against fp32 inputs")
    ax.set_xticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
    ax.minorticks_off()
    ax.margins(y=0.15)
    style.source_note(ax, f"one head of 16,384 × 64, {label('number_formats')}")
    return ax


def _runs(scale: float) -> Iterator[tuple[str, ByFormat]]:
    for algorithm in ("online", "standard"):
        for name in ("fp32", *SHORT):
            yield name, by_format(algorithm, name, scale)


class Chain(NamedTuple):
    """What a chain of instructions on an H200 shows of a place: bytes a cycle, or cycles for one answer."""

    place: str
    what: str
    value: float


def chained(what: str, place: str) -> float:
    """The recorded 'bytes a cycle' or 'cycles for one answer' of 'registers' or 'shared memory'."""
    return next(row.value for row in rows(Chain, "registers") if (row.what, row.place) == (what, place))


def registers_and_shared_memory() -> Table:
    """What multiply-adds on registers and loads from shared memory reach on an H200, and the ratio."""
    found = []
    for what in ("bytes a cycle", "cycles for one answer"):
        a, b = chained(what, "registers"), chained(what, "shared memory")
        found.append([what, f"{a:,.4g}", f"{b:.4g}", f"{max(a, b) / min(a, b):.1f}"])
    return Table([label("registers"), "multiply-add on registers", "load from shared memory", "ratio"], found)


def fp16_or_bf16() -> list[tuple[str, bool]]:
    """On an A100: by rate, range and precision, and whether each speaks for fp16."""
    rates = [data.gpu("A100-80").flops_per_s(name) / 1e12 for name in ("fp16", "bf16")]
    fp16, bf16 = FORMATS["fp16"], FORMATS["bf16"]
    return [
        ("peak rates of the A100: fp16 {:g}, bf16 {:g} TFLOP/s".format(*rates), rates[0] > rates[1]),
        (f"range: bf16 reaches {bf16.largest:.0e}, fp16 {fp16.largest:,.0f}", fp16.largest > bf16.largest),
        (
            f"precision: steps at 1 of 1/{1 / fp16.epsilon:.0f} (fp16) and 1/{1 / bf16.epsilon:.0f} (bf16)",
            fp16.epsilon < bf16.epsilon,
        ),
    ]


def error_is_0_002() -> list[tuple[str, bool]]:
    """For TF32 and IEEE fp32 the largest error at the source's lengths, and whether it is within four times of 0.002, 0.0005 to 0.008."""
    found = []
    for name, algorithm in (("TF32", "online, tf32"), ("IEEE", "online")):
        error = max(largest_error(algorithm, n) for n, _ in _reported())
        found.append((f"{name} on an H200: at most {error:.0e}", 0.0005 < error < 0.008))
    return found


def registers_are_faster() -> list[tuple[str, bool]]:
    """By bytes a cycle and by cycles for one answer the ratio of registers to shared memory, and whether it is about 100: 30 to 300."""
    found = []
    for what, assumed in (
        ("bytes a cycle", ", three registers for each multiply-add"),
        ("cycles for one answer", ""),
    ):
        a, b = chained(what, "registers"), chained(what, "shared memory")
        ratio = max(a, b) / min(a, b)
        found.append((f"H200, {what}{assumed}: {ratio:.0f} times", 30 < ratio < 300))
    return found

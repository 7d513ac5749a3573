"""The kernel in eight bits: what it compiles to, its speed on an H200, what its units do, and its sums."""

from statistics import geometric_mean
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes

from course_lib import data, plots
from course_lib.figures.low_precision.accuracy import LENGTHS
from course_lib.figures.records import label, rows
from course_lib.instruments.compiled import inspect_all
from course_lib.kernels import eight_bit
from course_lib.show import style
from course_lib.show.tables import Table

SPEED, COUNTERS, SUMS, LONG = "eight_bit_speed", "eight_bit_counters", "eight_bit_sums", "eight_bit_long_rows"


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
    causal = mask == "causal"
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
    """The cycles of an SM in which two kernels compute 64 × 128 scores."""
    found = []
    for name, words in (("attention()", "16 bits, attention()"), ("8 bits", "8 bits")):
        found.append([words, f"{counted(name).cycles:,.0f}"])
    return Table(["64 × 128 scores", "cycles"], found)


@style.drawn(size=(9.5, 3.6), alt="share of the peak as bars, a group for each unit, a bar for each of two kernels")
def busy_units(ax: Axes) -> None:
    """The share of its peak that each unit of an SM reaches in 16 and in 8 bits."""
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
    forms = ("e4m3", "bf16") if products == "both" else (products,)
    recorded = data.measured("nvidia-h200", SUMS).rows
    shares = {f: {row["power"]: row["kept"] for row in recorded if row["format"] == f} for f in forms}
    return plots.kept(ax, shares, label(SUMS))


# --- beside FlashAttention-3 ---


def ablation_of_fa3() -> Table:
    """What specialised warps and overlap bring in FlashAttention-3's paper and in our kernels, 16 bits, d = 128, no mask."""
    paper = {row["kernel"]: row["tflops"] for row in data.reported("fa3_ablation")}
    ladder = {
        row.algorithm: row.tflops
        for row in rows(Timed, "forward_ladder", "nvidia-h100")
        if (row.d, row.causal, row.n) == (128, False, 8192)
    }
    both, alone = paper["both"], paper["specialised, no overlap"]
    found = [
        ["both", f"{both:g}", f"{ladder['late wait']:.0f}"],
        ["specialised warps, no overlap within a warpgroup", f"{alone:g}", f"{ladder['specialised']:.0f}"],
        ["overlap, no specialised warps", f"{paper['overlap, not specialised']:g}", ""],
        ["that overlap gains", f"{both / alone:.2f}×", f"{ladder['late wait'] / ladder['specialised']:.2f}×"],
    ]
    return Table(["TFLOP/s", "FlashAttention-3, H100, N = 8,448", "ours, H100, N = 8,192"], found)

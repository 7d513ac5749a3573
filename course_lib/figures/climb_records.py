"""Lecture 11's records as typed rows, and what its page derives from them: rates, gains, counts, shares, noise."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from course_lib import data
from course_lib.figures.records import Pass, rows
from course_lib.kernels.hopper import RUNGS, best
from course_lib.model import pipeline

LADDER, BLOCKS, COUNTERS = "forward_ladder", "forward_blocks", "eight_bit_counters"
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)
GRID = [(d, causal, n) for d in (64, 128) for causal in (False, True) for n in LENGTHS[1:]]
SAVED = (
    34 * 4 * 4 / 4
)  # cycles a block of 64 × 64: exponentials per thread, instructions around each, warps, over 4 issued in a cycle


class Timed(NamedTuple):
    """A kernel at one shape: the median of its times and their quartiles in seconds, its rate in TFLOP/s."""

    algorithm: str
    d: int
    causal: bool
    n: int
    seconds: float
    quarter: float
    three_quarters: float
    tflops: float


class Counted(NamedTuple):
    """What the profiler counted: the tensor cores' busy share, the clock in GHz."""

    algorithm: str
    heads: int
    n: int
    d: int
    clock_ghz: float
    seconds: float
    tensor_cores: float


class Setting(NamedTuple):
    """A rung at one setting of the sweep: TFLOP/s, 0 where it does not fit an SM."""

    algorithm: str
    d: int
    causal: bool
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    tflops: float


class Shares(NamedTuple):
    """Factors of attention()'s share of the peak under the profiler: cycles with a matmul, the clock, what is left over."""

    busy: float
    clock: float
    rest: float


def timed(algorithm: str, d: int, causal: bool, n: int, gpu: str = "H200") -> Timed:
    """One kernel of the ladder, or one of its peers, as recorded on an 'H200' or an 'H100'."""
    return next(row for row in rows(Timed, LADDER, device(gpu)) if row[:4] == (algorithm, d, causal, n))


def device(gpu: str) -> str:
    """The folder of a GPU's recordings."""
    return f"nvidia-{gpu.lower()}"


def rate(algorithm: str, d: int = 128, causal: bool = False, n: int = 4096, gpu: str = "H200") -> float:
    """TFLOP/s of one kernel; a causal mask counts half the operations."""
    return timed(algorithm, d, causal, n, gpu).tflops


def gain(algorithm: str, over: str, d: int = 128, causal: bool = False, n: int = 4096, gpu: str = "H200") -> float:
    """How many times as fast one kernel is as another."""
    return rate(algorithm, d, causal, n, gpu) / rate(over, d, causal, n, gpu)


def swept(algorithm: str, d: int, causal: bool, *setting: int) -> float:
    """TFLOP/s of 'tuned', 'causal block skipping' or 'TMA' in the sweep at (queries, keys, warps, stages)."""
    return next(row.tflops for row in rows(Setting, BLOCKS) if row[:-1] == (algorithm, d, causal, *setting))


def gains(
    algorithm: str, over: str, d: int, *masks: bool, lengths: Sequence[int] = LENGTHS[1:], gpu: str = "H200"
) -> list[float]:
    """``gain`` at each of these lengths, without a mask, with one, or both."""
    return [gain(algorithm, over, d, causal, n, gpu) for causal in masks for n in lengths]


def cycles(
    algorithm: str, d: int, causal: bool = False, n: int = 4096, ghz: float | None = None, gpu: str = "H200"
) -> float:
    """Cycles of an SM for a block of 64 × 64 scores, at the GPU's highest clock or at ``ghz``."""
    sheet = data.gpu(gpu)
    seconds = 4 * 64 * 64 * d * sheet.sms / (rate(algorithm, d, causal, n, gpu) * 1e12)
    return seconds * (sheet.boost_mhz * 1e6 if ghz is None else ghz * 1e9)


@functools.cache
def noise(gpu: str = "H200") -> list[float]:
    """One kernel timed twice in one run, N from 1,024 on, second time over first: attention() launches a rung, *tuned* is *exp2* again."""
    # where attention() has the rung's tiles, too
    same = [cell for cell in GRID if best(*cell)[1] == best(cell[0], False, cell[2])[1]]
    twice = [gain("attention()", best(*cell)[0].name, *cell, gpu) for cell in same]
    return twice + [gain("tuned", "exp2", *cell, gpu) for cell in GRID]


def shares() -> Shares:
    """What attention()'s share of the peak is made of, as counted: 32 heads of 8,192, d = 128, no mask."""
    row, gpu = next(row for row in rows(Counted, COUNTERS) if row.algorithm == "attention()"), data.gpu("H200")
    peak = gpu.flops_per_s("bf16")
    clock = row.clock_ghz * 1e9 * gpu.sms * 4096 / peak
    share = 4 * row.heads * row.n**2 * row.d / row.seconds / peak
    return Shares(row.tensor_cores, clock, share / row.tensor_cores / clock)


def visited(n: int, block_m: int, block_n: int) -> float:
    """The share of blocks that a causal mask does not hide."""
    return sum((i + 1) * block_m // block_n for i in range(n // block_m)) / (n // block_m * (n // block_n))


def expected(name: str, d: int, causal: bool, n: int, gpu: str = "H200") -> float | None:
    """What the page's count gives for a rung, over the one before; None where there is no count."""
    if name == "exp2":
        visible = 0.5 if causal else 1.0  # Online visits hidden blocks, too
        now = cycles("Online", d, causal, n, gpu=gpu) * visible
        return now / (now - SAVED)
    if name == "causal block skipping" and causal:
        return 1 / visited(n, *RUNGS["causal block skipping"].blocks[d > 64])
    if name == "overlap" and d == 128:
        spans, first_fetch = pipeline.simulate(6, 2, 3, load=2, qk=1, softmax=1, pv=1), 2
        units = max(span.end for span in spans)
        return units / (first_fetch + units * (1 - pipeline.idle_fraction(spans)))
    return None


def fa2_shares() -> dict[str, list[float]]:
    """FlashAttention-2's shares of the peak, which is that of both GPUs, at twelve shapes, in two runs."""
    peak = data.gpu("H200").flops_per_s("bf16") / 1e12
    shapes = [(d, causal, n) for d in (64, 128) for causal in (False, True) for n in (1024, 4096, 16_384)]
    passes = rows(Pass, "attention_beside_peers", "nvidia-h100")
    seventh = {row[3:6]: row.tflops for row in passes if row[:3] == ("FA2", "forward", "graphs")}
    return {
        "H200, run of this page": [rate("FA2", *shape) / peak for shape in shapes],
        "H100, run of lecture 07": [seventh[shape] / peak for shape in shapes],
    }


def fa2_at_its_best() -> list[tuple[str, bool]]:
    """For each run FlashAttention-2's best share of the peak, and whether it is about 35 %: 30 to 40."""
    return [
        (f"{run}: at its best {max(shares):.0%} of the peak", 0.3 < max(shares) < 0.4)
        for run, shares in fa2_shares().items()
    ]

"""Lecture 06: what each difference between FlashAttention and FlashAttention-2 could gain, and what it gains on an H200."""

from typing import NamedTuple

from course_lib import data
from course_lib.figures.records import rows
from course_lib.model import cost
from course_lib.model.cost import Traffic
from course_lib.show.tables import Table

D, BLOCK = 64, 64  # of all recordings of this lecture
WARPS, MOST_WARPS = 4, 64  # of a program; of an SM
COUNTED = ((256, 1024), (64, 4096), (16, 16_384))  # (heads, N) of which the profiler counted the bytes
LADDER = ("V1", "V1, parallel", "running", "V2")  # each with one change more than the one before


class Timed(NamedTuple):
    """A kernel's time, in seconds; num_stages 1 is without software pipelining, 0 a kernel that has none to choose."""

    algorithm: str
    heads: int
    n: int
    num_stages: int
    seconds: float


class Counted(NamedTuple):
    """What the profiler counted in one kernel: bytes at each level of the memory, and the share of an SM's warps at work."""

    algorithm: str
    heads: int
    n: int
    num_stages: int
    kernel: str
    seconds: float
    occupancy: float
    l1_read: int
    sm_read: int
    l2_read: int
    l2_write: int
    dram_read: int
    dram_write: int

    @property
    def on_chip(self) -> int:
        """Bytes between L2 and the SMs, both ways."""
        return self.sm_read + self.l2_write


def seconds(algorithm: str, heads: int, n: int, num_stages: int | None = None) -> float:
    """The recorded time of a version at one shape; without ``num_stages`` that of its fastest setting."""
    return min(
        run.seconds
        for run in rows(Timed, "loop_orders")
        if (run.algorithm, run.heads, run.n) == (algorithm, heads, n) and num_stages in (None, run.num_stages)
    )


def shapes() -> list[tuple[int, int]]:
    """(heads, N) of all recordings."""
    return sorted({(run.heads, run.n) for run in rows(Timed, "loop_orders")})


def counted(algorithm: str, heads: int, n: int, num_stages: int) -> Counted:
    """What was counted in the attention kernel of a version, without the launches that fill and convert its tensors."""
    kernel = f"{algorithm.partition(',')[0].lower()}_kernel"
    return next(
        row
        for row in rows(Counted, "loop_orders_counters")
        if (row.algorithm, row.heads, row.n, row.num_stages, row.kernel) == (algorithm, heads, n, num_stages, kernel)
    )


def resident(algorithm: str, heads: int, n: int, num_stages: int) -> int:
    """Resident programs per SM, as counted: warps at work, four to a program."""
    return round(counted(algorithm, heads, n, num_stages).occupancy * MOST_WARPS / WARPS)


def counts(algorithm: str, heads: int, n: int) -> Traffic:
    """What the formula counts for V1, V1, parallel, or V2 in the recorded setting: blocks of 64, fp16."""
    if algorithm == "V2":
        return cost.flash_v2_traffic(n, D, BLOCK, "fp16", lse=True).times(heads)
    split = n // BLOCK if "parallel" in algorithm else 1
    return cost.flash_v1_traffic(n, D, BLOCK, "fp16", block_m=BLOCK, split=split).times(heads)


class Gain(NamedTuple):
    """The factor by which a step may speed up at most, by a count, and by which it does."""

    bound: float
    measured: float


def gains(heads: int, n: int, num_stages: int | None = 1) -> list[Gain]:
    """The three steps from V1 to V2 at one shape: what seats, bytes and cycles allow at most, and what the clock shows.

    All kernels with ``num_stages``; None takes the fastest setting of each.
    """
    taken = min(data.gpu("H200").sms * resident("V1, parallel", 16, 16_384, 1), heads * n // BLOCK)
    pair = cost.flash_v1_traffic(BLOCK, D, BLOCK, "fp16", block_m=BLOCK).total_bytes
    streamed = 2 * BLOCK * D * cost.element_bytes("fp16")  # K and V of a pair
    bounds = (taken / heads, pair / streamed, sum(cycles("running", n)) / sum(cycles("V2", n)))
    times = [seconds(name, heads, n, num_stages) for name in LADDER]
    return [Gain(bound, times[i] / times[i + 1]) for i, bound in enumerate(bounds)]


class Cycles(NamedTuple):
    """Cycles of an SM of an H200, if nothing overlaps, at its rates of operations a cycle (data sheet; CUDA programming guide)."""

    matmuls: float  # 4,096
    exponentials: float  # 16
    divisions: float  # 16
    multiplications: float  # 128


def cycles(order: str, n: int) -> Cycles:
    """What a pair of blocks of one head of n tokens costs in 'V1', 'running' or 'V2', on average."""
    work, pairs = cost.attention_operations(order, n, D, BLOCK, BLOCK), (n // BLOCK) ** 2
    per_cycle = ((4 * n * n * D, 4096), (work.exp, 16), (work.divide, 16), (work.rescale, 128))
    return Cycles(*(amount / rate / pairs for amount, rate in per_cycle))


def pair_cycles() -> Table:
    """What a pair of blocks costs in each form, in cycles of an SM: matmuls, exponentials, divisions and multiplications."""
    found = {order: cycles(order, 16_384) for order in cost.ORDERS}
    rows = [[order, *(f"{x:.0f}" for x in (*c, sum(c)))] for order, c in found.items()]
    return Table(["cycles for a pair of blocks", "matmuls", "exponentials", "divisions", "rescaling", "in all"], rows)


class Split(NamedTuple):
    """V2 at one shape: seats that its programs take with one per head and with one per block of queries, and what that gains."""

    heads: int
    n: int
    taken: int
    expected: float
    measured: float


def splits() -> list[Split]:
    """What splitting V2's queries gains at four shapes, by counting seats and by the clock."""
    total, found = data.gpu("H200").sms * resident("V2", 16, 16_384, 3), []
    for heads, n in ((1, 16_384), (16, 16_384), (64, 4096), (256, 1024)):
        taken = min(total, heads * n // BLOCK)
        gain = seconds("V2, one per head", heads, n, 3) / seconds("V2", heads, n, 3)
        found.append(Split(heads, n, taken, taken / heads, gain))
    return found


def seat_gains() -> Table:
    """``splits`` as a table."""
    cells = [
        [
            f"{s.heads} × {s.n:,}",
            f"{s.heads} → {s.taken}",
            f"{s.expected:.3g}×",
            f"{s.measured:.3g}×",
            f"{s.measured / s.expected:.2f}",
        ]
        for s in splits()
    ]
    return Table(["heads × N", "seats taken", "expected", "measured", "measured ÷ expected"], cells)


def splitting_pays() -> list[tuple[str, bool]]:
    """For each shape with fewer heads than SMs what splitting V2's queries gains, and whether that is a gain: 1.2 times or more."""
    return [
        (f"V2, {s.heads} × {s.n:,}: {s.measured:.2f} times as fast when split", s.measured >= 1.2)
        for s in splits()
        if s.heads < data.gpu("H200").sms
    ]


def largest_steps() -> list[tuple[str, bool]]:
    """For each of six shapes the gains of the three steps, and whether that of the second, O on the chip, is the largest."""
    found = []
    for heads, n in shapes():
        steps = [gain.measured for gain in gains(heads, n, num_stages=None)]
        words = "parallelism {:.2f}×, residency {:.2f}×, normalisation {:.2f}×".format(*steps)
        found.append((f"{heads} × {n:,}: {words}", max(steps) == steps[1]))
    return found


def four_counts() -> Table:
    """Gigabytes that V2 reads, at each place where the profiler counts, beside the formula, at three shapes."""
    found = []
    for heads, n in COUNTED:
        seen = counted("V2", heads, n, 3)
        once = cost.compulsory_traffic(n, D, "fp16").times(heads).read_bytes
        places = (counts("V2", heads, n).read_bytes, seen.l1_read, seen.sm_read, seen.l2_read, seen.dram_read, once)
        found.append([f"{heads} × {n:,}", *(f"{x / 1e9:.3g}" for x in places)])
    return Table(
        [
            "GB read by V2, heads × N", "formula", "asked of L1", "into the SMs", "looked up in L2", "DRAM", "each byte once",
        ],
        found,
    )  # fmt: skip

"""Lecture 08: what a step of decoding reads, how its keys are split among programs, what that takes on an H200, and claims of others."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from course_lib import data
from course_lib.figures.boxes import HEAD, PALE, WORDS, arrow, blank, box
from course_lib.figures.records import H200, label, rows
from course_lib.kernels.decoding import SHORTEST, choose_splits, wave_efficiency
from course_lib.model.decoding import cache_bytes, decode_traffic
from course_lib.show import style
from course_lib.show.tables import Table

LAYERS, HEADS, HEADS_K, D = 32, 32, 8, 128  # the model of the page
WEIGHTS = 8e9 * 2  # bytes of its 8 billion parameters in bf16
PIECES = 16  # splits of the picture
SHAPES = ((1, 8192), (1, 131_072), (16, 8192), (64, 4096))  # batch and keys


def step_time(ax: Axes, batch: int, heads_k: int, gpu: str) -> str:
    """Draw the least time of a step over the sequences' length: weights once, and every cache. Says what it comes to at 131,072."""
    speed, room = data.gpu(gpu).hbm_bytes_per_s, data.gpu(gpu).hbm_gb * 1e9
    lengths = [round(2 ** (p / 4)) for p in range(40, 69)]
    weights, caches = WEIGHTS / speed * 1e3, [_caches(batch, n, heads_k) / speed * 1e3 for n in lengths]
    tops = [weights + cache for cache in caches]
    ax.fill_between(lengths, 0, weights, color="#CFCFCF", lw=0)
    ax.fill_between(lengths, weights, tops, color=style.TENSOR["K"], alpha=0.55, lw=0)
    ax.plot(lengths, tops, color=style.BLACK)
    high = 1.12 * tops[-1]
    beside: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 11.5}
    ax.text(1.01, weights / 2, f"weights, {WEIGHTS / 1e9:.0f} GB", **beside)
    ax.text(1.01, max(weights + caches[-1] / 2, 0.1 * tops[-1]), "keys and values", **beside)
    if room / speed * 1e3 < high:
        ax.axhline(room / speed * 1e3, color=style.RED, ls="--", lw=1.4)
        ax.text(
            1100,
            room / speed * 1e3,
            f"all {room / 1e9:.0f} GB of the {gpu} ",
            va="bottom",
            color=style.RED,
            fontsize=11,
        )
    even = WEIGHTS / cache_bytes(batch, LAYERS, heads_k, D)
    if lengths[0] <= even <= lengths[-1]:
        ax.plot([even], [2 * weights], "D", mfc="white", mec=style.BLACK, ms=9, zorder=4)
        if even > 6000:
            ax.annotate(
                "as much as\nthe weights",
                (even, 2 * weights),
                (-14, 10),
                textcoords="offset points",
                ha="right",
                fontsize=11,
            )
    ax.set(xscale="log", xlim=(lengths[0], lengths[-1]), ylim=(0, high))
    ax.set(xlabel="tokens of each sequence so far", ylabel="ms per step, at least")
    ticks = [2**p for p in range(10, 18)]
    ax.set_xticks(ticks, [f"{n // 1024}k" for n in ticks])
    ax.minorticks_off()
    ax.set_title("A long sequence weighs as much as the model", **HEAD)
    style.kind_label(ax, "model")
    end = WEIGHTS + _caches(batch, lengths[-1], heads_k)
    fits = "" if end <= room else f", more than the {gpu}'s memory holds"
    return (
        f"◇ The caches weigh as much as the weights at {even:,.0f} tokens. "
        f"At {lengths[-1]:,}: {cache_bytes(1, LAYERS, heads_k, D) / 1024:.0f} KiB a token, {style.bytes_text(end)} a step{fits}; "
        f"at most {batch * speed / end:,.0f} tokens a second for the batch."
    )


def _caches(batch: int, n: int, heads_k: int) -> float:
    return batch * cache_bytes(n, LAYERS, heads_k, D)


@style.drawn(
    size=(11.5, 4.7),
    alt="on the left a tile with the queries of one group, in the middle a strip of keys and values for each head, cut into pieces, "
    "on the right a funnel from the pieces of one strip to a merge",
)
def key_splits(ax: Axes) -> None:
    """One token's query against a long sequence: each head of keys is cut into splits, a program each, whose results are merged."""
    left, wide, tall = 2.9, 5.6, 0.3
    shades = (style.BLUE, style.SKY, style.PURPLE, style.GREEN)
    ax.text(0.9, 4.52, "one token's queries", ha="center", fontsize=WORDS)
    ax.text(
        left + wide / 2,
        4.52,
        f"keys and values so far: {HEADS_K} heads, {PIECES} splits each",
        ha="center",
        fontsize=WORDS,
    )
    for head in range(HEADS_K):
        y, now = 4.05 - 0.47 * head, head == 0
        for row in range(4):
            ax.add_patch(Rectangle((0.3, y + 0.075 * (3 - row)), 1.2, 0.06, fc=shades[row] if now else "#D8D8D8", lw=0))
        for piece in range(PIECES):
            fill = style.TENSOR["K"] if now else "#F3DDAF"
            ax.add_patch(Rectangle((left + piece * wide / PIECES, y), 0.86 * wide / PIECES, tall, fc=fill, lw=0))
        ax.text(left - 0.12, y + tall / 2, f"head {head}", ha="right", va="center", fontsize=10)
    ax.text(1.6, 4.2, "4 heads,\none tile", va="center", fontsize=10)
    right = left + wide
    ax.add_patch(
        Polygon([(right, 4.42), (right + 0.75, 4.28), (right + 0.75, 4.12), (right, 3.98)], fc="#F3DDAF", lw=0)
    )
    box(ax, right + 0.8, 3.98, 1.1, 0.44, "merge", PALE["green"])
    arrow(ax, (right + 1.95, 4.2), (right + 2.35, 4.2))
    ax.text(right + 2.42, 4.2, "O", va="center", fontsize=14, weight="bold")
    ax.text(
        right + 0.3,
        3.3,
        f"each piece leaves\n$O_s$ and $L_s$ of its keys,\nfor {HEADS // HEADS_K} queries",
        va="top",
        fontsize=WORDS,
    )
    ax.text(
        right + 0.3,
        1.75,
        f"{HEADS_K} · {PIECES} = {HEADS_K * PIECES} programs\nfor 132 SMs",
        va="top",
        fontsize=WORDS,
        weight="bold",
    )
    blank(ax, 11.5, 0.6, 4.8)
    ax.set_title("One query's keys are enough work for a whole GPU, once they are cut", **HEAD)


def waves(axes: Sequence[Axes], batch: int, keys: int, splits: int, per_SM: int, gpu: str) -> str:
    """Draw how full the waves are over the number of splits, and those of ``splits`` in time; says how long the longest walk is."""
    places, programs = per_SM * data.gpu(gpu).sms, batch * HEADS_K
    best = choose_splits(programs, max(1, keys // SHORTEST), places)
    full, time = axes
    counts = range(1, 65)
    full.plot(counts, [100 * wave_efficiency(programs, s, places) for s in counts], "o", ms=4.5, color=style.BLUE)
    for s, look in (
        (best, {"mfc": style.ORANGE, "mec": style.ORANGE}),
        (splits, {"mfc": "none", "mec": style.BLACK, "mew": 2}),
    ):
        if s <= counts[-1]:
            full.plot(
                [s], [100 * wave_efficiency(programs, s, places)], "o", ms=11, zorder=4 if s == splits else 3, **look
            )
    full.set(xlim=(0, 65), ylim=(0, 112), xlabel="splits", ylabel="% of the seats taken")
    full.set_title(f"orange: the rule's choice, {best}; circle: yours", loc="left", fontsize=12)
    every = {s: -(-programs * s // places) * math.ceil(keys / s) for s in (1, splits, best)}
    count, each = -(-programs * splits // places), math.ceil(keys / splits)
    outlined = count < 40  # of more waves all but the last are one block
    ends = [*(range(1, count) if outlined else [count - 1]), count]
    for first, end in pairwise([0, *ends]):
        at, wide, running = first * each, (end - first) * each, min(places, programs * splits - first * places)
        time.add_patch(Rectangle((at, 0), wide, places, fc="white", ec=style.GREY, lw=1.2 if outlined else 0))
        time.add_patch(Rectangle((at, 0), wide, running, fc=style.BLUE, ec="white", lw=0.6 if outlined else 0))
    time.set(xlim=(0, 1.05 * max(every[splits], every[best])), ylim=(0, 1.04 * places))
    time.set(xlabel="time, in keys per seat", ylabel="seats")
    time.axvline(every[best], color=style.ORANGE, lw=2.5)
    late = every[best] > 0.6 * max(every[splits], every[best])
    time.annotate(
        f"end with the rule's {best}",
        (every[best], 0.6 * places),
        (-8 if late else 8, 0),
        textcoords="offset points",
        ha="right" if late else "left",
        va="center",
        fontsize=11,
        bbox={"fc": "white", "ec": style.ORANGE, "pad": 3},
    )
    time.set_title(
        f"{splits} split{'s' if splits > 1 else ''}: {count} wave{'s' if count > 1 else ''} of {each:,} keys",
        loc="left",
        fontsize=12,
    )
    return (
        f"{programs} heads of keys · {splits} splits = {programs * splits:,} programs for {places} seats. "
        f"The last one ends after {every[splits]:,} keys, with the rule's {best} splits after {every[best]:,}, unsplit after {every[1]:,}."
    )


def decode_bounds() -> Table:
    """Four shapes of the page's model, one layer in bf16 on an H200: programs without splits, splits, bytes and the time that they take."""
    gpu, lines = data.gpu("H200"), []
    for batch, n in SHAPES:
        splits = choose_splits(batch * HEADS_K, n // SHORTEST, gpu.sms)
        moved = decode_traffic([n] * batch, HEADS, HEADS_K, D, block_m=16, block_n=SHORTEST, splits=splits)
        partial = (
            100
            * sum(side.get(name, 0) for side in (moved.reads, moved.writes) for name in ("O_s", "L_s"))
            / moved.total_bytes
        )
        lines.append([f"{batch} × {n:,}", batch * HEADS_K, splits, f"{moved.total_bytes / 1e6:,.0f}", f"{partial:.2f}",
                      f"{moved.total_bytes / gpu.hbm_bytes_per_s * 1e6:,.0f}"])  # fmt: skip
    return Table(["batch × keys", "programs unsplit", "splits", "MB", "% partial results", "µs at least"], lines)


class Cell(NamedTuple):
    """The attention of one step for ``batch`` sequences of ``n`` keys in bf16, 32 heads on 8 of 128; how: 'graphs', 'eager' or 'host'."""

    algorithm: str
    how: str
    batch: int
    n: int
    seconds: float


UNSPLIT, OURS, SDPA = "decode(), unsplit", "decode()", "SDPA"


def cells(device: str = H200, algorithm: str = OURS) -> list[tuple[int, int]]:
    """Batch and keys of all that was recorded of an algorithm."""
    found = [(run.batch, run.n) for run in rows(Cell, "decoding_speed", device) if run.algorithm == algorithm]
    return list(dict.fromkeys(found))


def took(algorithm: str, batch: int, n: int, how: str = "graphs", device: str = H200) -> float:
    """Seconds; raises ValueError for what was not recorded."""
    for run in rows(Cell, "decoding_speed", device):
        if run[:4] == (algorithm, how, batch, n):
            return run.seconds
    raise ValueError(f"{algorithm} was not recorded at {batch} × {n:,}, {how}; choose one of {cells(device)}")


class Cut(NamedTuple):
    """``batch`` sequences of ``keys`` keys in all, the longest of ``longest``, cut into ``splits``, which decode() has chosen or not."""

    algorithm: str
    chosen: bool
    splits: int
    batch: int
    longest: int
    keys: int
    seconds: float


def cut(batch: int, longest: int, splits: int | None = None, algorithm: str = OURS) -> float:
    """Seconds with so many splits, or with those that were chosen; raises ValueError for what was not recorded."""
    runs = rows(Cut, "decoding_splits")
    for run in runs:
        right = run.chosen if splits is None else run.splits == splits
        if right and (run.algorithm, run.batch, run.longest) == (algorithm, batch, longest):
            return run.seconds
    there = sorted({(run.batch, run.longest) for run in runs})
    raise ValueError(
        f"{algorithm} was not recorded at {batch} × {longest:,} with {splits} splits; choose one of {there}"
    )


def terabytes_per_s(algorithm: str, batch: int, n: int, how: str = "graphs", device: str = H200) -> float:
    """The rate at which K and V are read."""
    return _kv_bytes(batch, n) / took(algorithm, batch, n, how, device) / 1e12


def _kv_bytes(batch: int, n: int) -> int:
    return batch * cache_bytes(n, 1, HEADS_K, D)


def against(algorithm: str, *batches: int, how: str = "graphs", device: str = H200) -> list[float]:
    """How many times as long as decode() an algorithm takes, in the cells of these batches in which it was recorded."""
    chosen = [cell for cell in cells(device, algorithm) if cell[0] in batches]
    return [took(algorithm, *cell, how, device) / took(OURS, *cell, how, device) for cell in chosen]


@style.drawn(
    size=(10.5, 4.6),
    alt="microseconds on a logarithmic axis: for each of four batches bars for three kernels, and a hollow diamond for the bound",
)
def layer_times(ax: Axes) -> None:
    """Four batches of the page's model on an H200: one layer's attention unsplit, split, and as SDPA, beside the bound of its bytes."""
    bars = (
        (UNSPLIT, "unsplit", style.GREY),
        (OURS, "split by the rule", style.BLUE),
        (SDPA, "PyTorch's SDPA", style.ORANGE),
    )
    for group, (batch, n) in enumerate(SHAPES):
        for i, (algorithm, name, shade) in enumerate(bars):
            y, time = 4 * group + i, took(algorithm, batch, n) * 1e6
            ax.plot([1, time], [y, y], color=shade, lw=11, solid_capstyle="butt", zorder=2)
            ax.text(time * 1.1, y, f"{time:,.0f}   {name}" if group == 0 else f"{time:,.0f}", va="center", fontsize=11)
        bound = _kv_bytes(batch, n) / data.gpu("H200").hbm_bytes_per_s * 1e6
        ax.plot([bound], [4 * group + 1], "D", mfc="white", mec=style.BLACK, ms=10, mew=1.6, zorder=4)
    ax.set(xscale="log", xlim=(3, 4000), ylim=(4 * len(SHAPES) - 1, -1), xlabel="µs for one layer")
    ax.set_yticks([4 * group + 1 for group in range(len(SHAPES))], [f"{batch} × {n:,}" for batch, n in SHAPES])
    ax.set_xticks([10, 100, 1000], ["10", "100", "1,000"])
    ax.minorticks_off()
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.set_title("Splitting pays while SMs are idle; then the bytes set the time", **HEAD)
    style.source_note(ax, f"{label('decoding_speed')}, bf16, replayed graphs   ◇ K and V at 4.8 TB/s")


BATCHES = (1, 16, 64, 128)
PAGED = "decode(), pages of 16"


def paging() -> list[tuple[str, bool]]:
    """C24: what pages of 16 cost, in the cells that hold them."""
    prices = [100 * (x - 1) for x in against(PAGED, *BATCHES)]
    found = f"decode() on an H200, pages of 16 in any order beside one piece: {min(prices):.0f} to {max(prices):.0f} % more time"
    cost = sum(price > 0 for price in prices)
    return [(f"it costs time in {cost} of {len(prices)} cells", cost > len(prices) / 2), (found, min(prices) >= 20)]


def sixteen_is_enough() -> list[tuple[str, bool]]:
    """C25: whether pages of 16 take less than 5 % more time than pages of 256 in most cells, as "most workloads" asks."""
    pairs = zip(against(PAGED, *BATCHES), against("decode(), pages of 256", *BATCHES), strict=True)
    prices = [100 * (x / y - 1) for x, y in pairs]
    small = sum(price < 5 for price in prices)
    found = f"beside pages of 256 {min(prices):.1f} to {max(prices):.1f} % more time, less than 5 % in {small} of {len(prices)} cells"
    return [(found, small > len(prices) / 2)]


class Reported(NamedTuple):
    """A row of the blog post's table: A100, fp16, 16 heads on 2 of 128; microseconds."""

    batch: int
    n: int
    fa2_us: float
    split_us: float

    @property
    def gain(self) -> float:
        return self.fa2_us / self.split_us

    @property
    def megabytes(self) -> float:
        """Of K and V, which every kernel has to read."""
        return self.batch * self.n * 2 * 2 * 128 * 2 / 1e6


def reported() -> list[Reported]:
    return [
        Reported(int(row["batch"]), row["n"], row["fa2_us"], row["split_us"]) for row in data.reported("flash_decoding")
    ]


def fifty_times() -> list[tuple[str, bool]]:
    """C16: the largest gain in the table that stands beside the claim."""
    best = max(reported(), key=lambda row: row.gain)
    found = f"its table's largest gain is {best.fa2_us:,} / {best.split_us} = {best.gain:.1f} times, at {best.batch} × {best.n:,}"
    return [(found, best.gain >= 50)]


def constant_time() -> list[tuple[str, bool]]:
    """C17: the time over the length, where the bytes are equal, and ours for one sequence: may it grow by half?"""
    *equal, _ = reported()
    slow, fast = (f(row.split_us for row in equal) for f in (max, min))
    tokens = {row.batch * row.n for row in equal}
    short, long = (1e6 * took(OURS, 1, n) for n in (4096, 32_768))
    return [
        (f"from 256 to {equal[-1].n:,} keys: {fast} to {slow} µs", slow < 1.5 * fast),
        (f"but all these rows hold {min(tokens):,} tokens, {equal[0].megabytes:.0f} MB", len(tokens) > 1),
        (
            f"decode() on an H200, one sequence of 4,096 and of 32,768 keys: {short:.1f} and {long:.1f} µs",
            long < 1.5 * short,
        ),
    ]


def one_percent() -> list[tuple[str, bool]]:
    """C18: the share of an A100's SMs that a program for each head of one sequence takes."""
    sms = data.gpu("A100-80").sms
    return [
        (f"{heads} head{'s' if heads > 1 else ''}: {heads} of {sms} SMs, {100 * heads / sms:.1f} %", heads / sms < 0.01)
        for heads in (1, 16)
    ]

"""Lecture 10: what an SM does one thing after another, and what the ring between copying and computing brings."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from course_lib import data
from course_lib.figures.boxes import HEAD, WORDS
from course_lib.figures.records import label, rows
from course_lib.show import style

ROWS, KEYS = 64, 128  # of the block on paper: queries of a warpgroup, keys
MATMUL, EXPONENTIALS = 4096, 16  # operations a cycle of an SM of an H200: tensor cores; special function units
TILE = 64 * 64 * 2  # bytes of the tile that is followed, and of each tile in the recorded ring
UNITS = {"tensor cores": style.GREEN, "special functions": style.ORANGE}


class Ringed(NamedTuple):
    """The rate at which rings of so many buffers bring tiles, all SMs together."""

    buffers: int
    tile_bytes: int
    programs: int
    gb_per_s: float


def ring_rates() -> dict[int, float]:
    """GB/s by the number of buffers, as recorded."""
    return {run.buffers: run.gb_per_s for run in rows(Ringed, "ring")}


def round_trip() -> float:
    """Nanoseconds from the request for a tile to the next one for its buffer, if an SM has a single buffer."""
    run = next(run for run in rows(Ringed, "ring") if run.buffers == 1)
    return run.programs * run.tile_bytes / run.gb_per_s


# --- one thing after another ---


def one_after_another() -> style.Picture:
    """The tensor cores and the special function units of an SM that one warpgroup has to itself, for two head sizes."""
    return style.picture(
        _strips,
        {d: (2 * ROWS * KEYS * d // MATMUL, ROWS * KEYS // EXPONENTIALS) for d in (128, 64)},
        axes=(1, 2),
        size=(11.5, 2.9),
        alt="for each head size two rows, tensor cores and special function units, with bars over cycles where they work",
    )


def _strips(axes: Sequence[Axes], cycles: dict[int, tuple[int, int]]) -> None:
    for ax, (d, (matmul, exponentials)) in zip(axes, cycles.items(), strict=True):
        at = 0
        for block in range(2):
            for y, name, length in ((0, "QKᵀ", matmul), (1, "exp", exponentials), (0, "PV", matmul)):
                shade = list(UNITS.values())[y]
                ax.barh(
                    y, length, left=at, height=0.62, color=shade, edgecolor="white", alpha=1 if block == 0 else 0.55
                )
                ax.text(at + length / 2, y, name, ha="center", va="center", fontsize=WORDS)
                at += length
        busy = 2 * matmul / (2 * matmul + exponentials)
        ax.set_title(f"d = {d}: the tensor cores work {busy:.0%} of the time", **HEAD)
        ax.set_yticks(range(2), UNITS)
        ax.set(xlim=(0, 3150), ylim=(1.6, -0.6), xlabel="cycles of an SM, two blocks of keys")
        ax.set_xticks(range(0, 3073, 512))
        ax.tick_params(labelsize=WORDS)
        ax.grid(False, axis="y")
    axes[1].set_yticks([])
    style.source_note(axes[0], "model: 4,096 operations of a matmul or 16 exponentials a cycle")


# --- the ring ---

RING: dict[str, Any] = {
    "axes": (1, 2),
    "size": (12, 4.6),
    "alt": "left, a row for each buffer with a bar for every tile that is on its way, over time; "
    "right, GB/s over the number of buffers, by the model and as recorded, and the bandwidth of HBM",
}


def trips(buffers: int, until: float) -> list[tuple[float, float]]:
    """(begin, end) in ns of each tile's way through a ring, up to the first that ends after ``until``: it takes a round trip, but HBM
    brings the tiles of an SM one after another, and a tile begins when the one before it in its buffer has ended."""
    trip = round_trip()
    least = (
        data.gpu("H200").sms * TILE / data.gpu("H200").hbm_gb_per_s
    )  # ns between two tiles of an SM when HBM is the limit
    found: list[tuple[float, float]] = []
    while not found or found[-1][1] < until:
        n = len(found)
        begin = found[n - buffers][1] if n >= buffers else 0.0
        found.append((begin, max(begin + trip, found[-1][1] + least if found else 0.0)))
    return found


def ring(axes: Sequence[Axes], buffers: int) -> str:
    """What the buffers of an SM do in the model of the ring, beside the rates of the model and of an H200."""
    left, right = axes
    recorded, top, shown = ring_rates(), data.gpu("H200").hbm_gb_per_s, 2400
    for n, (begin, end) in enumerate(trips(buffers, shown + buffers * round_trip())):
        phase = n // buffers % 2
        shade = (style.BLUE, style.SKY)[phase]
        left.barh(n % buffers, end - begin, left=begin, height=0.7, edgecolor="white", color=shade)
        if begin < shown - 150:
            left.text(
                begin + 20, n % buffers, str(n), va="center", fontsize=11, color="white" if phase == 0 else "black"
            )
    rate = min(top, buffers * recorded[1])
    left.set(xlim=(0, shown), ylim=(buffers - 0.4, -0.6), xlabel="ns")
    left.set_yticks(range(buffers), [f"buffer {i}" for i in range(buffers)])
    left.grid(False, axis="y")
    left.set_title("model: tiles on their way (dark: phase 0)", loc="left", fontsize=12.5)
    counts = list(recorded)
    right.axhline(top, color=style.GREY, ls="--", lw=1.4)
    right.text(counts[-1] - 1, top * 1.035, "HBM", ha="right", color=style.GREY, fontsize=11.5)
    right.plot(
        counts, [min(top, recorded[1] * count) for count in counts], "D--", mfc="white", color=style.BLACK, lw=1.2, ms=7
    )
    right.plot(counts, list(recorded.values()), "o-", color=style.BLUE)
    right.plot([buffers] * 2, [rate, recorded[buffers]], "o", ms=17, mfc="none", mec=style.RED, mew=2)
    right.text(8.4, recorded[8] - 330, "recorded", color=style.BLUE, fontsize=11.5)
    right.text(4.6, top * 1.035, "model", fontsize=11.5)
    right.set(xlabel="buffers on each SM", ylabel="GB/s", ylim=(0, 5500), xlim=(0, 25))
    right.set_xticks([1, 3, 6, 12, 24])
    right.set_title("HBM is busy from six buffers on", loc="left", fontsize=12.5, weight="bold")
    style.source_note(left, label("ring"))
    many = "buffer" if buffers == 1 else "buffers"
    share = recorded[buffers] / top
    return f"{buffers} {many}: {rate:,.0f} GB/s by the model, {recorded[buffers]:,.0f} recorded, {share:.0%} of HBM's {top:,.0f}"

"""Lecture 03, drawn: where a tile's numbers live, tiles on the roofline, the order of programs, speed by tile, widths of loads."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib import data, plots
from course_lib.figures.boxes import HEAD, PALE, arrow
from course_lib.figures.records import label, rows
from course_lib.model import cost, roofline
from course_lib.show import style
from course_lib.show.tables import Table

N = 4096  # of the recorded matmuls
OTHERS = (16, 32, 64, 128, 256, 512)  # tiles that the roofline shows faintly beside the chosen one
GROUP, TILES = 8, 128  # rows of tiles in a group; tiles along a side of C, 16,384 / 128
AT_ONCE = 3 * 132  # programs that an H200 runs at once: three with tiles of 128 fit on an SM


class Timed(NamedTuple):
    """A recorded matmul of 4,096 × 4,096 matrices in fp16 by square tiles; cuBLAS has none (block 0)."""

    algorithm: str
    block: int
    tflops: float


class Widths(NamedTuple):
    """A recorded forward pass of the portable attention kernel; rows of d numbers lie row_stride numbers apart."""

    d: int
    row_stride: int
    forward_seconds: float
    forward_tflops: float


def measured() -> dict[int, float]:
    """Tile -> TFLOP/s of our kernel on an H200."""
    return {run.block: run.tflops for run in rows(Timed, "matmul_tiles") if run.algorithm == "tiled"}


def library() -> float:
    """TFLOP/s of cuBLAS on the same matrices."""
    return next(run.tflops for run in rows(Timed, "matmul_tiles") if run.algorithm == "cuBLAS")


def intensity(tile: int, n: int = N, dtype: str = "fp16") -> float:
    """FLOP per byte of an n × n matmul in square tiles, if nothing is cached."""
    return roofline.intensity(2 * n**3, cost.tiled_matmul_traffic(n, n, n, tile, tile, dtype))


@style.drawn(
    size=(9.5, 5.2),
    alt="three squares, A left of C and B above it: a strip of A, a strip of B and a tile of C, filled with the colour of their memory",
)
def tile_homes(ax: Axes) -> None:
    """One tile of C with its strips of A and B, each in the colour of its home."""
    hbm, shared, registers = PALE["grey"], PALE["green"], PALE["red"]
    side, t, step = 4.0, 1.0, 2  # of a matrix, of a tile; the term that is on the chip
    places = {"A": (0.0, 0.0), "B": (side + 0.5, side + 0.5), "C": (side + 0.5, 0.0)}
    row, column = 1.0, 2.0  # of the tile, from the lower left of C
    for name, (x, y) in places.items():
        ax.add_patch(Rectangle((x, y), side, side, fc="white", ec=style.shade(name), lw=2))
        ax.text(
            x + 0.18, y + side - 0.18, name, fontsize=19, ha="left", va="top", color=style.shade(name), weight="bold"
        )
    for k in range(4):
        on_chip = k == step
        for x, y in ((k * t, row), (places["B"][0] + column, places["B"][1] + (3 - k) * t)):
            ax.add_patch(Rectangle((x, y), t, t, fc=shared if on_chip else hbm, ec="#777777", lw=1))
            ax.text(x + t / 2, y + t / 2, f"term {k + 1}", ha="center", va="center", fontsize=9.5)
    x, y = places["C"][0] + column, row
    ax.add_patch(Rectangle((x, y), t, t, fc=registers, ec="#333333", lw=1.6))
    ax.text(x + t / 2, y + t / 2, "acc", ha="center", va="center", fontsize=11, family="monospace", weight="bold")
    arrow(ax, (0.1, row - 0.25), (side - 0.1, row - 0.25), "#555555")
    bx = places["B"][0] + column + t + 0.25
    arrow(ax, (bx, places["B"][1] + side - 0.1), (bx, places["B"][1] + 0.1), "#555555")
    ax.text(side / 2, row - 0.42, "k", ha="center", va="top", fontsize=13, style="italic")
    ax.text(bx + 0.18, places["B"][1] + side / 2, "k", va="center", fontsize=13, style="italic")
    for i, (shade, words) in enumerate(
        ((hbm, "HBM: waits, or was dropped"), (shared, "shared memory: the term at work"),
         (registers, "registers: the accumulator"))
    ):  # fmt: skip
        y = places["B"][1] + 3.2 - 0.75 * i
        ax.add_patch(Rectangle((-1.2, y), 0.5, 0.45, fc=shade, ec="#777777", lw=1))
        ax.text(-0.55, y + 0.22, words, va="center", fontsize=11.5)
    ax.set(xlim=(-1.3, 9.0), ylim=(-0.1, 8.6), aspect="equal")
    ax.axis("off")


def tile_on_roofline(ax: Axes, tile: int, n: int, dtype: str, gpu: str) -> str:
    """The matmul of n × n matrices in square tiles as a mark on the roofline of a GPU; in words: bytes, time, its bound."""
    chip, flops = data.gpu(gpu), 2 * n**3
    moved = cost.tiled_matmul_traffic(n, n, n, tile, tile, dtype)
    for other in OTHERS:
        x = intensity(other, n, dtype)
        y = roofline.attainable(chip, x, dtype) / 1e12
        ax.plot([x], [y], "o", mfc="white", mec=style.GREY, ms=7, mew=1.2, zorder=1.9 if other == tile else 3)
        ax.annotate(
            str(other), (x, y), xytext=(0, -8), textcoords="offset points", va="top", fontsize=10.5, color="#777777"
        )
    plots.roofline(ax, chip, dtype, {"tiled": roofline.intensity(flops, moved)})
    time = roofline.time_on(chip, flops, moved, dtype)
    return f"{style.bytes_text(moved.total_bytes)} moved, {style.seconds_text(time.seconds)}, bound by {time.bound}"


Order = Callable[[int, int], tuple[int, int]]  # a program, tiles along a side of C -> row and column of its tile


def by_columns(program: int, tiles: int = TILES) -> tuple[int, int]:
    """Our kernel's order: down one column of tiles after the other."""
    return program % tiles, program // tiles


def by_groups(program: int, tiles: int = TILES) -> tuple[int, int]:
    """Columns of eight tiles each, in groups of eight rows."""
    group, inside = divmod(program, GROUP * tiles)
    return group * GROUP + inside % GROUP, inside // GROUP


def strips(order: Order, tiles: int = TILES) -> tuple[int, int]:
    """How many strips of A and of B the programs need that run first."""
    at = [order(program, tiles) for program in range(AT_ONCE)]
    return len({row for row, _ in at}), len({column for _, column in at})


@style.drawn(
    size=(10.5, 4.4),
    axes=(1, 2),
    alt="the tiles of C as a grid, twice; those that run first are filled, and the strips of A and B that they read are marked",
)
def program_order(axes: Sequence[Axes]) -> None:
    """The tiles of C that run first, in two orders, with the strips of A and B that they need."""
    edge, gap = 8, 2  # of the marks beside C, in tiles
    for ax, title, order in ((axes[0], "Down the columns", by_columns), (axes[1], "In groups of 8 rows", by_groups)):
        a, b = strips(order)
        at = [order(program, TILES) for program in range(AT_ONCE)]
        ax.add_patch(Rectangle((0, 0), TILES, TILES, fc="white", ec="#777777", lw=1))
        for row, column in at:
            ax.add_patch(Rectangle((column, row), 1, 1, fc=style.shade("C"), lw=0, antialiased=False))
        for row in {row for row, _ in at}:
            ax.add_patch(Rectangle((-edge - gap, row), edge, 1, fc=style.shade("A"), lw=0, antialiased=False))
        for column in {column for _, column in at}:
            ax.add_patch(Rectangle((column, -edge - gap), 1, edge, fc=style.shade("B"), lw=0, antialiased=False))
        ax.text(-edge - 2 * gap, a / 2, f"{a} strips\nof A", ha="right", va="center", fontsize=11.5)
        ax.text(0, -edge - 2 * gap, f"{b} strips of B", ha="left", va="bottom", fontsize=11.5)
        words = f"black: the first {AT_ONCE}\nof {TILES**2:,} tiles of C"
        ax.text(TILES * 0.55, TILES * 0.62, words, ha="center", va="center", fontsize=11.5)
        ax.set(xlim=(-46, TILES + 2), ylim=(TILES + 2, -24), aspect="equal")
        ax.axis("off")
        ax.set_title(f"{title}: {a + b} strips", **HEAD)


@style.drawn(
    size=(9.5, 4.5),
    alt="teraflops per second over the side of a tile, a line for the kernel, hollow marks for a model, and cuBLAS",
)
def matmul_speed(ax: Axes) -> None:
    """TFLOP/s by the side of the tile on an H200, beside a model of bytes and cuBLAS."""
    ours, gpu = measured(), data.gpu("H200")
    ax.plot(list(ours), list(ours.values()), "o-", color=style.BLUE)
    bounds = {t: roofline.attainable(gpu, intensity(t), "fp16") / 1e12 for t in ours}
    ax.plot(list(bounds), list(bounds.values()), "D", mfc="none", mec=style.BLACK, ms=12, mew=1.6)
    ax.text(115, 262, "model: every byte\ncomes from HBM", ha="right", va="center", fontsize=11.5)
    ax.axhline(library(), color=style.GREY, ls=":", lw=1.8)
    ax.text(15, library() + 15, f"cuBLAS, {library():.0f}", fontsize=12, color="#555555")
    for t, y in ours.items():
        at, side = ((-11, -9), "right") if t == 16 else ((0, 10), "center")  # beside the model's mark
        ax.annotate(f"{y:.0f}", (t, y), xytext=at, textcoords="offset points", ha=side, va="bottom",
                    color=style.BLUE, weight="bold", fontsize=11.5)  # fmt: skip
    ax.set(xscale="log", xlim=(13, 310), ylim=(0, 860), xlabel="side of the tile", ylabel="TFLOP/s")
    ax.set_xticks(list(ours), [str(t) for t in ours])
    ax.minorticks_off()
    ax.set_title("Above the model from 32 to 128, then a collapse", **HEAD)
    style.source_note(ax, label("matmul_tiles"))


def load_widths() -> Table:
    """What aligned rows are worth in the portable attention kernel on an H200."""
    times = {(run.d, run.row_stride): run for run in rows(Widths, "load_widths")}
    lines = [
        [d, *(f"{x:.{digits}f}" for run in (times[d, d], times[d, d + 1])
              for x, digits in ((1e3 * run.forward_seconds, 2), (run.forward_tflops, 0))), f"{aligned(d):.1f} ×"]
        for d in head_sizes()
    ]  # fmt: skip
    return Table(
        ["head size", "aligned rows, ms", "TFLOP/s", "one longer, ms", "TFLOP/s", "aligned is faster by"], lines
    )


def head_sizes() -> list[int]:
    """Those of the record of widths."""
    return sorted({run.d for run in rows(Widths, "load_widths")})


def aligned(d: int) -> float:
    """How many times as fast a forward pass is whose rows begin at multiples of 16 bytes."""
    times = {run.row_stride: run.forward_seconds for run in rows(Widths, "load_widths") if run.d == d}
    return times[d + 1] / times[d]

"""Lecture 10: the journey of a tile, by pointers and by TMA; the mbarrier that announces it; its places in shared memory."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.figures.boxes import HEAD, PALE, arrow, blank, box
from course_lib.figures.machinery import TILE
from course_lib.show import style


@style.drawn(
    size=(11.5, 4.9),
    axes=(2, 1),
    alt="two rows of boxes, memory, shared memory and tensor cores, joined by arrows: "
    "above with threads' addresses, below with TMA and an mbarrier",
)
def tile_path(axes: Sequence[Axes]) -> None:
    """How a tile gets to the tensor cores: by the addresses of 128 threads, and by TMA."""
    above, below = axes
    above.set_title("Pointers: 128 threads compute 128 sets of addresses", **HEAD)
    below.set_title("TMA: one thread issues, the copy unit does the rest", **HEAD)
    for ax, memory in ((above, "shared memory"), (below, "shared memory\n(swizzled)")):
        box(ax, 0, 0.2, 1.3, 0.6, "HBM", PALE["grey"])
        box(ax, 4.2, 0.2, 2.3, 0.6, memory, PALE["blue"])
        box(ax, 8.2, 0.2, 1.6, 0.6, "tensor\ncores", PALE["green"])
        arrow(ax, (6.58, 0.5), (8.12, 0.5))
        blank(ax, 10, -0.75, 1.0)
    arrow(above, (1.38, 0.5), (4.12, 0.5))
    above.text(2.8, 0.62, "16 bytes per thread", ha="center", fontsize=10.5, color=style.BLUE)
    box(above, 1.75, -0.65, 2.1, 0.64, "registers of 128 threads:\naddresses and masks", PALE["orange"], 10.5)
    arrow(above, (2.8, 0.03), (2.8, 0.43), style.ORANGE)
    box(below, 2.1, 0.2, 1.4, 0.6, "TMA\nunit", PALE["red"])
    arrow(below, (1.38, 0.5), (2.02, 0.5))
    arrow(below, (3.58, 0.5), (4.12, 0.5))
    below.text(1.75, -0.33, "one thread:\n“tile (3, 0), tell barrier b”", ha="center", va="center", fontsize=10.5)
    arrow(below, (2.45, -0.12), (2.65, 0.15), style.ORANGE)
    box(below, 4.7, -0.66, 1.3, 0.38, "mbarrier b", PALE["orange"], 10.5)
    arrow(below, (3.5, 0.2), (4.64, -0.42), style.RED, dashed=True)
    below.text(4.2, 0.0, "bytes landed", fontsize=10.5, color=style.RED, ha="left")
    arrow(below, (6.06, -0.47), (8.12, 0.24), style.RED, dashed=True)
    below.text(7.35, -0.35, "wait(b) returns", fontsize=10.5, color=style.RED)


class State(NamedTuple):
    """An mbarrier after one step of a copy: what is missing, and the part of the tile that has landed."""

    step: str
    arrivals: int
    missing: int
    landed: float


STATES = (
    State("init(b, count=1)", 1, 0, 0.0),
    State("expect(b, bytes)", 0, TILE, 0.0),
    State("half has landed", 0, TILE // 2, 0.5),
    State("all has landed", 0, 0, 1.0),
)


@style.drawn(
    size=(11.5, 5.4),
    alt="above, boxes joined by arrows from a descriptor through TMA, a buffer and wgmma to registers; "
    "below, the mbarrier at four moments, each with a bar for the buffer, two counters and what a waiting thread does",
)
def tile_journey(ax: Axes) -> None:
    """The whole way of a tile, from descriptor to registers, above the states of the mbarrier that announces it."""
    stations = (
        ("descriptor", "address, shape,\nstrides, tile", "grey"),
        ("TMA unit", "all addresses,\nzeros at the edge", "red"),
        ("buffer", "shared memory,\nswizzled", "blue"),
        ("wgmma", "reads the buffer,\nmultiplies", "green"),
        ("registers", "sums, of\n128 threads", "orange"),
    )
    for i, (name, what, shade) in enumerate(stations):
        x = 2.06 * i
        box(ax, x, 3.1, 1.5, 1.0, f"{name}\n\n", PALE[shade], 12.5)
        ax.text(x + 0.75, 3.4, what, ha="center", va="center", fontsize=10.5)
        if i:
            arrow(ax, (x - 0.5, 3.6), (x - 0.06, 3.6))
    ax.text(0.75, 2.78, "made once", ha="center", fontsize=10.5, color=style.GREY)
    ax.text(2.81, 2.78, "one thread issues", ha="center", fontsize=10.5, color=style.GREY)
    ax.text(5.9, 2.78, "wait(b, 0) stands here", ha="center", fontsize=10.5, color=style.RED)
    ax.plot([5.9, 5.9], [2.95, 4.2], color=style.RED, ls=":", lw=1.6)
    for i, state in enumerate(STATES):
        x, done = 2.55 * i, state.arrivals == state.missing == 0
        ax.text(x + 1.05, 2.22, state.step, ha="center", fontsize=12, family="monospace" if i < 2 else None)
        ax.add_patch(Rectangle((x + 0.1, 1.72), 1.9, 0.3, fc="white", ec="#777777", lw=1))
        ax.add_patch(Rectangle((x + 0.1, 1.72), 1.9 * state.landed, 0.3, fc=style.SKY, ec="none"))
        box(ax, x, 0.35, 2.1, 1.12, "", PALE["green"] if done else PALE["orange"])
        for y, words in ((1.15, f"arrivals missing: {state.arrivals}"), (0.67, f"bytes missing: {state.missing:,}")):
            ax.text(x + 1.05, y, words, ha="center", va="center", fontsize=11.5)
        ax.text(x + 1.05, 0.05, "wait returns" if done else "wait: not yet", ha="center", va="center", fontsize=11.5,
                color=style.GREEN if done else style.RED, weight="bold")  # fmt: skip
        if i:
            arrow(ax, (x - 0.4, 0.92), (x - 0.06, 0.92), "#777777")
    ax.set_title("One thread issues, the unit copies, the barrier counts what is missing", **HEAD)
    blank(ax, 9.85, -0.15, 4.25)


Place = Callable[[int, int], int]  # where, of a row's eight places of 16 bytes, a piece of a row stands


def below_each_other(row: int, piece: int) -> int:
    """As in HBM."""
    return piece


def swizzled(row: int, piece: int) -> int:
    """The 128-byte swizzle."""
    return piece ^ row % 8


def cycles(place: Place, piece: int = 0) -> int:
    """In how many cycles one piece of eight rows is read: a bank, 4 bytes of 128, serves one address a cycle."""
    asked = [(16 * place(row, piece) + byte) // 4 for row in range(8) for byte in range(0, 16, 4)]
    return max(map(asked.count, asked))


@style.drawn(
    size=(11.5, 4.0),
    axes=(1, 2),
    alt="a tile twice as a grid of rows and places, four banks to a place; the piece that a tensor core wants of each row is filled",
)
def swizzle(axes: Sequence[Axes]) -> None:
    """Where the first 16 bytes of each row of a tile stand in shared memory, as in HBM and swizzled."""
    for ax, title, place in (
        (axes[0], "As in HBM: four banks serve all rows", below_each_other),
        (axes[1], "Swizzled: every bank serves one row", swizzled),
    ):
        for row in range(8):
            for piece in range(8):
                x, wanted = place(row, piece), piece == 0
                ax.add_patch(
                    Rectangle((x, row), 0.94, 0.9, fc=style.BLUE if wanted else "#F1F1F1", ec="#C9C9C9", lw=0.8)
                )
                ax.text(x + 0.47, row + 0.45, str(piece), ha="center", va="center", fontsize=11,
                        color="white" if wanted else style.GREY)  # fmt: skip
            ax.text(-0.2, row + 0.45, f"row {row}", ha="right", va="center", fontsize=10.5)
        for x in range(8):
            ax.text(x + 0.47, 8.35, f"{4 * x}–{4 * x + 3}", ha="center", va="center", fontsize=10)
        ax.text(-0.2, 8.35, "banks", ha="right", va="center", fontsize=10.5)
        ax.set(xlim=(-1.2, 8), ylim=(8.7, -0.1))
        ax.axis("off")
        count = cycles(place)
        ax.set_title(f"{title}, {count} cycle{'s' * (count > 1)}", **HEAD)

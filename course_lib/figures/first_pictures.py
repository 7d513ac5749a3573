"""Lecture 00: the warehouse and the workbench of two ways to compute attention, and a GPU with programs on its SMs."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib import plots
from course_lib.figures.boxes import HEAD, PALE, WORDS, arrow, blank, box
from course_lib.model import softmax
from course_lib.show import style

SMS, SEATS, BLOCKS = 8, 2, 20  # of the GPU that is drawn: SMs, programs that fit on one, blocks of queries


@style.drawn(
    size=(11.5, 4.5),
    axes=(1, 2),
    alt="two panels, each with a warehouse to the left and a workbench to the right; arrows between them for each matrix, "
    "thin for Q, K, V and O, thick for S and P",
)
def warehouse(axes: Sequence[Axes]) -> None:
    """What crosses between HBM, the warehouse, and SRAM, the workbench: in standard attention and in FlashAttention."""
    standard, flash = axes
    standard.set_title("Standard attention: S and P make four trips", **HEAD)
    flash.set_title("FlashAttention: blocks of S and P never leave the bench", **HEAD)
    for ax in axes:
        box(ax, 0, 0, 1.5, 4.0, "", PALE["grey"])
        ax.text(0.75, 3.72, "warehouse", ha="center", fontsize=12.5, weight="bold")
        ax.text(0.75, 3.45, "HBM", ha="center", fontsize=WORDS)
        box(ax, 3.9, 0, 1.7, 4.0, "", PALE["green"])
        ax.text(4.75, 3.72, "workbench", ha="center", fontsize=12.5, weight="bold")
        ax.text(4.75, 3.45, "SRAM", ha="center", fontsize=WORDS)
        blank(ax, 5.75, -0.1, 4.15)
    trips = (
        (3.1, "Q, K", 1),
        (2.7, "S", -1),
        (2.05, "S", 1),
        (1.6, "P", -1),
        (0.95, "P", 1),
        (0.6, "V", 1),
        (0.25, "O", -1),
    )
    for y, name, way in trips:
        _trip(standard, y, name, way)
    for y, words in ((2.88, "S = QKᵀ / √d"), (1.82, "P = softmax(S)"), (0.6, "O = PV")):
        standard.text(4.75, y, words, ha="center", va="center", fontsize=WORDS)
    _shelf(standard, "QKVOSP")
    _trip(flash, 2.6, "Q; K and V,\nonce per block of Q", 1)
    _trip(flash, 0.6, "O", -1)
    _shelf(flash, "QKVO")
    for x, name in ((4.15, "S"), (4.95, "P")):
        flash.add_patch(Rectangle((x, 1.85), 0.45, 0.45, fc=style.TENSOR[name], ec="black", lw=0.8))
        flash.text(x + 0.225, 2.45, name, ha="center", fontsize=WORDS)
    flash.text(4.75, 1.45, "one block each:\nmade, used,\ndropped", ha="center", va="center", fontsize=10.5)
    flash.text(4.75, 0.6, "update O", ha="center", va="center", fontsize=WORDS)


def _trip(ax: Axes, y: float, name: str, way: int) -> None:
    """An arrow from the warehouse to the bench (way 1) or back (-1), thick for a square."""
    square = name in "SP"
    shade = style.TENSOR[name] if square else "#555555"
    ends = (1.6, 3.8) if way > 0 else (3.8, 1.6)
    ax.annotate("", (ends[1], y), (ends[0], y), arrowprops={
        "arrowstyle": "-|>,head_width=0.45,head_length=0.6", "color": shade, "lw": 7 if square else 1.8, "shrinkA": 0, "shrinkB": 0
    })  # fmt: skip
    ax.text(2.7, y + (0.14 if square else 0.06), name, ha="center", va="bottom", fontsize=12, color=shade,
            weight="bold" if square else None)  # fmt: skip


def _shelf(ax: Axes, names: str) -> None:
    """The matrices that lie in the warehouse: Q, K, V and O narrow, S and P square."""
    for i, name in enumerate("QKVO"):
        ax.add_patch(Rectangle((0.14 + 0.34 * i, 2.3), 0.2, 0.8, fc=style.TENSOR[name], lw=0))
        ax.text(0.24 + 0.34 * i, 2.22, name, ha="center", va="top", fontsize=10.5)
    for i, name in enumerate("SP"):
        if name in names:
            ax.add_patch(Rectangle((0.35, 1.1 - 0.98 * i), 0.8, 0.8, fc=style.TENSOR[name], lw=0))
            ax.text(1.32, 1.5 - 0.98 * i, name, ha="center", va="center", fontsize=10.5)


@style.drawn(
    size=(11.5, 4.6),
    alt="a column of query blocks with an arrow to a chip; on the chip boxes for SMs, each with numbered programs and a strip of SRAM; "
    "beside it programs that wait, below it a cache and HBM",
)
def programs_on_sms(ax: Axes) -> None:
    """A small GPU: blocks of queries become programs, each on an SM with its own SRAM; those that find no room wait."""
    tall = 3.6 / BLOCKS
    for i in range(BLOCKS):
        ax.add_patch(Rectangle((0.35, 4.05 - (i + 1) * tall), 0.75, 0.84 * tall, fc=style.BLUE, lw=0))
        ax.text(0.28, 4.05 - (i + 0.58) * tall, str(i), ha="right", va="center", fontsize=8.5)
    ax.text(0.72, 4.12, "blocks of Q", ha="center", va="bottom", fontsize=WORDS)
    arrow(ax, (1.25, 2.6), (2.3, 2.6))
    ax.text(1.76, 2.7, "one program\nfor each", ha="center", va="bottom", fontsize=10.5, color=style.BLUE)
    box(ax, 2.4, 0.65, 6.9, 3.65, "", "#F4F4F4")
    ax.text(2.5, 4.4, f"the chip: {SMS} SMs here, 132 on an H200", fontsize=WORDS, va="bottom")
    for sm in range(SMS):
        row, column = divmod(sm, 4)
        x, y = 2.55 + 1.68 * column, 2.88 - 1.52 * row
        box(ax, x, y, 1.5, 1.3, "", "white")
        ax.text(x + 0.08, y + 1.12, f"SM {sm}", fontsize=10.5, va="center")
        for seat in range(SEATS):
            left = x + 0.12 + 0.66 * seat
            ax.add_patch(Rectangle((left, y + 0.45), 0.6, 0.48, fc=style.BLUE, lw=0))
            ax.text(left + 0.3, y + 0.69, str(sm + seat * SMS), color="white", ha="center", va="center", fontsize=11.5)
        ax.add_patch(Rectangle((x + 0.12, y + 0.08), 1.26, 0.28, fc=PALE["green"], ec="#777777", lw=0.8))
        ax.text(x + 0.75, y + 0.21, "SRAM", ha="center", va="center", fontsize=9.5)
    for i in range(BLOCKS - SMS * SEATS):
        ax.add_patch(Rectangle((9.75, 3.5 - 0.58 * i), 0.6, 0.48, fc="white", ec=style.BLUE, lw=1.4))
        ax.text(10.05, 3.74 - 0.58 * i, str(SMS * SEATS + i), color=style.BLUE, ha="center", va="center", fontsize=11.5)
    ax.text(10.05, 4.12, "wait for room", ha="center", va="bottom", fontsize=WORDS)
    box(ax, 2.55, 0.76, 6.54, 0.36, "L2 cache, shared by all SMs", PALE["orange"], 10.5)
    box(ax, 2.4, 0.02, 6.9, 0.48, "HBM: Q, K, V and O, whole", PALE["grey"])
    blank(ax, 10.8, -0.05, 4.75)
    ax.set_title("Each block of queries makes a program, and a program works on one SM's bench", **HEAD)


def sharpen(axes: Sequence[Axes], scores: torch.Tensor, sharpness: float, query: int) -> str:
    """Draw scores [n, n] times sharpness beside their softmax, one row framed; returns which key gets most of that row's weight."""
    weights = softmax.offline(scores * sharpness)
    queries, keys = ([f"{name} {i}" for i in range(n)] for name, n in zip(("query", "key"), scores.shape, strict=True))
    plots.heatmap(axes[0], scores * sharpness, "scores S × sharpness", queries, keys, mark=query)
    plots.heatmap(axes[1], weights, "weights P (each row sums to 1)", queries, keys, vmax=1, mark=query)
    return f"query {query} gives most weight to key {int(weights[query].argmax())}: {float(weights[query].max()):.2f}"

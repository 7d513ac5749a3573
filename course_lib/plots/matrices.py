"""Matrices as shapes and as coloured cells."""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.show.style import BLUE, GREEN, ORANGE, PURPLE, RED, TENSOR


def heatmap(
    ax: Axes,
    matrix: torch.Tensor,
    title: str,
    rows: Sequence[str] = (),
    cols: Sequence[str] = (),
    vmax: float | None = None,
    mark: int | None = None,
) -> Axes:
    """A small matrix as coloured cells with its numbers in them, two digits behind the point; row ``mark`` is framed.

    White is 0; with negative numbers one colour stands for each sign.
    """
    values = matrix.detach().double().cpu()
    top = float(values.abs().max()) if vmax is None else vmax
    signed = bool((values < 0).any())
    colours = ax.imshow(
        values.numpy(), cmap="PuOr_r" if signed else "Blues", vmin=-top if signed else 0, vmax=top, aspect="auto"
    )
    dark = colours.to_rgba(values.numpy())[..., :3] @ (0.3, 0.59, 0.11) < 0.5
    for i, j in ((i, j) for i in range(values.shape[0]) for j in range(values.shape[1])):
        words, ink = f"{float(values[i, j]):.2f}", "white" if dark[i, j] else "black"
        ax.text(j, i, words, ha="center", va="center", color=ink, fontsize=12)
    if mark is not None:
        ax.add_patch(Rectangle((-0.5, mark - 0.5), values.shape[1], 1, fill=False, edgecolor=RED, lw=4))
    ax.set_xticks(range(len(cols)), cols)
    ax.set_yticks(range(len(rows)), rows)
    ax.grid(False)
    ax.tick_params(length=0)
    ax.set_title(title)
    return ax


def matrix_shapes(ax: Axes, n: int, d: int) -> Axes:
    """Q, K, V, S, P and O as rectangles to scale: what attention holds, and why S and P are the problem."""
    left, gap = 0.0, 0.22 * (4 * d + 2 * n) / 6
    for name, width in (("Q", d), ("K", d), ("S", n), ("P", n), ("V", d), ("O", d)):
        ax.add_patch(Rectangle((left, 0), width, n, facecolor=TENSOR[name], edgecolor="black", alpha=0.85))
        ax.text(left + width / 2, n * 1.05, f"{name}\n{n:,}×{width:,}", ha="center", va="bottom", fontsize=12)
        left += width + gap
    ax.set_xlim(-gap / 2, left - gap / 2)
    ax.set_ylim(-0.02 * n, n * 1.3)
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def warp_split(axes: Sequence[Axes]) -> None:
    """Four warps on one tile of S: split-K (each has some keys, results meet in shared memory), split-Q (each its own rows)."""
    colours = (BLUE, ORANGE, GREEN, PURPLE)
    for ax, title, by_rows in (
        (axes[0], "split-K (FlashAttention)", False),
        (axes[1], "split-Q (FlashAttention-2)", True),
    ):
        for w, colour in enumerate(colours):
            q = (0, 3 - w, 1.2, 1) if by_rows else (0, 0, 1.2, 4)
            k = (2 + w, 4.6, 1, 1.2) if not by_rows else (2, 4.6, 4, 1.2)
            s = (2, 3 - w, 4, 1) if by_rows else (2 + w, 0, 1, 4)
            o = (7.4, 3 - w, 1.2, 1) if by_rows else (7.4 + 0.25 * w, 0 + 0.12 * w, 1.2, 4)
            for box, shared in ((q, not by_rows), (k, by_rows), (s, False), (o, False)):
                face = "#DDDDDD" if shared else colour
                ax.add_patch(
                    Rectangle(box[:2], *box[2:], facecolor=face, edgecolor="white", lw=2, alpha=1 if shared else 0.9)
                )
            ax.text(s[0] + s[2] / 2, s[1] + s[3] / 2, f"warp {w}", ha="center", va="center", color="white",
                    rotation=0 if by_rows else 90, fontsize=12)  # fmt: skip
        for x, y, label in ((0.6, -0.35, "Q"), (4, 6.1, "Kᵀ"), (4, -0.35, "S"), (8, -0.35, "O")):
            ax.text(x, y, label, ha="center", va="center", fontsize=13)
        words = "each warp ends with its own rows of O" if by_rows else "four partial O: add them up in shared memory"
        ax.text(4.3, -1.1, words, ha="center", va="center", fontsize=12)
        ax.set(xlim=(-0.2, 9.6), ylim=(-1.6, 6.6), title=title, aspect="equal")
        ax.axis("off")

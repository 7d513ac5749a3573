"""Lecture 07: three loop orders of the backward pass, a training run, and forward and backward speeds on an H200."""

from collections.abc import Sequence
from itertools import accumulate
from statistics import median
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.figures.records import H200, Pass, label, rows
from course_lib.model import cost
from course_lib.plots import curves, grouped_bars, traffic_bars
from course_lib.show import style

HEAD: dict[str, Any] = {"loc": "left", "fontsize": 13, "weight": "bold"}
BLOCKS = 4  # of queries and of keys, in the picture of the orders
ROW_TENSORS, COLUMN_TENSORS = (
    ("Q", "dO", "dQ"),
    ("K", "V", "dK", "dV"),
)  # a block for each row of pairs, for each column
STATIONARY, STREAMED, ACCUMULATED, VISITED = style.BLUE, "#C9E3F5", style.ORANGE, "#E4E4E4"


class Trained(NamedTuple):
    """A step of a training run with one of three attentions: the loss in nats per character."""

    algorithm: str
    step: int
    loss: float
    seconds: float


class TwoPasses(NamedTuple):
    """The same, of an earlier run in which attention() went backward in two passes."""

    algorithm: str
    d: int
    causal: bool
    n: int
    backward_tflops: float


class Errors(NamedTuple):
    """Largest errors against float64 of attention's gradients, and of those of plain PyTorch, at one shape."""

    algorithm: str
    causal: bool
    dq_error: float
    dk_error: float
    dv_error: float
    plain_dq_error: float
    plain_dk_error: float
    plain_dv_error: float


# --- three loop orders ---


@style.drawn(
    size=(13, 5.2),
    axes=(1, 3),
    alt="three panels, a loop order each: a grid of pairs of blocks with strips for each tensor beside and above it",
)
def backward_orders(axes: Sequence[Axes]) -> None:
    """The three loop orders on four by four blocks: what two programs hold, what they stream, and to what both add."""
    panels: tuple[tuple[str, tuple[int, ...], tuple[int, ...], str], ...] = (
        ("outer loop over K/V", (), (0, 2), "two programs add to the same block of dQ"),
        ("outer loop over Q", (0, 2), (), "two programs add to the same blocks of dK, dV"),
        ("two passes", (2,), (0,), "P and dP are computed in both passes;\nhalf and half: streamed in the other pass"),
    )
    for ax, (title, held_rows, held_columns, words) in zip(axes, panels, strict=True):
        _grid(ax, held_rows, held_columns)
        ax.set_title(title, **HEAD)
        ax.text(-2.6, 4.25, words, fontsize=11.5, va="top", in_layout=False)
        ax.set(xlim=(-2.7, 4.75), ylim=(5.1, -3.35), aspect="equal")
        ax.axis("off")
    for x, y, name in ((0.5, 0.5, "pass\n1"), (3.5, 2.5, "pass\n2")):
        axes[2].text(x, y, name, ha="center", va="center", fontsize=11.5)
    shades = {
        "stationary": STATIONARY,
        "streamed: read": STREAMED,
        "streamed: several programs add to it": ACCUMULATED,
        "pairs of these programs": VISITED,
    }
    marks, names = [Rectangle((0, 0), 1, 1, fc=shade) for shade in shades.values()], list(shades)
    axes[0].get_figure(root=True).legend(marks, names, loc="outside lower center", ncols=4, fontsize=12)  # type: ignore[union-attr]


def _grid(ax: Axes, held_rows: Sequence[int], held_columns: Sequence[int]) -> None:
    for i in range(BLOCKS):
        for j in range(BLOCKS):
            shade = VISITED if i in held_rows or j in held_columns else "white"
            ax.add_patch(Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, fc=shade, ec="#BBBBBB"))
    alone = not (held_rows and held_columns)  # one loop order, not a pass of each
    for t, name in enumerate(ROW_TENSORS):
        x = -2.6 + 0.85 * t
        ax.text(x + 0.33, -0.12, name, ha="center", va="bottom", fontsize=12)
        for i in range(BLOCKS):
            _block(ax, (x, i + 0.06), (0.66, 0.88), i in held_rows, role(name, bool(held_columns), alone))
    for t, name in enumerate(COLUMN_TENSORS):
        y = -3.2 + 0.76 * t
        ax.text(4.1, y + 0.3, name, va="center", fontsize=12)
        for j in range(BLOCKS):
            _block(ax, (j + 0.06, y), (0.88, 0.58), j in held_columns, role(name, bool(held_rows), alone))


def _block(ax: Axes, at: tuple[float, float], size: tuple[float, float], held: bool, shade: str) -> None:
    """A block of a tensor; half in one colour and half in the other where one pass holds it and the other streams it."""
    ax.add_patch(Rectangle(at, *size, ec="#BBBBBB", fc=STATIONARY if held else shade))
    if held and shade == STREAMED:
        ax.add_patch(Rectangle((at[0] + size[0] / 2, at[1]), size[0] / 2, size[1], ec="#BBBBBB", fc=shade))


def role(tensor: str, streamed: bool, alone: bool) -> str:
    """The colour of a block of a tensor that is not stationary: streamed past one that is, or untouched.

    ``alone``: in one loop order by itself, not one pass of two, in which a gradient that is not stationary is left to the other.
    """
    if tensor in ("dQ", "dK", "dV"):
        return ACCUMULATED if streamed and alone else "white"
    return STREAMED if streamed else "white"


def backward_bytes(ax: Axes, N: int, d: int, block_m: int, block_n: int, dtype: str, causal: str) -> str:
    """Draw the bytes of the three orders for one head, by tensor; for a mask pass ``causal='causal'``. Returns the totals.

    The legend leaves out what is nowhere more than a hundredth of the longest bar.
    """
    mask = causal == "causal"
    traffics = {
        order: cost.backward_traffic(order, N, d, block_m, block_n, dtype, causal=mask)
        for order in cost.BACKWARD_ORDERS
    }
    totals = traffic_bars(ax, traffics)
    ax.set_xlabel("MB in and out of the SMs, without a cache")
    least = max(traffic.total_bytes for traffic in traffics.values()) / 100
    wide = {
        f"{name} {done}"
        for traffic in traffics.values()
        for done, part in (("read", traffic.reads), ("written", traffic.writes))
        for name, size in part.items()
        if size > least
    }
    handles, names = ax.get_legend_handles_labels()
    reads_first = sorted(
        (entry for entry in zip(names, handles, strict=True) if entry[0] in wide),
        key=lambda entry: entry[0].endswith("written"),
    )
    ax.legend(
        [handle for _, handle in reads_first],
        [name for name, _ in reads_first],
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        fontsize=11,
    )
    return totals


# --- a training run ---


def losses(algorithm: str) -> list[Trained]:
    """The recorded steps of the run with 'attention', 'sdpa' or 'standard', which is plain PyTorch."""
    return [row for row in rows(Trained, "training_run") if row.algorithm == algorithm]


def apart(algorithm: str) -> list[float]:
    """The largest distance of a run's loss from that of 'sdpa' up to each recorded step."""
    distances = (abs(a.loss - b.loss) for a, b in zip(losses(algorithm), losses("sdpa"), strict=True))
    return list(accumulate(distances, max))


@style.drawn(
    size=(11.5, 3.8),
    axes=(1, 2),
    alt="left the loss of three runs over the steps, right the largest distance so far of two of them from the third",
)
def training_curves(axes: Sequence[Axes]) -> None:
    """A model trained with three attentions: the losses, and how far two of them have strayed from the third."""
    names = {"attention": "attention()", "standard": "PyTorch (plain)", "sdpa": "SDPA (PyTorch's, fused)"}
    steps = [row.step for row in losses("sdpa")]
    curves(
        axes[0],
        {words: [row.loss for row in losses(name)] for name, words in names.items()},
        "step",
        "loss, nats per character",
        "recorded",
        x=steps,
    )
    axes[0].set_title("Three attentions learn alike", **HEAD)
    strayed = {
        names[name]: apart(name)[1:] for name in ("attention", "standard")
    }  # at step 0 there is nothing to stray
    curves(axes[1], strayed, "step", "largest distance so far, nats", "recorded", x=steps[1:])
    for name, distances in strayed.items():
        axes[1].plot(steps[-1:], distances[-1:], "o", ms=9, color=style.colour(name))
    axes[1].set(yscale="log", ylim=(None, 0.1))
    axes[1].set_title("… and drift apart from SDPA", **HEAD)
    style.source_note(axes[0], label("training_run"))


# --- forward and backward speeds ---


def ratios(phase: str, peer: str, device: str = H200) -> list[float]:
    """attention()'s 'forward' or 'backward' rate over a peer's in replayed graphs, at each of the twelve recorded shapes."""
    found = _speeds_of(phase, device)
    return [rate / found[(peer, *key[1:])] for key, rate in found.items() if key[0] == "attention()"]


def _speeds_of(phase: str, device: str = H200) -> dict[tuple[str, int, bool, int], float]:
    """TFLOP/s by (algorithm, d, causal, N)."""
    found = rows(Pass, "attention_beside_peers", device)
    return {(x.algorithm, *x[3:6]): x.tflops for x in found if (x.direction, x.how) == (phase, "graphs")}


def two_pass_ratios(peer: str, d: int | None = None, causal: bool | None = None) -> list[float]:
    """The rate of two passes over a peer's backward pass in their run, at each shape with this d and this mask."""
    found = {row[:4]: row.backward_tflops for row in rows(TwoPasses, "attention_speed")}
    shapes = [key for key in found if key[0] == "attention" and d in (None, key[1]) and causal in (None, key[2])]
    return [found[key] / found[(peer, *key[1:])] for key in shapes]


def step_seconds(algorithm: str) -> float:
    """The median time of a recorded training step."""
    return median(row.seconds for row in losses(algorithm))


def error_shares(causal: bool) -> list[float]:
    """The largest errors of attention()'s dQ, dK and dV over plain PyTorch's, at each recorded shape with or without a mask."""
    found = [row for row in rows(Errors, "attention_speed") if (row.algorithm, row.causal) == ("attention", causal)]
    return [ours / plain for row in found for ours, plain in zip(row[2:5], row[5:], strict=True)]


@style.drawn(
    size=(12, 4),
    axes=(1, 2),
    alt="left forward, right backward: rates of four attentions as bars, a group for each head size and mask; backward ours twice",
)
def backward_speed(axes: Sequence[Axes]) -> None:
    """Forward and backward at the longest recorded N: attention() beside FlashAttention-2, cuDNN and FlashAttention-4."""
    n = 16_384
    groups = {f"d = {d}" + (",\ncausal" if causal else ""): (d, causal) for d in (64, 128) for causal in (False, True)}
    names = {"FA2": "FA2", "cuDNN": "cuDNN", "FA4": "FA4", "attention()": "attention()"}
    titles = {"forward": "forward: FA4 leads", "backward": "backward: FA4 leads, too"}
    for ax, (phase, title) in zip(axes, titles.items(), strict=True):
        found = _speeds_of(phase)
        rates = {words: [found[(name, *group, n)] for group in groups.values()] for words, name in names.items()}
        if phase == "backward":
            earlier = {row[:4]: row.backward_tflops for row in rows(TwoPasses, "attention_speed")}
            rates["two passes"] = [earlier[("attention", *group, n)] for group in groups.values()]
        grouped_bars(ax, list(groups), rates, "TFLOP/s", "recorded", log=False)
        for bar in ax.patches[len(names) * len(groups) :]:  # the two passes, in the colour of the one
            bar.set_alpha(0.4)
        ax.legend(loc="upper left", ncols=3)
        ax.set(ylim=(0, 900))
        ax.set_title(title, **HEAD)
    made = label("attention_beside_peers"), label("attention_speed").split(",")[0]
    style.source_note(axes[0], f"bf16, N = {n:,}, {made[0]}; two passes {made[1]}")

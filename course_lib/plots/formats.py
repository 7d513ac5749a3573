"""Number formats: neighbours on the number line, and steps over magnitudes."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes

from course_lib.model.formats import FORMATS, bits, rounded, step_at
from course_lib.show.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, colour, kind_label


def _next(x: float, name: str, up: bool) -> float:
    """The number of a format beside x."""
    step = step_at(x, name) * (1 if up else -1)
    closer = float(rounded(torch.tensor(x + step / 2, dtype=torch.float64), name))
    return closer if closer not in (x, x + step) else x + step  # below a power of two the step is half as long


def neighbours(axes: Sequence[Axes], x: float, name: str) -> None:
    """The bits of the number of a format that is nearest to x; below them the numbers beside it, and x where it lies between two."""
    top, ax = axes
    f = FORMATS[name]
    kept = float(rounded(torch.tensor(x, dtype=torch.float64), name))
    parts = [(bit, shade) for text, shade in zip(bits(x, name), (RED, GREEN, BLUE), strict=True) for bit in text]
    for i, (bit, shade) in enumerate(parts):
        look = {"boxstyle": "square,pad=0.25", "fc": "white", "ec": shade, "lw": 2}
        top.text(i, 0, bit, ha="center", va="center", bbox=look, family="monospace", fontsize=15 if f.bits < 20 else 11)
    top.set(xlim=(-1, max(17, len(parts))), ylim=(-1, 1))
    top.axis("off")
    step, numbers = step_at(kept, name), [kept]
    for up in (False, True):
        at = _next(kept, name, up)
        while abs(at - kept) <= 8 * step and abs(at) <= f.largest:
            numbers.append(at)
            at = _next(at, name, up)
    for y in numbers:
        ax.axvline(y, 0.25, 0.75, color=RED if y == kept else colour(name), lw=4 if y == kept else 2)
    if x != kept:
        ax.plot([x], [0.85], "v", color=ORANGE, ms=12)
    around = [y for y in (kept - 4 * step, kept, kept + 4 * step) if abs(y) <= f.largest]
    ax.set(
        xlim=(kept - 8.5 * step, kept + 8.5 * step), ylim=(0, 1), yticks=[], xlabel=f"numbers of {name} around {x:g}"
    )
    ax.set_xticks(around, [f"{y:.10g}" for y in around])
    ax.grid(False)


def stage_lines(ax: Axes, lengths: Sequence[int], series: Mapping[str, Sequence[float]], ylabel: str) -> Axes:
    """The error that rounding one stage of attention brings, over N; one line for each stage."""
    looks = {"inputs": (BLACK, "s"), "scores": (RED, "^"), "weights": (PURPLE, "o"), "accumulator": (GREEN, "D")}
    for name, values in series.items():
        shade, marker = looks[name]
        ax.plot(lengths, values, marker=marker, color=shade, label=name)
    ax.set(xlabel="N, keys", ylabel=ylabel, yscale="log")
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [f"{n:,}" for n in lengths])
    ax.legend(title="rounded stage", loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, "this machine, now")
    return ax


def relative_steps(ax: Axes, names: Sequence[str], x: float) -> str:
    """The largest relative rounding error over magnitudes; a line ends where its format does, and rises where steps stop shrinking.

    The axis is cut at 1e±12: fp32, tf32 and bf16 go on to 1e±38. Returns which formats hold a number of magnitude x to 1 %.
    """
    for name in names:
        f = FORMATS[name]
        xs = [f.smallest, f.smallest_normal, f.largest]
        ax.plot(xs, [0.5, f.epsilon / 2, f.epsilon / 2], color=colour(name), label=name)
        ax.plot([f.largest], [f.epsilon / 2], "|", ms=16, mew=3, color=colour(name))
    ax.axvline(x, color=GREY, lw=1.5, ls="--")
    ax.text(x, 0.9, f" {x:g}", fontsize=12, va="bottom")
    limits = {"xscale": "log", "yscale": "log", "xlim": (1e-12, 1e12), "ylim": (1e-8, 3)}
    ax.set(xlabel="magnitude of the number", ylabel="largest relative error", **limits)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    kind_label(ax, "model")
    good = [name for name in names if step_at(x, name) / 2 <= 0.01 * x]
    return f"any number near {x:g} is held to 1 % in " + (", ".join(good) or "none of them")

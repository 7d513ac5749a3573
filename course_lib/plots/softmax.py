"""The online softmax, step by step."""

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_lib.model import softmax
from course_lib.show.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    SKY,
)


def online_step(ax: Axes, scores: Sequence[float], step: int, block: int = 1) -> str:
    """The online softmax after ``step`` blocks: a bar for each score, the running maximum, and what each bar weighs now.

    Dark bars are the block that just came in, light ones came before, grey ones have not been seen.
    Returns the state in words.
    """
    block = min(block, len(scores))
    x = torch.tensor(scores, dtype=torch.float64)
    states = softmax.online_states(x, block)
    step = min(step, len(states))
    before, state = (softmax.start(x), *states)[step - 1 : step + 1]
    first, seen = (step - 1) * block, min(step * block, len(scores))
    small = len(scores) > 8
    for i, value in enumerate(scores):
        ax.bar(i, value, color=SKY if i < first else BLUE if i < seen else "#E4E4E4", edgecolor="white", width=0.86)
        weight = f"{math.exp(value - state.m):.3f}" if i < seen else ""
        label = f"{weight}" if small else f"e^({value:g} − {state.m:g})\n= {weight}" if weight else ""
        ax.text(i, max(value, 0), label, ha="center", va="bottom", fontsize=9 if small else 12)
    ax.plot([-0.5, seen - 0.5], [state.m, state.m], color=RED)
    ax.annotate(
        f"m = {state.m:.4g}", (seen - 0.5, state.m), xytext=(6, 0), textcoords="offset points", color=RED, va="center"
    )
    low, high = min([0.0, *scores]), max([0.0, *scores])
    room = (high - low) or 1.0
    ax.set(
        xlim=(-0.6, len(scores) + 0.4), ylim=(low - 0.05 * room, high + 0.3 * room), xlabel="position", ylabel="score x"
    )
    ax.set_xticks(range(len(scores)))
    ax.grid(False, axis="x")
    factor = math.exp(before.m - state.m)
    new = state.l - before.l * factor
    ax.set_title(f"ℓ = {before.l:.4g} × {factor:.4g} + {new:.4g} = {state.l:.4g}", loc="left")
    return f"after {seen} of {len(scores)}: m = {state.m:.4g}, ℓ = {state.l:.4g} (the old sum was multiplied by {factor:.4g})"


def key_blocks(axes: Sequence[Axes], scores: torch.Tensor, values: torch.Tensor, block: int) -> str:
    """One query's m, l and o over its blocks of keys, with the correction factors; scores [n], values [n, dv]."""
    block = min(block, len(scores))
    state, history = softmax.start(scores, values), []
    for x, v in zip(scores.split(block), values.split(block), strict=True):
        before, state = state, softmax.update(state, x, v)
        factor = math.exp(before.m - state.m)
        history.append((float(x.max()), float(state.m), factor, float(state.l), float(softmax.output(state)[0])))
    best, m, factors, l, o = (list(column) for column in zip(*history, strict=True))
    at = range(len(history))
    axes[0].bar(at, best, color=SKY, label="largest score of the block")
    axes[0].step(at, m, where="mid", color=RED, label="m")
    axes[1].bar(at[1:], factors[1:], color=ORANGE)
    axes[1].set(xlim=axes[0].get_xlim(), ylim=(0, 1.25))
    axes[1].text(0, 1.05, "first", ha="center", fontsize=10)
    for i, factor in enumerate(factors[1:], 1):
        if factor < 0.02:  # no bar to be seen
            power = math.floor(math.log10(factor)) if factor else None
            words = "0" if power is None else f"${factor / 10**power:.0f} \\cdot 10^{{{power}}}$"
            axes[1].text(i, 1.05, words, ha="center", fontsize=10)
    axes[2].plot(at, l, "o-", color=BLUE)
    axes[3].plot(at, o, "o-", color=BLACK, label="o / $\\ell$ so far")
    axes[3].axhline(o[-1], color=GREEN, ls="--", label="attention")
    titles = ("scores and m", "correction factor", "running sum $\\ell$", "output o / $\\ell$")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_xlabel("block of keys")
        ax.set_title(title, loc="left", fontsize=12.5, weight="bold")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylim(None, max(m) + 0.35 * (max(m) - min(0.0, *best)))
    axes[0].legend(fontsize=10, ncols=2, loc="upper left")
    axes[3].legend(fontsize=10)
    return f"{sum(f < 1 for f in factors[1:])} of {len(factors) - 1} blocks after the first brought a correction"

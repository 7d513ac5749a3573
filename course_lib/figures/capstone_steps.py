"""Lecture 14: where the time and memory of a training step go, what a faster attention gains, and how fast a GPT writes."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from course_lib import data
from course_lib.figures.records import label, rows
from course_lib.model import training_step
from course_lib.show import style

HEAD: dict[str, Any] = {"loc": "left", "fontsize": 13, "weight": "bold"}
NAMES = {"SDPA flash": "FlashAttention-2", "SDPA": "SDPA's choice", "attention": "attention()"}
SHADES = {"plain": style.RED, "SDPA flash": style.ORANGE, "SDPA": style.GREY, "attention": style.BLUE}
WIDTH = 1024  # of the figures; the record has another one, too
SHOWN = (2048, 16_384)  # contexts of the bars


class Step(NamedTuple):
    """A training step at a context of ``t`` tokens, ``tokens`` in all, in seconds, and its parts alone, forward and backward."""

    n_embd: int
    n_layer: int
    t: int
    tokens: int
    attention: str
    fits: bool
    seconds: float
    attention_seconds: float
    matmul_seconds: float
    peak_bytes: int

    @property
    def rest(self) -> float:
        """Seconds of all but attention."""
        return self.seconds - self.attention_seconds

    @property
    def share(self) -> float:
        """Of attention in the step's time."""
        return self.attention_seconds / self.seconds


def steps(attention: str, width: int = WIDTH) -> list[Step]:
    """The recorded steps with an attention that fitted into memory, by context; 'none' hands on v instead. May be empty."""
    found = [x for x in rows(Step, "capstone_context") if (x.attention, x.n_embd) == (attention, width) and x.fits]
    return sorted(found, key=lambda x: x.t)


def step(attention: str, t: int, width: int = WIDTH) -> Step:
    """One of them; raises ValueError for a context that was not recorded, or did not fit."""
    found = {x.t: x for x in steps(attention, width)}
    if t not in found:
        raise ValueError(
            f"{attention} was not recorded at {t} tokens and a width of {width}; choose one of {list(found)}"
        )
    return found[t]


def crossing() -> float:
    """The context at which attention() takes as long as the blocks' matmuls.

    Between the recorded ones along a power law; NaN beyond them.
    """
    for low, high in itertools.pairwise(steps("attention", WIDTH)):
        a, b = (math.log(x.attention_seconds / x.matmul_seconds) for x in (low, high))
        if a <= 0 <= b:
            return low.t * (high.t / low.t) ** (-a / (b - a))
    return math.nan


def tflops(t: int) -> tuple[float, float]:
    """The rates of the blocks' matmuls and of attention(), with its seven matmuls under a causal mask, forward and backward."""
    found = step("attention", t)
    each = 1e-12 * found.tokens * found.n_layer
    matmuls = 3 * training_step.block_flops(WIDTH) * each / found.matmul_seconds
    more = (training_step.FORWARD + training_step.BACKWARD) / training_step.FORWARD
    return matmuls, more * training_step.attention_flops(WIDTH, t) * each / found.attention_seconds


def gained(t: int, before: str, width: int) -> float:
    """How many times as fast a step is with attention()."""
    return step(before, t, width).seconds / step("attention", t, width).seconds


def faster(t: int, before: str, width: int = WIDTH) -> float:
    """How many times as fast attention() alone is."""
    return step(before, t, width).attention_seconds / step("attention", t, width).attention_seconds


def allowed(t: int, before: str) -> float:
    """What Amdahl's bound allows a step to gain by attention()."""
    return training_step.gain(step(before, t).share, faster(t, before))


# --- a step as a bar ---


@style.drawn(
    size=(12, 3.8),
    axes=(1, 2),
    alt="for each of two contexts a bar for each attention, cut into matmuls, the rest, and attention",
)
def step_bars(axes: Sequence[Axes]) -> None:
    """A training step with three attentions at two contexts: its matmuls, its attention and the rest."""
    for ax, t in zip(axes, SHOWN, strict=True):
        for y, name in enumerate(NAMES):
            found = step(name, t)
            matmuls, rest, own = (1e3 * x for x in (found.matmul_seconds, found.rest, found.attention_seconds))
            ax.barh(y, matmuls, color="#BDBDBD", height=0.62)
            ax.barh(y, rest - matmuls, left=matmuls, color="#E3E3E3", height=0.62)
            ax.barh(y, own, left=rest, color=SHADES[name], height=0.62)
            ax.text(rest + own, y, f" {rest + own:,.0f}", va="center", fontsize=11.5)
            words = ((matmuls / 2, "matmuls"), ((matmuls + rest) / 2, "the rest"), (rest + own / 2, "attention"))
            for x, word in words[: 3 if t == SHOWN[-1] else 2] if y == 0 else ():
                ax.text(x, y, word, ha="center", va="center", fontsize=9)
        ax.set_yticks(range(len(NAMES)), list(NAMES.values()))
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        ax.set(xlabel="ms per step", xlim=(0, 1.12 * 1e3 * step("SDPA flash", SHOWN[-1]).seconds))
        ax.set_title(f"A context of {t:,}: {'little' if t < WIDTH * 4 else 'much'} to gain", **HEAD)
    found = step("attention", SHOWN[0])
    note = f"width {WIDTH:,}, {found.n_layer} blocks, {found.tokens:,} tokens a step, bf16"
    style.source_note(axes[0], f"{label('capstone_context')}, {note}")


def amdahl(ax: Axes, context: int, width: int, faster: float) -> str:
    """Draw a step by its operations before and after attention becomes ``faster``; says what that gains, and at most could."""
    own = training_step.attention_flops(width, context)
    rest = training_step.block_flops(width)
    share = own / (own + rest)
    for y, time in enumerate((own, own / faster)):
        ax.barh(y, rest / (own + rest) * 100, color="#D8D8D8", height=0.6)
        ax.barh(y, time / (own + rest) * 100, left=rest / (own + rest) * 100, color=style.BLUE, height=0.6)
    ax.text(1, 0, "all else", va="center", fontsize=11)
    ax.text(102, 0, "attention", va="center", color=style.BLUE, fontsize=11)
    ax.set_yticks([0, 1], ["before", f"attention\n{faster:g}× as fast"])
    ax.invert_yaxis()
    ax.set(xlim=(0, 116), xlabel="% of the time before, if all operations take equally long")
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.set_title(f"A context of {context:,} is {context / width:g} · D", **HEAD)
    style.kind_label(ax, "model")
    most = 1 / (1 - share)
    return (
        f"Attention is {share:.0%} of the step. {faster:g} times as fast, it makes the step "
        f"{training_step.gain(share, faster):.2f} times as fast; were it free, {most:.2f} times. "
        f"It is half of the step from {training_step.crossing(width):,.0f} tokens on."
    )


# --- time and memory over the context ---


@style.drawn(
    size=(12.5, 4.0),
    axes=(1, 2),
    alt="left the time of attention and of all else per step over the context, and a hollow diamond; "
    "right memory over the context, a line for each attention",
)
def over_context(axes: Sequence[Axes]) -> None:
    """A step's attention and all else over the context, with the crossing as predicted; and the memory of each attention."""
    time, memory = axes
    ours = steps("attention")
    ts = [x.t for x in ours]
    time.plot(ts, [1e3 * x.rest for x in ours], color=style.BLACK, lw=1.6, ls="--", label="all else")
    time.plot(ts, [1e3 * x.matmul_seconds for x in ours], color=style.BLACK, label="matmuls of the blocks")
    for name in ("SDPA flash", "attention"):
        found = steps(name)
        time.plot(ts, [1e3 * x.attention_seconds for x in found], color=SHADES[name], label=NAMES[name])
    at = training_step.crossing(WIDTH), 1e3 * ours[0].matmul_seconds
    time.plot(*at, "D", mfc="white", mec=style.BLACK, ms=10, mew=1.6, zorder=4)
    time.annotate("12 D, counted", at, (0, -18), textcoords="offset points", ha="center", fontsize=11)
    time.set(ylabel="ms per step", yscale="log")
    time.set_yticks(ticks := [5, 10, 20, 50, 100], [str(y) for y in ticks])
    time.set_title(f"attention() passes the matmuls at {crossing() / WIDTH:.1f} D", **HEAD)
    for name, words in {"plain": "plain PyTorch", "SDPA": "SDPA's choice", "attention": "attention()"}.items():
        peaks = {x.t: x.peak_bytes / 1e9 for x in steps(name)}
        look: dict[str, Any] = {"color": SHADES[name], "lw": 5 if name == "SDPA" else 2.4, "label": words}
        memory.plot(list(peaks), list(peaks.values()), "-o", ms=5, **look)
    room = data.gpu("H200").hbm_gb
    memory.axhline(room, color=style.RED, ls="--", lw=1.3)
    memory.text(ts[-1], room, "all of the H200's ", ha="right", va="bottom", color=style.RED, fontsize=11)
    memory.set(ylabel="GB at most in a step", ylim=(0, 1.15 * room))
    memory.set_title("Only plain PyTorch keeps S", **HEAD)
    for ax in axes:
        ax.set(xscale="log", xlabel="context, tokens")
        ax.set_xticks(ts, [f"{t // 1024}k" for t in ts])
        ax.minorticks_off()
        ax.legend(loc="best")
    note = f"width {WIDTH:,}, {ours[0].n_layer} blocks, {ours[0].tokens:,} tokens a step, bf16"
    style.source_note(time, f"{label('capstone_context')}, {note}")


# --- generation ---


class _Writing(NamedTuple):
    """A character of each of ``batch`` texts behind ``context`` others, with or without a cache: seconds, and what a cache has to read."""

    n_embd: int
    n_layer: int
    parameters: int
    batch: int
    context: int
    how: str
    seconds: float
    bytes: int

    @property
    def rate(self) -> float:
        """Characters per second, of all texts together."""
        return self.batch / self.seconds

    @property
    def bound(self) -> float:
        """The same if reading the bytes at an H200's rate were all."""
        return self.batch * data.gpu("H200").hbm_bytes_per_s / self.bytes


def writing(how: str, batch: int = 1, width: int = 384) -> list[_Writing]:
    """The recorded cells 'cache' or 'no cache' of a batch and a model, by context."""
    found = [x for x in rows(_Writing, "capstone_generation") if (x.how, x.batch, x.n_embd) == (how, batch, width)]
    return sorted(found, key=lambda x: x.context)


@style.drawn(
    size=(12, 3.8),
    axes=(1, 2),
    alt="characters per second over the context, on logarithmic axes, with a cache, without one and as the bytes allow; "
    "a panel for each of two models",
)
def characters_per_second(axes: Sequence[Axes]) -> None:
    """How fast a GPT writes with its cache and without, one text at a time, for two widths, beside the bound of the bytes."""
    for ax, width in zip(axes, (384, 1024), strict=True):
        for how, shade in (("cache", style.BLUE), ("no cache", style.RED)):
            found = writing(how, 1, width)
            ax.plot([x.context for x in found], [x.rate for x in found], "-o", ms=6, color=shade, label=how)
        found = writing("cache", 1, width)
        look: dict[str, Any] = {"mfc": "white", "ms": 8, "color": style.BLACK, "lw": 1.4}
        ax.plot([x.context for x in found], [x.bound for x in found], "--D", **look, label="bytes at 4.8 TB/s")
        ax.set(xscale="log", yscale="log", xlabel="characters so far", ylabel="characters per second")
        ticks = [x.context for x in found]
        ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
        ax.minorticks_off()
        ax.set_ylim(10, 3e5)
        ax.set_title(
            f"{found[0].n_layer} blocks, D = {width:,}, {found[0].parameters / 1e6:.0f} million weights", **HEAD
        )
        ax.legend(loc="best")
    style.source_note(axes[0], f"{label('capstone_generation')}, one text at a time, bf16")


# --- claims ---


def nine_percent() -> list[tuple[str, bool]]:
    """C26: what a kernel of twice the speed would gain in our steps at the same context: within 3 points of 9 %?"""
    t, before, found = 2048, "SDPA flash", []
    for width in sorted({x.n_embd for x in rows(Step, "capstone_context")}):
        share, ratio = step(before, t, width).share, faster(t, before, width)
        twice = 100 * (training_step.gain(share, 2) - 1)
        words = f"width {width:,}, {t:,} tokens: FlashAttention-2 takes {share:.0%} of our step, so twice the speed gains {twice:.0f} %"
        ours = f"attention(), {ratio:.1f} times as fast, gains {100 * (gained(t, before, width) - 1):.0f} %"
        found.append((f"{words}; {ours}", abs(twice - 9) < 3))
    return found


def eight_widths() -> list[tuple[str, bool]]:
    """C27: where attention's operations equal those of the matmuls with weights, counted as the claim does and as our model asks."""
    counted = {
        "no mask, a gated MLP of three matrices": training_step.crossing(WIDTH, gated=True, causal=False),
        "a causal mask, an MLP of two": training_step.crossing(WIDTH),
        "the same, with S computed again backward": training_step.crossing(WIDTH, recomputed=True),
    }
    return [(f"operations, {words}: T = {x / WIDTH:.1f} D", abs(x / WIDTH - 8) < 1) for words, x in counted.items()]

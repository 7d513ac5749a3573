"""Lecture 14: a GPT trained with two attentions and three seeds, judged by what else differs, and what it writes."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from IPython.display import Markdown
from matplotlib.axes import Axes

from course_lib.figures.records import label, rows
from course_lib.show import style

HEAD: dict[str, Any] = {"loc": "left", "fontsize": 13, "weight": "bold"}
OURS, TORCHS = "attention", "SDPA"
SEEDS = (0, 1, 2)


class Loss(NamedTuple):
    """The loss in nats per character of a step, on its batch ('train') or on plays that the model has not read ('validation')."""

    attention: str
    seed: int
    step: int
    part: str
    loss: float


class Sample(NamedTuple):
    """What a model wrote behind ``prompt`` after ``step``, and its loss on unread plays."""

    attention: str
    step: int
    parameters: int
    seconds: float
    validation: float
    temperature: float
    prompt: str
    text: str


def losses(attention: str, seed: int = 0, part: str = "validation") -> dict[int, float]:
    """The recorded losses of a run, step -> loss; raises ValueError for a run that was not recorded."""
    known = [*rows(Loss, "capstone_losses"), *rows(Loss, "capstone_backends")]
    found = {x.step: x.loss for x in known if (x.attention, x.seed, x.part) == (attention, seed, part)}
    if not found:
        raise ValueError(
            f"{attention} with seed {seed} was not recorded; choose one of {sorted({x[:2] for x in known})}"
        )
    return found


def backends() -> list[str]:
    """The other attentions that were recorded with seed 0: SDPA once more, its kernels one by one, and plain PyTorch."""
    return list(dict.fromkeys(x.attention for x in rows(Loss, "capstone_backends")))


def gap(one: tuple[str, int], other: tuple[str, int], part: str = "validation") -> dict[int, float]:
    """How far two runs (attention, seed) are apart at each step that both have."""
    a, b = losses(*one, part), losses(*other, part)
    return {step: abs(a[step] - b[step]) for step in a if step in b}


def yardsticks(part: str = "validation") -> dict[str, dict[int, float]]:
    """The three kinds of gap, the largest of each at each step.

    Two seeds of SDPA; SDPA and itself again, or another of its kernels, with one seed; attention() and SDPA with one seed.
    """
    seeds = [gap((TORCHS, a), (TORCHS, b), part) for i, a in enumerate(SEEDS) for b in SEEDS[i + 1 :]]
    own = [gap((TORCHS, 0), (name, 0), part) for name in backends() if name.startswith(TORCHS)]
    ours = [gap((OURS, seed), (TORCHS, seed), part) for seed in SEEDS]
    names = ("SDPA, two seeds", "SDPA and SDPA, one seed", "attention() and SDPA, one seed")
    return {name: _largest(found) for name, found in zip(names, (seeds, own, ours), strict=True)}


def last(kind: int) -> float:
    """The gap at the end of the 0th, 1st or 2nd kind of ``yardsticks``."""
    return list(list(yardsticks().values())[kind].values())[-1]


def _largest(found: Sequence[dict[int, float]]) -> dict[int, float]:
    return {step: max(each[step] for each in found if step in each) for step in found[0]}


_SHADES = (style.GREY, style.ORANGE, style.BLUE)


@style.drawn(
    size=(12.5, 4.3),
    axes=(1, 3),
    alt="left the loss of six runs over the steps; then three kinds of gap between two runs, in the middle over the first steps on a "
    "logarithmic axis, on the right over all steps",
)
def loss_curves(axes: Sequence[Axes]) -> None:
    """Six runs, two attentions and three seeds each; how pairs of runs part, and how far apart they stay."""
    left, first, right = axes
    for attention, shade, wide in ((TORCHS, style.GREY, 5.0), (OURS, style.BLUE, 1.8)):
        for seed in SEEDS:
            found = losses(attention, seed)
            name = {OURS: "attention()", TORCHS: "SDPA"}[attention] + ", three seeds"
            left.plot(list(found), list(found.values()), color=shade, lw=wide, label=name if seed == 0 else None)
    left.set(xlabel="step", ylabel="loss, nats (unread plays)")
    left.legend(loc="upper right")
    left.set_title("Six runs, one curve", **HEAD)
    for ax, part, most in ((first, "train", 50), (right, "validation", max(losses(OURS)))):
        for (name, found), shade, wide in zip(yardsticks(part).items(), _SHADES, (4.5, 2.4, 2.4), strict=True):
            shown = {step: value for step, value in found.items() if step <= most}
            ax.plot(list(shown), list(shown.values()), "-o", ms=5, color=shade, lw=wide, label=name)
        ax.set(xlabel="step", ylabel=f"gap, nats ({'training' if part == 'train' else 'unread plays'})")
    first.set(yscale="log", ylim=(1e-7, 0.3))
    first.set_title("Rounding grows for twenty steps", **HEAD)
    right.set(ylim=(0, None))
    first.legend(loc="lower right", fontsize=11)
    right.set_title("… and is then like another seed", **HEAD)
    style.source_note(left, f"{label('capstone_losses')}, bf16")


def laptop_curve(losses: Sequence[float], letters: int, single: float, pairs: float) -> style.Picture:
    """The loss of each step of a run on this machine, beside guessing and tables of ``single`` letters and of ``pairs``."""
    return style.picture(
        _laptop,
        losses,
        {
            f"guessing: ln {letters} = {math.log(letters):.2f}": math.log(letters),
            f"a table of letters: {single:.2f}": single,
            f"a table of pairs: {pairs:.2f}": pairs,
        },
        size=(9, 3.4),
        alt="the loss of each training step as a line, and dashed lines for guessing, for a table of letters and for one of pairs",
    )


def _laptop(ax: Axes, losses: Sequence[float], known: dict[str, float]) -> None:
    ax.plot(losses, color=style.BLUE)
    for words, loss in known.items():
        ax.axhline(loss, color=style.GREY, ls="--", lw=1.6)
        below = loss == min(known.values())  # where the curve ends above it
        ax.text(
            len(losses),
            loss - 0.3 if below else loss + 0.05,
            f"{words} ",
            ha="right",
            va="top" if below else "bottom",
            color="#555555",
        )
    ax.set(xlabel="step", ylabel="loss, nats per character", ylim=(0, 1.15 * max(known.values())))
    style.kind_label(ax, "this machine, now")


def samples() -> list[Sample]:
    """What the recorded model wrote, early and at the end."""
    return rows(Sample, "capstone_sample")


def written(place: int = -1, lines: int = 15) -> Markdown:
    """The first lines of one of ``samples``, with its step and its loss."""
    found = samples()[place]
    text = "\n".join(f"{found.prompt} {found.text.strip()}".splitlines()[:lines])
    head = f"*After {found.step + 1:,} steps, {found.validation:.2f} nats per character on unread plays:*"
    return Markdown(f"{head}\n\n```text\n{text}\n```")

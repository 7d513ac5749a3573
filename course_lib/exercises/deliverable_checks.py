"""What three deliverables of lecture 14 are checked by. Each check returns what it found, in words, or raises Refused."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from course_lib import gpt, runtime
from course_lib.instruments.peers import plain_attention

SEEDS, LEAST_STEPS, LAST = 3, 30, 10  # runs of each attention, steps of each, and those at the end whose mean counts
ROUNDING = 1e-3  # nats, above what it leaves between two attentions in float32 after some dozens of steps
CLOSE = 1e-4  # nats, between two attentions in float32 over three steps
LENGTH = 70  # rows that an attention is asked for: more than a model of the page trains with


class Refused(Exception):  # noqa: N818
    """Work that is not accepted yet; ``found``: what holds already."""

    def __init__(self, words: str, found: Sequence[str] = ()) -> None:
        super().__init__(words)
        self.found = list(found)


def swapped(attend: Callable[..., torch.Tensor]) -> list[str]:
    """A causal attention: against float64, in the future, by its gradients, and in a model that trains three steps."""
    q, k, v = (torch.randn(2, 2, LENGTH, 16, generator=_random(i), dtype=torch.float64) for i in range(3))
    leaves = [x.float().to(runtime.device()).requires_grad_() for x in (q, k, v)]
    o = attend(*leaves)
    if not isinstance(o, torch.Tensor) or o.shape != q.shape:
        raise Refused(f"it returns {getattr(o, 'shape', type(o).__name__)}; right is {list(q.shape)}")
    if not torch.isfinite(o).all():
        raise Refused("it returns NaN or infinities: a row's maximum is missing, or -inf - -inf")
    later = [x.detach().clone() for x in leaves]
    for x in later:
        x[:, :, 20:] = 9.0
    if not torch.allclose(attend(*later)[:, :, :20], o[:, :, :20], atol=1e-4):
        raise Refused("what comes later changes what was before: the causal mask is missing, or one key too wide")
    exact = [x.requires_grad_() for x in (q, k, v)]
    right = plain_attention(exact[0], exact[1], exact[2], causal=True)
    if not _near(o, right):
        raise Refused("its results are away from causal attention in float64", ["it does not look ahead"])
    found = ["it does not look ahead", "it is causal attention, against float64"]
    if not o.requires_grad:
        raise Refused("it has no gradients: wrap it as own_kernel.with_gradients does", found)
    weights = torch.randn(q.shape, generator=_random(3), dtype=torch.float64)
    mine = torch.autograd.grad(o, leaves, weights.float().to(o.device), allow_unused=True)
    for name, a, b in zip("qkv", mine, torch.autograd.grad(right, exact, weights), strict=True):
        if a is None:
            raise Refused(f"{name} gets no gradient", found)
        if not _near(a, b):
            raise Refused(f"the gradient of {name} is not that of causal attention", found)
    text, both = gpt.load_text(), []
    for each in (attend, gpt.ATTENTIONS["SDPA"]):
        torch.manual_seed(0)
        sizes: dict[str, Any] = gpt.LAPTOP | {"n_layer": 2}
        model = gpt.GPT(each, vocab_size=len(text.letters), **sizes).to(runtime.device())
        both.append(gpt.fit(model, text.train, steps=3, batch=2, length=32, lr=3e-3).losses)
    apart = max(abs(a - b) for a, b in zip(*both, strict=True))
    found.append("its gradients are those of float64")
    if not apart < CLOSE:
        words = f"after three steps the losses are {apart:.1e} nats apart"
        raise Refused(f"{words}; rounding alone gives less than {CLOSE:g}", found)
    return [*found, f"three training steps: at most {apart:.0e} nats from SDPA"]


def judged(runs: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    """Losses of two attentions with the same seeds: are they what they should be, and which gap is the larger?"""
    if not isinstance(runs, Mapping) or len(runs) != 2:
        raise Refused("hand in a dictionary of two attentions, each with a list of losses for each seed")
    (one, a), (other, b) = ((name, [[float(x) for x in run] for run in each]) for name, each in runs.items())
    if min(len(a), len(b)) < SEEDS or len(a) != len(b):
        raise Refused(f"{one} has {len(a)} seeds and {other} has {len(b)}; train {SEEDS} or more, the same for both")
    lengths = {len(run) for run in a + b}
    if len(lengths) != 1 or min(lengths) < LEAST_STEPS:
        raise Refused(f"runs of {sorted(lengths)} steps; give all the same number, {LEAST_STEPS} or more")
    if not all(math.isfinite(loss) for run in a + b for loss in run):
        raise Refused("a loss is NaN or infinite: look for the first one, and train with a smaller lr")
    guess = math.log(len(gpt.load_text().letters))
    if any(abs(run[0] - guess) > 0.3 for run in a + b):
        words = f"a run begins far from {guess:.2f}, the loss of guessing"
        raise Refused(f"{words}: hand in all losses, from a fresh model")
    found = [f"{len(a)} seeds of each, {lengths.pop()} steps"]
    if any(abs(x[0] - y[0]) > 1e-3 for x, y in zip(a, b, strict=True)):
        words = "with one seed the two attentions begin with different losses"
        raise Refused(f"{words}: not the same start, or not the same batches", found)
    if a == b:
        raise Refused("both attentions have the same losses to the last bit: are these two attentions?", found)
    ends = [[sum(run[-LAST:]) / LAST for run in each] for each in (a, b)]
    if len(set(ends[0])) < len(ends[0]):
        raise Refused("two seeds have the same losses: set the seed before the model is made", found)
    gap = max(abs(x - y) for x, y in zip(*ends, strict=True))
    spread = max(max(each) - min(each) for each in ends)
    if gap >= spread:
        words = f"the attentions end {gap:.2g} nats apart and the seeds {spread:.2g}"
        raise Refused(f"{words}: look for a bug, then train again", found)
    found.append(f"mean of the last {LAST} losses: attentions at most {gap:.1g} nats apart, seeds {spread:.1g}")
    if gap > ROUNDING:
        words = f"in float32 rounding leaves less than {ROUNDING:g}"
        found.append(f"{words}: if these runs are, look at the attention once more")
    return found


def talked(path: Path) -> list[str]:
    """A checkpoint: better than pairs of letters on a play that it has not read, and the same text with a cache as without."""
    if not Path(path).is_file():
        raise Refused(
            f"there is no file {path}: run `python -m course_lib.gpt` first, and pass where it wrote its checkpoint"
        )
    state = gpt.load_checkpoint(Path(path))
    names = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd", "positions", "tied")
    settings = state["settings"]
    model = gpt.GPT(gpt.ATTENTIONS["SDPA"], **{name: settings[name] for name in names})
    model.load_state_dict(state["model"])
    text, length = gpt.load_text(), min(settings["length"], 256)
    loss = gpt.evaluate(model, text.validation, batch=8, length=length, most=8)
    pairs = bigram_loss(text.train, text.validation, len(text.letters))
    found = [f"{len(state['run']['losses']):,} steps, {model.parameter_count:,} parameters"]
    words = f"on the first {64 * length:,} characters of {', '.join(text.held_out)} its loss is {loss:.2f}"
    words += f"; counting pairs of letters gives {pairs:.2f}"
    if not loss < pairs:
        mend = "train longer" if math.isfinite(loss) else "train anew with a smaller --lr"
        raise Refused(f"{words}: {mend}", found)
    found.append(words)
    prompt = text.encode(gpt.PROMPT)[None]
    said, again = (gpt.generate(model.double(), prompt, 60, cache=cache) for cache in ("plain", None))
    if not torch.equal(said, again):
        raise Refused("in float64 it writes another text with a cache than without", found)
    talk = text.decode(gpt.generate(model.float(), prompt, 200, cache="plain", temperature=0.8))
    return [*found, "the same text with a cache as without, in float64", f"it says: {' '.join(talk.split())}"]


def letter_loss(train: torch.Tensor, unread: torch.Tensor, letters: int) -> float:
    """Nats per character of ``unread`` for who knows only how frequent each letter is in ``train``; each counts once more."""
    counts = torch.bincount(train, minlength=letters).double() + 1
    return float(-(counts / counts.sum())[unread].log().mean())


def bigram_loss(train: torch.Tensor, unread: torch.Tensor, letters: int) -> float:
    """Nats per character of ``unread`` for who knows only how often each letter follows each in ``train``; each pair counts once more."""
    pairs = torch.bincount(train[:-1] * letters + train[1:], minlength=letters**2).view(letters, letters).double() + 1
    chances = pairs / pairs.sum(dim=1, keepdim=True)
    return float(-chances[unread[:-1], unread[1:]].log().mean())


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _near(mine: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(torch.allclose(mine.detach().double().cpu(), right.detach().double().cpu(), atol=1e-4, rtol=1e-3))

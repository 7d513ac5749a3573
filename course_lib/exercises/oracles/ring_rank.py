"""Lecture 13: what ring_rank is checked by."""

from collections.abc import Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.exercises.tasks.ring_rank import told


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def tensors(heads: int, tokens: int, d: int) -> list[torch.Tensor]:
        return [torch.randn(heads, tokens, d) for _ in range(3)]

    yield Case("two ranks of one token", (2, *tensors(1, 2, 2)))
    yield Case("one rank has nobody to send to", (1, *tensors(1, 3, 2)))
    yield Case("two ranks of two tokens", (2, *tensors(1, 4, 2)))
    yield Case("four ranks, two heads", (4, *tensors(2, 8, 4)))
    q, k, v = tensors(2, 12, 8)
    q[..., 0], k[..., 0] = 16, 20
    yield Case("three ranks, all scores beyond 100", (3, q, k, v))


def expected(ranks: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    """The whole at once in float64, and the counts of a ring that posts first."""
    q, k, v = (x.double() for x in (q, k, v))
    hidden = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    o = ((q @ k.mT / q.shape[2] ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v).float()
    return told("", o.chunk(ranks, dim=1), [ranks - 1] * ranks, [min(rank + 1, ranks - 1) for rank in range(ranks)])


def _ring(rank, ranks, q, k, v, attend, bug):
    own = k, v
    for step in range(ranks):
        goes_on = step < ranks - 1 or (bug == "once round" and ranks > 1)
        if bug == "keeps" and step > rank:
            goes_on = False
        coming = (k, v)
        if goes_on:
            coming = yield ("post", *(own if bug == "sends its own" else (k, v)))
        if goes_on and bug == "waits first":
            yield ("wait",)
        if step == 0:
            o, L = attend(q, k, v, bug != "no mask")
        elif bug == "next rank" and (rank + step) % ranks > rank:
            pass
        elif bug != "own keys" and (step < rank + (bug != "not rank 0") or bug in ("sees all", "next rank")):
            part, part_L = attend(q, k, v, bug == "always causal")
            both = L.exp().add(part_L.exp()).log() if bug == "overflow" else torch.logaddexp(L, part_L)
            both = torch.maximum(L, part_L) if bug == "the larger" else both
            one, other = (L - both).exp()[..., None], (part_L - both).exp()[..., None]
            one = 1 / one if bug == "upside down" else one
            if bug == "mean":
                o = (o * step + part) / (step + 1)
            elif bug == "plain sum":
                o = o + part
            elif bug == "undivided":
                o = o * L.exp()[..., None] + part * part_L.exp()[..., None]
            elif bug == "overflow of the shares":
                o = (o * L.exp()[..., None] + part * part_L.exp()[..., None]) / (L.exp() + part_L.exp())[..., None]
            elif bug == "part as it is":
                o = o * one + part
            elif bug == "swapped":
                o = o * other + part * one
            else:
                o = o * one + part * other
            L = L + part_L if bug == "L added" else L if bug == "old L" else both
        if goes_on and bug not in ("waits first", "never waits"):
            yield ("wait",)
        k, v = coming
    return o


def _kept(rank, ranks, q, k, v, attend):
    """Keeps all results and weights them at the end, by e^L as it stands."""
    parts = []
    for step in range(ranks):
        if step < ranks - 1:
            coming = yield ("post", k, v)
        if step <= rank:
            parts.append(attend(q, k, v, step == 0))
        if step < ranks - 1:
            yield ("wait",)
            k, v = coming
    o, L = (torch.stack(x) for x in zip(*parts))
    return (o * (L.exp() / L.exp().sum(0))[..., None]).sum(0)


def _early(rank, ranks, q, k, v, attend):
    """Attends to what has been posted for, and waits afterwards."""
    o, L = attend(q, k, v, True)
    for step in range(1, ranks):
        k, v = yield ("post", k, v)
        if step <= rank:
            part, part_L = attend(q, k, v, False)
            both = torch.logaddexp(L, part_L)
            o, L = o * (L - both).exp()[..., None] + part * (part_L - both).exp()[..., None], both
        yield ("wait",)
    return o


WRONG = variants(
    _ring,
    {
        "if you wait before you attend, or post after it: the message travels while nobody computes": "waits first",
        "if nobody waits: the new keys are NaN, and the messages of a rank that ends are still under way": "never waits",
        "if a rank attends to the keys of later ranks, too: these lie in the future of all its queries": "sees all",
        "if each block is masked as if it were the diagonal one: from step 1 on a rank sees all of a block or nothing": "always causal",
        "if the rank's own block has no mask": "no mask",
        "if a rank passes on no keys that it does not need itself: those behind it wait for them": "keeps",
        "if a rank sends its own keys each time: those that came last travel on": "sends its own",
        "if the keys go once round, back to their rank: nobody needs them there": "once round",
        "if results are averaged: each counts by the sum of its weights, e^L": "mean",
        "if L stays that of the first block: each merge needs the L of all keys so far": "old L",
        "if the two L are added: it is their e^L that add up": "L added",
        "if L is the logarithm of e^L + e^L as it stands: beyond 88 float32 overflows; logaddexp takes off the larger": "overflow",
        "if the larger L is taken for that of both: it is their e^L that add up": "the larger",
        "if the share of o so far is upside down: it is e^(L − the L of both), at most 1": "upside down",
        "if the shares are e^L over the sum of both, as they stand: beyond 88 that is ∞ / ∞": "overflow of the shares",
        "if results are added: each is an average, and counts by its share, e^(L − the L of both)": "plain sum",
        "if the results are weighted by e^L, and the sum is not divided by the weights'": "undivided",
        "if the two shares change places": "swapped",
        "if a block's o is added with its whole weight: it has a share": "part as it is",
        "if a rank attends to its own keys alone": "own keys",
        "if the keys are taken to come from the next rank: step s brings those of rank − s": "next rank",
        "if the keys of rank 0 are left out: the last step that a rank sees is that of its own number": "not rank 0",
    },
) | {
    "if you attend to the new keys before the wait: until then they are NaN": _early,
    "if all results are kept, and weighted by e^L over the sum of these as they stand: beyond 88 that is ∞ / ∞": _kept,
}

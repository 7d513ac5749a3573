"""Lecture 13: what ulysses_rank is checked by."""

import math
from collections.abc import Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.exercises.tasks.ulysses_rank import told


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def tensors(tokens: int, d: int, heads: int, kv_heads: int) -> list[torch.Tensor]:
        return [torch.randn(h, tokens, d) for h in (heads, kv_heads, kv_heads)]

    yield Case("one rank keeps all", (1, *tensors(2, 2, 2, 1)))
    yield Case("two ranks, two heads", (2, *tensors(4, 2, 2, 2)))
    yield Case("two ranks, four heads", (2, *tensors(4, 2, 4, 4)))
    yield Case("two KV heads for four heads", (2, *tensors(6, 4, 4, 2)))
    yield Case("four ranks, two KV heads", (4, *tensors(8, 4, 4, 2)))
    yield Case("four ranks, eight heads, two KV heads", (4, *tensors(4, 4, 8, 2)))
    yield Case("two ranks, six heads, three KV heads", (2, *tensors(4, 4, 6, 3)))


def expected(ranks: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    """Head after head, in float64."""
    group = q.shape[0] // k.shape[0]
    o = []
    for head, mine in enumerate(q.double()):
        keys, values = (x[head // group].double() for x in (k, v))
        o.append(torch.softmax(mine @ keys.T / math.sqrt(q.shape[2]), 1) @ values)
    return told("", torch.stack(o).float().chunk(ranks, dim=1), "", "")


def _ulysses(rank, ranks, q, k, v, attend, bug):
    times = math.lcm(k.shape[0], ranks) // k.shape[0]
    if bug == "all heads":
        times = q.shape[0] // k.shape[0]
    elif bug == "no repeat":
        times = 1
    elif bug == "by the ranks":
        times = 1 if times == 1 else ranks
    elif bug in ("quotient", "quotient, cut off"):
        times = max(1, ranks // k.shape[0])
    repeat = {"tiled": lambda x: x.repeat(times, 1, 1), "first head": lambda x: x[:1].expand(q.shape[0], -1, -1)}.get(
        bug, lambda x: x.repeat_interleave(times, dim=0)
    )
    mine: list[torch.Tensor] = []
    for x in (q, repeat(k), repeat(k if bug == "k for v" else v)):
        shares = list(x.chunk(ranks, dim=1 if bug == "cut along tokens" else 0))
        if bug == "quotient, cut off":
            shares = list(x.split(len(x) // ranks))[:ranks]
        if bug == "dealt out" or (bug == "Q dealt out" and not mine):
            shares = [x[r::ranks] for r in range(ranks)]
        got = yield ("exchange", shares)
        got = got[::-1] if bug == "last rank first" else got
        got = [*got[rank:], *got[:rank]] if bug == "own first" else got
        whole = torch.cat(got, dim=0 if bug in ("along the heads", "cut along tokens") else 1)
        if bug == "reshaped":
            whole = torch.cat(got, dim=0).reshape(whole.shape)
        mine.append(x[: len(shares[0])] if bug == "keys stay" and mine else whole)
    o, _ = attend(*mine)
    if bug == "no way back":
        return o
    if bug == "back by heads":
        got = yield ("exchange", list(o.chunk(ranks, dim=0)))
        return torch.cat(got, dim=0)
    if bug == "own rows":
        return o.chunk(ranks, dim=1)[rank]
    shares = list(o.chunk(ranks, dim=1))
    if bug == "back in strides":
        shares = [o[:, r::ranks] for r in range(ranks)]
    if bug == "gather":
        shares = [o] * ranks
    got = yield ("exchange", shares)
    if bug == "back reshaped":
        return torch.cat(got, dim=1).reshape(q.shape)
    return torch.cat(got, dim=1 if bug == "back along tokens" else 0)


def _everything(rank, ranks, q, k, v, attend):
    whole = []
    for x in (q, k, v):
        got = yield ("exchange", [x] * ranks)
        whole.append(torch.cat(got, dim=1))
    return attend(*whole)[0].chunk(ranks, dim=1)[rank]


def _keys_to_all(rank, ranks, q, k, v, attend):
    keys = yield ("exchange", [k] * ranks)
    values = yield ("exchange", [v] * ranks)
    queries = yield ("exchange", list(q.chunk(ranks, dim=0)))
    heads, group = q.shape[0] // ranks, q.shape[0] // k.shape[0]
    mine = slice(rank * heads, (rank + 1) * heads)
    k, v = (torch.cat(x, dim=1).repeat_interleave(group, dim=0)[mine] for x in (keys, values))
    o, _ = attend(torch.cat(queries, dim=1), k, v)
    got = yield ("exchange", list(o.chunk(ranks, dim=1)))
    return torch.cat(got, dim=0)


def _gathered(rank, ranks, q, k, v, attend):
    keys = yield ("exchange", [k] * ranks)
    values = yield ("exchange", [v] * ranks)
    o, _ = attend(q, torch.cat(keys, dim=1), torch.cat(values, dim=1))
    return o


WRONG = variants(
    _ulysses,
    {
        "if the second exchange is forgotten: o is still that of all tokens and a few heads": "no way back",
        "if a rank keeps only its rows of its own heads: the other heads' rows are with the other ranks": "own rows",
        "if parts are put together along the heads and reshaped: cat along the tokens": "reshaped",
        "if heads are dealt out one by one, 0 2 and 1 3: a rank has consecutive ones": "dealt out",
        "if the heads of q alone are dealt out one by one: theirs of k and v lie with other ranks": "Q dealt out",
        "if the parts are put together from the last rank to the first: they come by rank": "last rank first",
        "if a rank puts its own part first: the parts come by rank": "own first",
        "if k is exchanged twice, in place of v, too": "k for v",
        "if a rank gets back every so many tokens: its own are consecutive": "back in strides",
        "if heads of k and v are repeated as often as there are ranks": "by the ranks",
        "if heads of k and v are repeated ranks // H_k times: with 3 heads on 2 ranks that is not enough": "quotient",
        "if heads of k and v are repeated ranks // H_k times and shared out by //: 3 heads on 2 ranks leave one over": "quotient, cut off",
        "if o comes back along the tokens and is reshaped: cat along the heads": "back reshaped",
        "if parts are put together along the heads: they are other tokens of the same heads": "along the heads",
        "if the first exchange cuts the tokens: it deals out heads": "cut along tokens",
        "if o is put together along the tokens: the parts are other heads of the same tokens": "back along tokens",
        "if KV heads are repeated all together, 0 1 0 1: consecutive heads of q share one, 0 0 1 1": "tiled",
        "if all heads share the first KV head": "first head",
        "if only Q is exchanged: its heads need the keys of all tokens": "keys stay",
        "if all of o is sent to everyone: each rank wants the rows of its tokens": "gather",
        "if no head of k and v is repeated: there are fewer than ranks, or some are needed by two": "no repeat",
        "if heads of k and v are repeated up to those of q: the least common multiple of H_k and the ranks is enough": "all heads",
        "if o goes back by heads: it is cut along the tokens, and put together along the heads": "back by heads",
    },
) | {
    "if everything is sent to everyone: no head is dealt out, and each rank computes all": _everything,
    "if every rank gets all heads of K and V: it needs those of its share of the heads": _keys_to_all,
    "if every rank gets all heads of K and V: these are its tokens with everybody's keys, and no head has moved for them": _gathered,
}

"""Lecture 05: what attention_sink is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

INF = math.inf


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def case(words: str, L: list[list[float]], sink: list[float], d: int = 3) -> Case:
        rows = torch.tensor(L)
        O = torch.randn(*rows.shape, d).masked_fill((rows == -INF)[:, :, None], 0.0)
        return Case(words, (O, rows, torch.tensor(sink)))

    by_hand = torch.tensor([[[12.689414]]]), torch.tensor([[3.3132617]])
    yield Case("3, 2 with 10, 20 and a sink of 3", (*by_hand, torch.tensor([3.0])))
    yield Case("no sink", (*by_hand, torch.tensor([-INF])))
    yield case("a sink far above: nothing is left to the values", [[1.0, -2.0]], [60.0])
    yield case("a sink far below", [[1.0, -2.0]], [-60.0])
    yield case("two heads, three queries", [[1.0, 0.5, -1.0], [2.0, 3.0, 0.0]], [2.0, -1.0])
    yield case("as many heads as queries", [[1.0, 2.0], [-1.0, 0.5]], [2.0, -2.0], d=2)
    yield case("L in the hundreds", [[200.0, 300.0]], [150.0])
    yield case("L and sink far below 0", [[-200.0, -2000.0]], [-1000.0])
    yield case("L and sink in the ten thousands", [[20000.0, -20000.0]], [10000.0])
    yield case("a row without a key, and a sink", [[1.0, -INF]], [0.5])
    yield case("a row without a key, and no sink", [[1.0, -INF], [-INF, 2.0]], [-INF, 1.0])
    yield Case("three heads, 16 queries", (torch.randn(3, 16, 8), torch.randn(3, 16) * 4, torch.randn(3) * 4))


def expected(O: torch.Tensor, L: torch.Tensor, sink: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row by row: the softmax of two scores, L with the value O and the sink with the value 0."""
    out, sums = torch.zeros(O.shape), torch.full(L.shape, -INF)
    for h, row in ((h, row) for h in range(L.shape[0]) for row in range(L.shape[1])):
        one, other = float(L[h, row]), float(sink[h])
        if one > -INF:
            out[h, row] = (O[h, row].double() / (1 + math.exp(min(700.0, other - one)))).float()
        if max(one, other) > -INF:
            sums[h, row] = max(one, other) + math.log1p(math.exp(-abs(one - other)))
    return out, sums


def _sink(O, L, sink, bug):
    s = sink[None, :] if bug == "by query" and len(sink) == L.shape[1] else sink[:, None]
    if bug == "one for all":
        s = sink.max()
    if bug == "the first for all":
        s = sink[:1, None]
    if bug == "ratio":
        new = L + torch.log(1 + torch.exp(s - L))
    elif bug in ("overflow", "overflow of both", "no 0/0"):
        new = torch.log(torch.exp(L) + torch.exp(s))
    elif bug == "off by one":
        new = torch.logaddexp(L, torch.zeros(()))
    elif bug == "the larger":
        new = torch.maximum(L, s)
    elif bug == "a score for all":
        new = L + s
    else:
        new = torch.logaddexp(L, s)
    power = torch.exp2 if bug == "share in base 2" else torch.exp
    share = power(new - L if bug == "inverse" else s - new if bug == "the sink's" else L - new)
    if bug in ("overflow of both", "no 0/0"):
        share = torch.exp(L) / (torch.exp(L) + torch.exp(s))
        share = share if bug == "overflow of both" else share.masked_fill(torch.exp(L) + torch.exp(s) == 0, 0.0)
    elif bug == "ratio":
        share = 1 / (1 + torch.exp(s - L))
    elif bug != "empty":
        share = share.masked_fill(L == -INF, 0.0)
    O_new = O if bug == "O kept" else O * share[:, :, None]
    alone = {"L kept": L, "added to L alone": L + s, "base 2": torch.logaddexp2(L, s * torch.ones_like(L))}
    return O_new, alone.get(bug, new)


WRONG = variants(
    _sink,
    {
        "if L stays as it was: whoever merges this result with another gives it too little weight": "L kept",
        "if O stays as it was: the sink takes a part of every row's weight": "O kept",
        "if the sinks are laid along the queries: each belongs to a head, for all its queries": "by query",
        "if one sink serves all heads: each head has its own": "one for all",
        "if the first head's sink serves all heads: each head has its own": "the first for all",
        "if L grows by the sink: e^sink is added to e^L": "added to L alone",
        "if L is taken for a logarithm of base 2, as by logaddexp2: it is a natural one": "base 2",
        "if O's share is a power of 2: L and the sink are natural logarithms": "share in base 2",
        "if the new L is the larger of L and the sink: e^L and e^sink add up": "the larger",
        "if e^L and e^sink are computed as they are: both may overflow, or vanish": "overflow",
        "if O's share is a quotient of e^L and e^L + e^sink as they are: both may overflow, or vanish": "overflow of both",
        "if e^L and e^sink are computed as they are, and only 0/0 is looked for: ∞ / ∞ is NaN, too": "no 0/0",
        "if e^(sink − L) is computed as it is: with a sink far above L it overflows": "ratio",
        "if O is multiplied by the inverse factor: the weights shrink": "inverse",
        "if O gets the sink's share of the weight instead of what is left of it": "the sink's",
        "if the sum grows by 1 whatever the sink is: that is a sink of 0": "off by one",
        "if the sink is added to L: it is a score like any other, and e^sink is added to e^L": "a score for all",
        "if a row with neither key nor sink is forgotten: −∞ − (−∞) is NaN": "empty",
    },
)

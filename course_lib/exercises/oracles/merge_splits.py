"""Lecture 08: what merge_splits is checked by."""

import math
import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def _splits(scores: torch.Tensor, values: torch.Tensor, cuts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """(O_s, L_s) of scores [n, keys], where −∞ is a key that a row does not see, over values [keys, d]; NaN where nothing is written."""
    parts = zip(torch.tensor_split(scores, cuts, dim=1), torch.tensor_split(values, cuts))
    found = [(torch.softmax(s.double(), 1) @ v.double(), torch.logsumexp(s.double(), 1)) for s, v in parts]
    O_s, L_s = (torch.stack(x).float() for x in zip(*found))
    O_s[L_s == -math.inf] = math.nan
    return O_s, L_s


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    inf = math.inf
    by_hand = torch.tensor([[3.0, 2.0, 5.0, 1.0]]), torch.tensor([[10.0], [20.0], [30.0], [40.0]])
    yield Case("3, 2 and 5, 1", _splits(*by_hand, [2]))
    yield Case("one split", _splits(*by_hand, []))
    yield Case("3 and 2, 5, 1: splits of different lengths", _splits(*by_hand, [1]))
    yield Case("a split without a key", _splits(*by_hand, [2, 2]))
    yield Case("no split has a key", _splits(torch.full((1, 2), -inf), torch.zeros(2, 1), [1]))
    scores, values = torch.randn(3, 12), torch.randn(12, 4)
    yield Case("three rows, four splits", _splits(scores, values, [3, 6, 9]))
    yield Case("all scores far below 0", _splits(scores - 1000, values, [3, 6, 9]))
    yield Case("scores near 1,000: e^L overflows", _splits(scores + 1000, values, [3, 6, 9]))
    yield Case("rows 200 apart", _splits(scores + torch.tensor([[0.0], [200.0], [-200.0]]), values, [4, 8]))
    seen = scores.clone()
    seen[0, :6], seen[1] = -inf, -inf
    yield Case("a row sees only the last splits, another nothing", _splits(seen, values, [3, 6, 9]))
    yield Case("a late spike", _splits(torch.cat([scores, scores[:, :1] + 90], 1), torch.randn(13, 4), [5, 10]))
    yield Case(
        "64 splits, scores times ten", _splits(10 * torch.randn(8, 200), torch.randn(200, 16), list(range(3, 192, 3)))
    )


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    torch.manual_seed(draw.randrange(2**62))
    for _ in range(6):
        n, keys, d = draw.randint(1, 6), draw.randint(2, 40), draw.randint(1, 8)
        scores = torch.randn(n, keys) * draw.choice((1, 10)) + draw.choice((0, -500, 500))
        scores[torch.rand(n, keys) < draw.choice((0.0, 0.5))] = -math.inf
        cuts = sorted(draw.randint(0, keys) for _ in range(draw.randint(0, 6)))
        yield Case("any splits", _splits(scores, torch.randn(keys, d), cuts))


def expected(O_s: torch.Tensor, L_s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row by row in double precision: a split is one key with the score L_s and the value O_s."""
    _, n, d = O_s.shape
    O, L = torch.zeros(n, d), torch.full((n,), -math.inf)
    for i in range(n):
        there = L_s[:, i] > -math.inf
        if there.any():
            scores = L_s[there, i].double()
            O[i], L[i] = torch.softmax(scores, 0) @ O_s[there, i].double(), torch.logsumexp(scores, 0)
    return O, L


def _merge(O_s, L_s, bug):
    there = L_s > -math.inf
    O_s = O_s if bug == "0 · NaN" else O_s.masked_fill(~there[:, :, None], 0)
    m = L_s.max() * torch.ones(L_s.shape[1]) if bug == "one maximum" else L_s.amax(0)
    shift = m if bug == "all empty" else m.masked_fill(m == -math.inf, 0)
    if bug == "no maximum":
        shift = torch.zeros_like(m)
    weights = torch.exp2(L_s - shift) if bug == "base 2 in the merge" else torch.exp(L_s - shift)
    if bug == "L as base 2":
        weights = torch.exp((L_s - shift) / math.log(2))
    if bug == "mean":
        weights = there.float()
    total = weights.sum(0)
    O = (weights[:, :, None] * O_s).sum(0)
    if bug != "not divided":
        O = O / (total if bug == "all empty" else total.masked_fill(total == 0, 1))[:, None]
    L = shift + torch.log(total)
    if bug == "L added":
        L = L_s.masked_fill(~there, 0).sum(0).masked_fill(~there.any(0), -math.inf)
    return O, m if bug == "largest L" else L


WRONG = variants(
    _merge,
    {
        "if the outputs are averaged, all splits alike: each counts by its share e^(L_s − L)": "mean",
        "if e^L is taken without subtracting the row's largest L first: it overflows, or vanishes": "no maximum",
        "if one maximum serves all rows: each has its own": "one maximum",
        "if the weights are powers of 2: L is a natural logarithm": "base 2 in the merge",
        "if L is taken for a base-2 logarithm, and multiplied by 1/ln 2: the ratio of two splits r becomes r^1.44": "L as base 2",
        "if a row without any key is forgotten: −∞ − (−∞) is NaN": "all empty",
        "if what an empty split left in O_s is multiplied by 0: 0 · NaN is NaN": "0 · NaN",
        "if the weighted outputs are not divided by the sum of the weights": "not divided",
        "if the largest L_s is returned as L": "largest L",
        "if the L_s are added: sums of exponentials add, their logarithms do not": "L added",
    },
)

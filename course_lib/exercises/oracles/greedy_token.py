"""Lecture 02: what greedy_token is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

INF = math.inf


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def case(words: str, *blocks: list[float]) -> Case:
        return Case(words, ([torch.tensor(x) for x in blocks],))

    yield case("3, 2 and then 5, 1", [3.0, 2.0], [5.0, 1.0])
    yield case("one token", [7.0])
    yield case("the largest in the first block", [2.0, 6.0], [5.0, 1.0], [4.0, 0.0])
    yield case("blocks of different lengths", [1.0, 2.0, 0.5], [3.0], [0.0, 4.0, 3.5, 1.0])
    yield case("equal scores: the first token wins", [1.0, 4.0, 4.0], [4.0, 0.0], [4.0])
    yield case("each block larger than the one before", [0.0, 1.0], [2.0, 3.0], [5.0, 4.0], [7.0, 6.0])
    yield case("all scores far below 0", [-1001.0, -1000.0], [-1000.5, -999.0])
    yield case("scores in the thousands", [0.0, 1000.0], [3000.0, 2999.0])
    yield case("forbidden tokens", [-INF, 2.0], [3.0, -INF])
    yield case("a first block of forbidden tokens", [-INF, -INF, -INF], [2.0, 1.0], [-INF])
    yield case("scores at the lower end of fp32", [-3.1e38, -3e38], [-3.2e38])
    sizes = (100, 7, 250, 1, 64)
    yield Case("422 scores, times ten", ([10 * torch.randn(n) for n in sizes],))
    yield Case("the same block eight times: each token has an eighth", ([torch.tensor([0.0, 50.0])] * 8,))


def expected(blocks: list[torch.Tensor]) -> tuple[int, float]:
    """With all scores at hand, in float64."""
    scores = [x for block in blocks for x in block.tolist()]
    return scores.index(max(scores)), 1 / math.fsum(math.exp(x - max(scores)) for x in scores)


def _greedy(blocks, bug):
    if bug == "kept":
        x = torch.cat(list(blocks))
        return int(x.argmax()), float(torch.softmax(x, 0)[x.argmax()])
    blocks = list(blocks) if bug == "a list" else blocks
    share, (m, l, token, before) = 0.0, ({"m from 0": 0.0, "finite m": -1e9}.get(bug, -INF), 0.0, 0, 0)
    for number, x in enumerate(blocks):
        top = float(x.max())
        new = max(m, top)
        first = {"within": 0, "equal lengths": number * len(x), "next": before + len(x)}.get(bug, before)
        if top > m or (bug == "last of equals" and top == m):
            token = first + int((x == top).nonzero()[-1 if bug == "last of equals" else 0])
        if new > -INF or bug == "no number":
            old = 1.0 if bug in ("not rescaled", "no maximum") else math.exp(m - new)
            old = 0.0 if bug == "replaced" and top > -INF else old
            l = l * old + float(torch.exp(x - {"no maximum": 0.0, "own": top}.get(bug, new)).sum())
        if top > m:
            share = 1 / float(torch.exp(x - top).sum())
        m = new
        before += len(x)
    if bug == "no maximum":
        return token, float(torch.tensor(m).exp() / l)
    if bug == "score":
        return token, m
    if bug == "block's share":
        return token, share
    return token, 1 / l


WRONG = variants(
    _greedy,
    {
        "if the token is counted within its block: count from the first token of all": "within",
        "if every block is taken to be as long as this one: add up the lengths": "equal lengths",
        "if the block's length is added before its token is counted: that is where the next block begins": "next",
        "if the last of equal scores wins: it has to be larger, not as large": "last of equals",
        "if ℓ is not rescaled when a larger score comes": "not rescaled",
        "if a block's scores are measured from its own maximum instead of m": "own",
        "if the score comes back in place of its probability": "score",
        "if each block's sum replaces ℓ instead of adding to it": "replaced",
        "if the blocks are kept and looked at later: each is gone when the next comes": "kept",
        "if list(blocks) comes before the loop: by then each block is NaN, and nothing is added to ℓ": "a list",
        "if the probability is that within the token's block: ℓ has to hold all scores": "block's share",
        "without subtracting the maximum: large scores overflow": "no maximum",
        "if m starts at 0 instead of −∞: all scores far below 0 then vanish": "m from 0",
        "if m starts at a number such as −10⁹ instead of −∞: scores may lie below it": "finite m",
        "if a block of −∞ alone is forgotten: −∞ − (−∞) is NaN": "no number",
    },
)

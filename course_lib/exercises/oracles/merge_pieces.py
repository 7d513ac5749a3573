"""Lecture 08: what merge_pieces is checked by."""

import math
from collections.abc import Iterable, Sequence

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

INF = math.inf


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def case(words: str, L: Sequence[float], owner: Sequence[int], n: int, d: int = 2) -> Case:
        sums = torch.tensor(L)
        O = torch.randn(len(L), d).masked_fill((sums == -INF)[:, None], math.nan)
        return Case(words, (O, sums, torch.tensor(owner), n))

    by_hand = [[12.689414], [30.179862]], [4.7800262, 7.2396600]
    yield Case("3, 2 and 5, 1: two pieces of one row", (*map(torch.tensor, by_hand), torch.tensor([0, 0]), 1))
    yield case("a piece for each row", [1.0, -2.0, 3.0], [0, 1, 2], 3)
    yield case("two rows, their pieces in any order", [1.0, 4.0, 2.5, -1.0, 3.0], [1, 0, 1, 0, 1], 2)
    yield case("pieces of equal weight", [2.0, 2.0, 2.0], [0, 0, 1], 2)
    yield case("more pieces than rows, d = 1", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [0, 0, 0, 1, 0, 0], 2, d=1)
    yield case("a piece without a key", [1.0, -INF, 2.0], [0, 0, 1], 2)
    garbage = torch.tensor([[1.5, -0.5], [INF, -INF], [0.5, 2.0], [7.0, 7.0]])
    L = torch.tensor([1.0, -INF, 2.0, -INF])
    yield Case("pieces without a key that hold ∞ and 7", (garbage, L, torch.tensor([0, 0, 1, 2]), 3))
    yield case("a row whose pieces have no key", [-INF, 1.0, -INF], [0, 1, 0], 2)
    yield case("rows without a piece, the last one too", [1.0, 2.0, 0.0], [2, 0, 2], 4)
    yield case("one row far above the other", [3000.0, 3001.0, -2000.0, -2002.0], [0, 0, 1, 1], 2)
    yield case("all far below 0", [-20000.0, -20003.0, -30000.0], [0, 0, 1], 2)
    yield case("a piece far below another of its row", [1.0, -5000.0, 0.0], [0, 0, 1], 2)
    owner = torch.randint(0, 7, (40,))
    yield Case("40 pieces of 7 rows", (torch.randn(40, 8), 4 * torch.randn(40), owner, 7))


def expected(O_p: torch.Tensor, L_p: torch.Tensor, owner: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row by row in float64, as the softmax of one score for each piece."""
    O, L = torch.zeros(n, O_p.shape[1]), torch.full((n,), -INF)
    for row in range(n):
        mine = [i for i in range(len(owner)) if int(owner[i]) == row and float(L_p[i]) > -INF]
        if mine:
            scores = L_p[mine].double() * math.log(2)
            O[row] = (torch.softmax(scores, 0) @ O_p[mine].double()).float()
            L[row] = float(torch.logsumexp(scores, 0)) / math.log(2)
    return O, L


def _pieces(O_p, L_p, owner, n, bug):
    if bug == "in order":
        owner = owner.sort().values
    if bug == "as many rows as seen":
        n = int(owner.max()) + 1
    m = torch.full((n,), -INF).scatter_reduce(0, owner, L_p, "amax")
    keyless = m == -INF
    if bug == "one maximum":
        m = m.max().expand(n)
    if bug == "logsumexp":
        return _by_logsumexp(O_p, L_p, owner, n)
    shift = m if bug in ("no key", "no guard") else m.masked_fill(m == -INF, 0)
    if bug in ("no maximum", "as it is"):
        shift = torch.zeros(n)
    power = torch.exp if bug in ("base e", "weights in base e") else torch.exp2
    weights = power(L_p - shift[owner])
    if bug == "equal":
        weights = (L_p > -INF).float()
    as_written = ("unwritten", "unwritten, rows guarded", "no guard", "as it is")
    written = O_p if bug in as_written else O_p.masked_fill((L_p == -INF)[:, None], 0)
    if bug == "told by NaN":
        weights = weights.masked_fill(O_p.isnan().any(1), 0)
        written = O_p.masked_fill(O_p.isnan(), 0)
    total, O = torch.zeros(n), torch.zeros(n, O_p.shape[1])
    if bug in ("once", "once, of those with keys"):
        for i in range(len(owner)) if bug == "once" else (L_p > -INF).nonzero().flatten().tolist():
            total[owner[i]], O[owner[i]] = weights[i], weights[i] * written[i]
    else:
        total.index_add_(0, owner, weights)
        if bug == "O once":
            for i, row in enumerate(owner):
                O[row] = weights[i] * written[i]
        else:
            O.index_add_(0, owner, weights[:, None] * written)
    if bug == "one maximum":
        O = O / total.masked_fill(keyless, 1)[:, None]
    elif bug != "undivided":
        unguarded = bug in ("0/0", "no guard", "as it is")
        O = O / (total if unguarded else total.masked_fill(total == 0, 1))[:, None]
    if bug == "unwritten, rows guarded":
        O = O.masked_fill((total == 0)[:, None], 0)
    L = shift + (torch.log(total) if bug in ("base e", "ln") else torch.log2(total))
    if bug == "equal":
        L = shift + torch.log2(torch.zeros(n).index_add(0, owner, torch.exp2(L_p - shift[owner])))
    added = torch.zeros(n).index_add(0, owner, L_p.masked_fill(L_p == -INF, 0)).masked_fill(m == -INF, -INF)
    L = {"L added": added, "L is m": m, "L without m": torch.log2(total)}.get(bug, L)
    return O, L * math.log(2) if bug == "L in base e" else L


def _by_logsumexp(O_p, L_p, owner, n):
    """Row by row, as one writes it first: L knows −∞, the shares do not."""
    mine = [owner == row for row in range(n)]
    L = torch.stack([torch.logsumexp(L_p[of] * math.log(2), 0) / math.log(2) for of in mine])
    return torch.stack([(torch.exp2(L_p[of] - one)[:, None] * O_p[of]).sum(0) for of, one in zip(mine, L)]), L


WRONG = variants(
    _pieces,
    {
        "if base 2 is taken for base e: the strong pieces count too much": "base e",
        "if the weights are powers of e: L_p is a logarithm in base 2": "weights in base e",
        "if L comes back as a natural logarithm: it is asked for in base 2": "L in base e",
        "if L is the largest L_p of the row: it lacks log2 of the sum": "L is m",
        "if L is log2 of the sum alone: the sum was measured from the maximum, which has to be added": "L without m",
        "if L is the maximum plus ln of the sum: both are in base 2": "ln",
        "if −∞ is forgotten: unwritten averages give 0 · NaN, and rows without a key −∞ − (−∞) and 0/0": "no guard",
        "if the shares are 2^(L_p − L) without a look at −∞: a share of 0 times NaN is NaN, and so is −∞ − (−∞)": "logsumexp",
        "if pieces without a key are told by NaN: what was never written may be any number": "told by NaN",
        "if one maximum serves all rows: in a row far below it all weights vanish, and 0/0 is NaN": "one maximum",
        "if all pieces of a row count alike: each counts by its weight": "equal",
        "if of several pieces of a row one replaces the other, as with x[owner] += y": "once",
        "if the pieces are taken to come in the order of their rows: owner says whose each is": "in order",
        "if the L_p of a row are added: it is their 2^L that add up": "L added",
        "if the weights of a row are added up, but of its averages one replaces the other, as with O[owner] += y": "O once",
        "if of several pieces with keys the last one counts alone": "once, of those with keys",
        "if a piece without a key takes part with the weight 0: what stands in its average may be NaN": "unwritten, rows guarded",
        "if O is not divided by the sum of the weights": "undivided",
        "without subtracting a maximum: 2^L overflows": "no maximum",
        "if 2^L is the weight as it is: it overflows, and nothing looks for −∞: 0 · NaN and 0/0 are NaN": "as it is",
        "if the average of a piece without a key is multiplied by 0: 0 · NaN is NaN": "unwritten",
        "if a row without a key is divided by its sum: 0/0 is NaN": "0/0",
        "if a row without a key is measured from its maximum: −∞ − (−∞) is NaN": "no key",
        "if there are as many rows as the largest owner says: the last ones may have no piece": "as many rows as seen",
    },
)

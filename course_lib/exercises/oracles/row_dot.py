"""Lecture 07: what row_dot is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def drawn(n: int, keys: int, d: int, block: slice, kind: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
        """One block of an attention over all keys."""
        p = torch.softmax(2 * torch.randn(n, keys), dim=1)
        v, do = torch.randn(keys, d), torch.randn(n, d)
        return (p @ v).to(kind), do.to(kind), p[:, block], (do @ v.T)[:, block]

    all_keys = slice(None)
    by_hand = [[[2.0], [2.5]], [[1.0], [2.0]], [[0.5, 0.5], [0.25, 0.75]], [[1.0, 3.0], [2.0, 6.0]]]
    yield Case("the 2 × 2 case by hand", tuple(torch.tensor(x) for x in by_hand))
    one_key = [[[1.0, -2.0, 0.5]], [[2.0, 0.5, 4.0]], [[1.0]], [[3.0]]]
    yield Case("one query, one key: dS is 0", tuple(torch.tensor(x) for x in one_key))
    yield Case("all 5 keys in the block", drawn(4, 5, 3, all_keys))
    yield Case("keys 2 and 3 of 5", drawn(4, 5, 3, slice(2, 4)))
    yield Case("as many keys as queries, as large a d", drawn(6, 6, 6, all_keys))
    yield Case("a block of 4 keys of 10 for 4 queries", drawn(4, 10, 4, slice(4, 8)))
    o, do, p, dp = drawn(5, 8, 4, slice(4, 8))
    p[:2] = 0.0
    yield Case("rows that see no key of the block", (o, do, p, dp))
    yield Case("a ragged block of one key", drawn(9, 7, 16, slice(6, 7)))
    large = torch.tensor([[300.0, 250.0], [400.0, 300.0]]).half()
    yield Case("float16, with products beyond 65,504", (large, large.flip(1), p[2:4, :3], dp[2:4, :3]))
    yield Case("float16 o and do, d = 1", drawn(8, 12, 1, slice(0, 8), torch.float16))


def expected(o: torch.Tensor, do: torch.Tensor, p: torch.Tensor, dp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Number by number, in exactly rounded sums of float64."""
    rows = [math.fsum(x * y for x, y in zip(a, b)) for a, b in zip(o.tolist(), do.tolist())]
    ds = [[x * (y - total) for x, y in zip(a, b)] for a, b, total in zip(p.tolist(), dp.tolist(), rows)]
    return torch.tensor(rows), torch.tensor(ds)


def _row_dot(o, do, p, dp, bug):
    products = (o * do).float() if bug == "16 bits" else o.float() * do.float()
    D = products.sum(dim=0) if bug == "over queries" else products.sum(dim=1)
    if bug == "all pairs":
        D = (o.float() @ do.float().T).sum(dim=1)
    if bug == "block":
        D = (p * dp).sum(dim=1)
    elif bug == "mean":
        D = products.mean(dim=1)
    column = D if bug == "along keys" else D[:, None]
    ds = {"after": p * dp - column, "no P": dp - column, "sign": p * (column - dp), "plus": p * (dp + column)}
    ds |= {"no D": p * dp, "dS by the block": p * (dp - (p * dp).sum(dim=1, keepdim=True))}
    found = D[:, None] if bug == "a column" else D, ds.get(bug, p * (dp - column))
    return found[::-1] if bug == "dS first" else found


WRONG = variants(
    _row_dot,
    {
        "if D is summed over the block of P ∘ dP: the keys outside of the block are missing": "block",
        "if D is summed over the queries instead of along each row": "over queries",
        "if D is subtracted along the keys: D[:, None] gives each row its own number": "along keys",
        "if D is a mean: it is a sum over the d entries of a row": "mean",
        "if 16-bit numbers are multiplied or summed in 16 bits: all is rounded, and ∞ beyond 65,504": "16 bits",
        "if D is subtracted after the product, P ∘ dP − D: P multiplies both": "after",
        "if dS is dP − D: the factor P is missing": "no P",
        "if D is not subtracted: dS = P ∘ (dP − D)": "no D",
        "if D keeps a dimension of length 1: [N] is asked": "a column",
        "if D is added: dS = P ∘ (dP − D)": "plus",
        "if dS comes first: D is the first of the two": "dS first",
        "if each row of O meets all rows of dO: a row's D needs its own row only": "all pairs",
        "if D is right, and dS subtracts the sum over the block: the keys outside of it are missing": "dS by the block",
        "if dS has the other sign: it is P ∘ (dP − D)": "sign",
    },
)

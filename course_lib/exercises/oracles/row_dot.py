"""Lecture 07: what row_dot is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def drawn(
        n: int, keys: int, d: int, block: slice, kind: torch.dtype = torch.float32, size: float = 1.0
    ) -> tuple[torch.Tensor, ...]:
        """One block of an attention over all keys; v and do times ``size``."""
        p = torch.softmax(2 * torch.randn(n, keys), dim=1)
        v, do = size * torch.randn(keys, d), size * torch.randn(n, d)
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
    yield Case("float16 o and do", drawn(8, 12, 64, slice(0, 8), torch.float16))
    yield Case("float16, with products beyond 65,504", drawn(4, 6, 8, slice(0, 4), torch.float16, 500.0))


def expected(o: torch.Tensor, do: torch.Tensor, p: torch.Tensor, dp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Number by number, in exactly rounded sums of float64."""
    rows = [math.fsum(x * y for x, y in zip(a, b)) for a, b in zip(o.tolist(), do.tolist())]
    ds = [[x * (y - total) for x, y in zip(a, b)] for a, b, total in zip(p.tolist(), dp.tolist(), rows)]
    return torch.tensor(rows), torch.tensor(ds)


def from_the_block(o, do, p, dp):
    D = (p * dp).sum(dim=1)
    return D, p * (dp - D[:, None])


def over_the_queries(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=0)
    return D, p * (dp - D[:, None])


def along_the_keys(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=1)
    return D, p * (dp - D)


def in_half(o, do, p, dp):
    D = (o * do).sum(dim=1).float()
    return D, p * (dp - D[:, None])


def multiplied_in_half(o, do, p, dp):
    D = (o * do).float().sum(dim=1)
    return D, p * (dp - D[:, None])


def d_after_the_product(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=1)
    return D, p * dp - D[:, None]


def no_p(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=1)
    return D, dp - D[:, None]


def no_d(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=1)
    return D, p * dp


def d_added(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=1)
    return D, p * (dp + D[:, None])


def kept_dimension(o, do, p, dp):
    D = (o.float() * do.float()).sum(dim=1, keepdim=True)
    return D, p * (dp - D)


WRONG = {
    "if D is summed over the block of P ∘ dP: the keys outside of the block are missing": from_the_block,
    "if D is summed over the queries instead of along each row": over_the_queries,
    "if D is subtracted along the keys: D[:, None] gives each row its own number": along_the_keys,
    "if halves are multiplied and summed as halves: all is rounded, and ∞ beyond 65,504": in_half,
    "if halves are converted after the product only: it is rounded, or ∞, already": multiplied_in_half,
    "if D is subtracted after the product, P ∘ dP − D: P multiplies both": d_after_the_product,
    "if dS is dP − D: the factor P is missing": no_p,
    "if dS is P ∘ dP: its rows then do not sum to 0": no_d,
    "if D is added instead of subtracted": d_added,
    "if D keeps a second dimension of length 1": kept_dimension,
}

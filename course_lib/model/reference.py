"""float64 oracles: slow, plain, and what every other result is compared with."""

import math

import torch

from course_lib import checks


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension of x [..., n], computed and returned in float64.

    A row that is all -inf has no largest element to scale by; its result is all zeros (a masked row attends to nothing).
    """
    masked = (x == -torch.inf).all(dim=-1, keepdim=True)
    return torch.softmax(x.double(), dim=-1).masked_fill(masked, 0.0)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    """One head of attention, softmax(q kᵀ · scale) v, in float64.

    q [Nq, d], k [Nk, d], v [Nk, dv] -> o [Nq, dv]; ``scale`` is 1/√d unless given. ``causal`` lets query i see the keys
    up to i, and needs Nq = Nk.
    """
    factor = 1 / math.sqrt(q.shape[1]) if scale is None else scale
    q, k, v = (x.double() for x in (q, k, v))
    scores = q @ k.T * factor
    if causal:
        checks.same_shape(q=q, k=k)
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return softmax(scores) @ v

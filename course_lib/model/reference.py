"""float64 oracles: slow, plain, and what every other result is compared with."""

import math

import torch

from course_lib import checks


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension of x [..., n], computed and returned in float64.

    A row that is all -inf has no largest element to scale by; its result is all zeros (a masked row attends to nothing).
    """
    x = checks.float_tensor("x", x).double()
    if x.dim() == 0:
        raise ValueError("x is a single number; pass a row of scores, for example x[None]")
    return torch.nan_to_num(torch.softmax(x, dim=-1), nan=0.0)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    """One head of attention, softmax(q kᵀ · scale) v, in float64.

    q [Nq, d], k [Nk, d], v [Nk, dv] -> o [Nq, dv]; ``scale`` is 1/√d unless given. ``causal`` lets query i see the keys
    up to i, and needs Nq = Nk. Raises TypeError or ValueError for other arguments, and for infinities and NaN.
    """
    *_, d, _ = checks.attention_inputs(q, k, v, accumulator=torch.float64)
    checks.causal_mask(causal)
    factor = 1 / math.sqrt(d) if scale is None else checks.number("scale", scale)
    q, k, v = (x.double() for x in (q, k, v))
    scores = q @ k.T * factor
    if not bool(torch.isfinite(scores).all()):
        raise ValueError(f"scale is {checks.shown(scale)}; pass a smaller one, q kᵀ · scale overflows float64")
    if causal:
        checks.same_shape(q=q, k=k)
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return softmax(scores) @ v

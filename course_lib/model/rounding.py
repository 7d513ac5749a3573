"""Flash attention with every stage in a number format of choice: which rounding costs how much. In torch, float32 inside."""

import math

import torch

from course_lib.model.formats import rounded


def rounded_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    block: int = 64,
    inputs: str = "fp32",
    scores: str = "fp32",
    weights: str = "fp32",
    accumulator: str = "fp32",
    toward_zero: bool = False,
) -> torch.Tensor:
    """The online softmax over blocks of keys, [Nq, d] and [Nk, d] in float32 -> [Nq, d] in float32.

    ``inputs``: the format of Q, K and V; ``scores``: of Q Kᵀ, as a kernel that stores it would round it; ``weights``: of P
    before the matmul with V; ``accumulator``: of l and O after every block. Everything else is float32.
    ``toward_zero`` cuts bits off where inputs and weights are rounded, as tensor cores do that are given fp32 numbers.
    """
    n_k, d = k.shape
    q, k, v = (rounded(x, inputs, toward_zero) for x in (q, k, v))
    m = q.new_full((len(q), 1), -math.inf)
    l, acc = q.new_zeros(len(q), 1), q.new_zeros(len(q), v.shape[1])
    for start in range(0, n_k, block):
        s = rounded(q @ k[start : start + block].T, scores) / math.sqrt(d)
        m_new = torch.maximum(m, s.amax(dim=1, keepdim=True))
        p, correction = torch.exp(s - m_new), torch.exp(m - m_new)
        l = rounded(l * correction + p.sum(dim=1, keepdim=True), accumulator)
        acc = rounded(acc * correction + rounded(p, weights, toward_zero) @ v[start : start + block], accumulator)
        m = m_new
    return acc / l

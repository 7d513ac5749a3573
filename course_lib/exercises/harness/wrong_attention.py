"""Flash attention by blocks in plain PyTorch, and the same with one mistake each: what an input is tried on."""

import math
from typing import Any

import torch

WIDEST = 64  # numbers of a query, or of a value
ALLOWED = 1e-3  # times the largest number of the right output
MISTAKES = (
    "Lite", "no tail mask", "tail in the maximum", "tail at −1,000", "no maximum", "maximum from 0", "maximum of the block alone",
    "one maximum for all rows", "acc not rescaled", "l not rescaled", "neither rescaled", "growth below 4 not rescaled",
    "blocks below the maximum skipped", "last block moved back", "keys up to n_q", "last queries left out", "no 1/√d", "acc in fp16",
)  # fmt: skip


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block: int, mistake: str = "") -> torch.Tensor:
    """o [n, e] of q [n, d] over k [m, d] and v [m, e], float32, in blocks of so many queries and keys; ``mistake``: of MISTAKES."""
    o = torch.zeros(len(q), v.shape[1])
    whole = len(q) // block * block
    for first in range(0, whole if mistake == "last queries left out" else len(q), block):
        o[first : first + block] = _rows(q[first : first + block], k, v, block, len(q), mistake)
    return o


def _rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block: int, n_q: int, mistake: str) -> torch.Tensor:
    """The output of one block of queries."""
    n_k = len(k)
    acc, l = torch.zeros(len(q), v.shape[1]), torch.zeros(len(q), 1)
    m = torch.full((len(q), 1), 0.0 if mistake in ("maximum from 0", "no maximum") else -math.inf)
    for start in range(0, n_q if mistake == "keys up to n_q" else n_k, block):
        if mistake == "last block moved back":
            start = max(0, min(start, n_k - block))
        k_j, v_j = (torch.cat([x[start : start + block], x.new_zeros(block, x.shape[1])])[:block] for x in (k, v))
        tail = torch.arange(start, start + block) >= n_k
        s = q @ k_j.T * (1 if mistake == "no 1/√d" else q.shape[1] ** -0.5)
        if mistake not in ("no tail mask", "tail in the maximum"):
            s = s.masked_fill(tail, -1000.0 if mistake == "tail at −1,000" else -math.inf)
        m_new = _maximum(m, s, mistake)
        p = torch.exp(s - m_new)
        if mistake == "tail in the maximum":
            p = p.masked_fill(tail, 0)
        correction = torch.exp(m - m_new)
        if mistake == "growth below 4 not rescaled":
            correction = correction.masked_fill(m_new - m < 4, 1)
        if mistake == "blocks below the maximum skipped":
            p = p.masked_fill(s.amax(1, keepdim=True) < m, 0)
        if mistake == "Lite":
            p, correction = p / p.sum(1, keepdim=True), torch.ones_like(m)
        l = l * (1 if mistake in ("l not rescaled", "neither rescaled") else correction) + p.sum(1, keepdim=True)
        acc = acc * (1 if mistake in ("acc not rescaled", "neither rescaled") else correction) + p @ v_j
        if mistake == "acc in fp16":
            acc = acc.half().float()
        m = m_new
    return acc if mistake == "Lite" else acc / l


def _maximum(m: torch.Tensor, s: torch.Tensor, mistake: str) -> torch.Tensor:
    """The maximum after a block of scores, [n, 1]."""
    own = s.amax(1, keepdim=True)
    if mistake == "one maximum for all rows":
        own = own.amax().expand_as(own)
    if mistake == "no maximum":
        return m
    return own if mistake == "maximum of the block alone" else torch.maximum(m, own)


def getting_by(given: Any, block: int, queries: int, keys: int) -> tuple[str, str]:
    """What is wrong with an input (q, k, v) of at most so many queries and keys, and the mistakes that it does not expose, joined by '; '.

    It is exposed where the output differs from the right one by more than ALLOWED times the largest right number, or is not finite.
    """
    if trouble := _trouble(given, queries, keys):
        return trouble, ""
    q, k, v = given
    x, y, z = (t.double() for t in given)
    right = torch.softmax(x @ y.T * q.shape[1] ** -0.5, 1) @ z
    largest = float(right.abs().max())

    def differs(mistake: str) -> bool:
        error = float((attention(q, k, v, block, mistake).double() - right).abs().max())
        return not error <= ALLOWED * largest

    if differs(""):
        return "the right kernel fails on it, too: fp32 has seven digits, and ends at 3e38", ""
    return "", "; ".join(mistake for mistake in MISTAKES if not differs(mistake))


def _trouble(given: Any, queries: int, keys: int) -> str:
    """Why an input is none; '' for one."""
    if not isinstance(given, tuple | list) or len(given) != 3:
        return "return a tuple of three tensors, (q, k, v)"
    if not all(isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.ndim == 2 for x in given):
        return "q, k and v have to be float32 tensors with two dimensions"
    shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in zip("qkv", given))
    (n, d), (m, width), (values, e) = (x.shape for x in given)
    if d != width or m != values:
        return f"{shapes}: q and k have to be of one width, k and v of one length"
    if not (1 <= d <= WIDEST and 1 <= e <= WIDEST):
        return f"{shapes}: the widths have to be 1 to {WIDEST}"
    if not (1 <= n <= queries and 1 <= m <= keys):
        return f"{shapes}: at most {queries} queries and {keys} keys are allowed"
    if not all(bool(x.isfinite().all()) for x in given):
        return "q, k and v have to be finite"
    return ""

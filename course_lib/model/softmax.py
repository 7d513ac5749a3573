"""Softmax offline and online: three passes, then one element or one block at a time, then merged in any order.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867), Algorithms 1 to 3.

Scores are a floating-point tensor; the softmax runs over the last dimension, and all leading dimensions are rows of a
batch. Values are a tensor [n, dv]. A row of nothing but -inf (every key masked) keeps the state m = -inf, l = 0, has
log-sum-exp -inf, and its softmax is all zeros.
"""

from typing import Any, NamedTuple

import torch

from course_lib import checks


class State(NamedTuple):
    """What has to be remembered of the scores seen so far, per row.

    m: the largest score, shape [...]; l: the sum of e^(score - m), shape [...];
    o: the sum of e^(score - m) · value (not yet divided by l), shape [..., dv], or None without values.
    """

    m: torch.Tensor
    l: torch.Tensor
    o: Any = None


def _factor(m_old: torch.Tensor, m_new: torch.Tensor) -> torch.Tensor:
    """e^(m_old - m_new), where a row that has seen nothing (both -inf) counts as 0 and not as NaN."""
    return torch.where(m_new == -torch.inf, torch.zeros_like(m_new), torch.exp(m_old - m_new))


def weights(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """e^(x - m) for x [..., n] and the maximum m [...] of their rows: [..., n]; 0 where m is -inf."""
    return _factor(x, m.unsqueeze(-1).expand_as(x))


def offline(x: torch.Tensor) -> torch.Tensor:
    """Softmax in three passes over x [..., n]: the maximum, the sum, the division. Same shape and dtype out."""
    s = x.to(torch.promote_types(x.dtype, torch.float32))
    m = s.amax(dim=-1)  # pass 1
    l = weights(s, m).sum(dim=-1)  # pass 2
    return normalise(s, State(m, l)).to(x.dtype)  # pass 3


def normalise(s: torch.Tensor, state: State) -> torch.Tensor:
    """e^(s - m) / l for scores s [..., n] of rows whose final state is known: [..., n]; 0 for a fully masked row."""
    l = torch.where(state.l == 0, torch.ones_like(state.l), state.l)
    return weights(s, state.m) / l.unsqueeze(-1)


def start(x: torch.Tensor, values: torch.Tensor | None = None) -> State:
    """The state before anything was seen: m = -inf, l = 0 (and o = 0), one per row of x [..., n] (values [n, dv]).

    Of half-precision rows m and l are kept in float32, as the kernels do.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    m = torch.full(x.shape[:-1], -torch.inf, dtype=dtype, device=x.device)
    o = None if values is None else torch.zeros(*x.shape[:-1], values.shape[-1], dtype=dtype, device=x.device)
    return State(m, torch.zeros_like(m), o)


def update(state: State, x: torch.Tensor, values: torch.Tensor | None = None) -> State:
    """Take in the next block of scores x [..., b] (one element: b = 1), with its values [b, dv] if the state has an o.

    m_new = max(m, max x);  l_new = l · e^(m - m_new) + Σ e^(x - m_new);  o likewise.
    Source: arXiv 1805.02867, Algorithm 3, lines 4 and 5, for a block of any length.
    """
    if (values is None) != (state.o is None):
        raise ValueError("the state and the block must both have values or both have none; begin with start(x, values)")
    s = x.to(state.m.dtype)
    m = torch.maximum(state.m, s.amax(dim=-1))
    p, c = weights(s, m), _factor(state.m, m)
    l = state.l * c + p.sum(dim=-1)
    o = None if values is None else state.o * c.unsqueeze(-1) + p @ values.to(p.dtype)
    return State(m, l, o)


def merge(a: State, b: State) -> State:
    """The state of two parts seen separately, of the same rows: associative and commutative, so any split in any order gives the same.

    This is what split-KV decoding and ring attention rest on.
    """
    checks.same_shape(**{"a.m": a.m, "b.m": b.m})
    m = torch.maximum(a.m, b.m)
    ca, cb = _factor(a.m, m), _factor(b.m, m)
    o = None if a.o is None or b.o is None else a.o * ca.unsqueeze(-1) + b.o * cb.unsqueeze(-1)
    return State(m, a.l * ca + b.l * cb, o)


def log_sum_exp(state: State) -> torch.Tensor:
    """L = m + log l, the one number per row that the backward pass needs; -inf where nothing was seen."""
    return state.m + torch.log(state.l)


def output(state: State) -> torch.Tensor:
    """o / l, the finished weighted average [..., dv]; zeros for a row that saw nothing. The division happens once, here."""
    l = torch.where(state.l == 0, torch.ones_like(state.l), state.l)
    return state.o / l.unsqueeze(-1)


def online_states(x: torch.Tensor, block: int = 1) -> list[State]:
    """The state after each block of ``block`` elements of x [..., n]: ⌈n / block⌉ states."""
    state, states = start(x), []
    for part in x.split(block, dim=-1):
        state = update(state, part)
        states.append(state)
    return states


def online(x: torch.Tensor, block: int = 1) -> torch.Tensor:
    """Softmax in two passes over x [..., n]: one for m and l together, one to normalise. Same shape and dtype out."""
    state = online_states(x, block)[-1]
    return normalise(x.to(state.m.dtype), state).to(x.dtype)

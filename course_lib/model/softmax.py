"""Softmax offline and online: three passes, then one element or one block at a time, then merged in any order.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867), Algorithms 1 to 3.

Scores are a floating-point tensor; the softmax runs over the last dimension, and all leading dimensions are rows of a
batch. ``offline``, ``online``, ``online_states`` and ``average`` also take a Python list (or a list of rows),
``correction``, ``merge`` and ``log_sum_exp`` numbers and lists: they are computed in float64 and come back as such.
Values are always a tensor [n, dv].

A row of nothing but -inf (every key masked) keeps the state m = -inf, l = 0, has log-sum-exp -inf, and its softmax
is all zeros. NaN and +inf are refused.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from course_lib import checks

Numbers = list | tuple | torch.Tensor


class State(NamedTuple):
    """What has to be remembered of the scores seen so far, per row.

    m: the largest score, shape [...]; l: the sum of e^(score - m), shape [...];
    o: the sum of e^(score - m) · value (not yet divided by l), shape [..., dv], or None without values.
    """

    m: Any
    l: Any
    o: Any = None

    def __repr__(self) -> str:
        o = "" if self.o is None else f", o={_show(self.o)}"
        return f"State(m={_show(self.m)}, l={_show(self.l)}{o})"


def _show(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        x = x.tolist()
    if isinstance(x, list):
        return "[" + ", ".join(_show(e) for e in x) + "]"
    return f"{x:.4g}"


def _tensor(x: Numbers, name: str = "x") -> tuple[torch.Tensor, bool]:
    """(tensor, was it a list?), checked; a list becomes float64."""
    if isinstance(x, torch.Tensor):
        return checks.float_tensor(name, x), False
    if not isinstance(x, list | tuple):
        raise TypeError(f"{name} is {checks.shown(x)} ({type(x).__name__}); pass a list of numbers or a tensor")
    try:
        found = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} is {checks.shown(x)}; pass numbers, or rows of equal length ({error})") from None
    if found.dtype.kind not in "iuf":
        raise TypeError(f"{name} is {checks.shown(x)}; pass numbers, for example [3, 2, 5, 1]")
    return checks.float_tensor(name, torch.from_numpy(found.astype(np.float64))), True


def _row(x: Numbers, name: str = "x") -> tuple[torch.Tensor, bool]:
    t, was_list = _tensor(x, name)
    if t.dim() == 0:
        raise ValueError(f"{name} is a single number; pass a row of scores, for example [3, 2, 5, 1]")
    return t, was_list


def _values(x: torch.Tensor, values: Any) -> torch.Tensor:
    """``values`` [n, dv], checked against the scores x [..., n]."""
    checks.float_tensor("values", values, ndim=2, finite=True)
    if values.shape[0] != x.shape[-1]:
        raise ValueError(f"x has {x.shape[-1]} scores but values has {values.shape[0]} rows; pass one value per score")
    checks.same_device(x=x, values=values)
    return values


def _stats_dtype(x: torch.Tensor, stats_dtype: torch.dtype | None) -> torch.dtype:
    """Half-precision rows keep m and l in float32, as the kernels do, unless told otherwise."""
    if stats_dtype is not None:
        return checks.one_of("stats_dtype", stats_dtype, checks.FLOATS)
    return torch.promote_types(x.dtype, torch.float32)


def _rows(state: Any, x: torch.Tensor | None = None, name: str = "state", x_name: str = "x") -> State:
    """``state`` if it is one of tensors, m and l [...] and o [..., dv] or None, of as many rows as x [..., n], if given."""
    checks.instance(name, state, State, "start(x)")
    parts = {f"{name}.{part}": y for part, y in zip(state._fields, state, strict=True) if y is not None or part != "o"}
    for part, y in parts.items():
        checks.readable(part, checks.float_tensor(part, y, look_inside=False))
    if state.o is not None:
        parts[f"{name}.o"] = _row(state.o, f"{name}.o")[0][..., 0]
    if x is not None:
        parts[x_name] = x[..., 0]
    checks.same_device(**parts)
    if len({y.shape for y in parts.values()}) > 1:
        found = ", ".join(f"{part} {list(y.shape)}" for part, y in parts.items())
        raise ValueError(
            f"{found} (without the last dimension of o and scores) have different rows; begin with start(x, values)"
        )
    return state


def _numbers(state: State, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """m and l of a state of tensors, or of one of numbers or lists, then in float64."""
    if isinstance(state.m, torch.Tensor) or isinstance(state.l, torch.Tensor):
        _rows(state, name=name)
        return state.m, state.l
    m, l = (
        _tensor(x, f"{name}.{part}")[0] if isinstance(x, list | tuple) else _tensor([x], f"{name}.{part}")[0][0]
        for part, x in (("m", state.m), ("l", state.l))
    )
    checks.same_shape(**{f"{name}.m": m, f"{name}.l": l})
    return m, l


def _factor(m_old: torch.Tensor, m_new: torch.Tensor) -> torch.Tensor:
    """e^(m_old - m_new), where a row that has seen nothing (both -inf) counts as 0 and not as NaN."""
    return torch.where(m_new == -torch.inf, torch.zeros_like(m_new), torch.exp(m_old - m_new))


def weights(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """e^(x - m) for x [..., n] and the maximum m [...] of their rows: [..., n]; 0 where m is -inf."""
    for name, y in (("x", x), ("m", m)):
        checks.readable(name, checks.float_tensor(name, y, look_inside=False))
    if x.shape[:-1] != m.shape or x.dim() == 0 or x.device != m.device:
        raise ValueError(
            f"x is {list(x.shape)} on {x.device}, m {list(m.shape)} on {m.device}; pass one m for each row of x"
        )
    return _factor(x, m.unsqueeze(-1).expand_as(x))


def correction(m_old: Numbers, m_new: Numbers) -> Any:
    """The factor e^(m_old - m_new) by which everything summed under the old maximum has to be multiplied.

    Same shape in and out; 0 where both are -inf. Source: FlashAttention, Algorithm 1, line 11.
    """
    (old, was_list), (new, _) = _tensor(m_old, "m_old"), _tensor(m_new, "m_new")
    if old.shape != new.shape:
        raise ValueError(
            f"m_old has shape {list(old.shape)} and m_new has {list(new.shape)}; pass one maximum per row in both"
        )
    if bool((new < old).any()):
        raise ValueError("m_new is smaller than m_old somewhere; a running maximum never falls")
    out = _factor(old, new)
    return out.tolist() if was_list else out


def offline(x: Numbers, stats_dtype: torch.dtype | None = None) -> Any:
    """Softmax in three passes over x [..., n]: the maximum, the sum, the division. Same shape and dtype out."""
    t, was_list = _row(x)
    s = t.to(_stats_dtype(t, stats_dtype))
    m = s.amax(dim=-1)  # pass 1
    l = weights(s, m).sum(dim=-1)  # pass 2
    out = normalise(s, State(m, l)).to(t.dtype)  # pass 3
    return out.tolist() if was_list else out


def normalise(s: torch.Tensor, state: State) -> torch.Tensor:
    """e^(s - m) / l for scores s [..., n] of rows whose final state is known: [..., n]; 0 for a fully masked row."""
    _rows(state, _row(checks.dense("s", s), "s")[0], x_name="s")
    l = torch.where(state.l == 0, torch.ones_like(state.l), state.l)
    return weights(s, state.m) / l.unsqueeze(-1)


def start(x: Numbers, values: torch.Tensor | None = None, stats_dtype: torch.dtype | None = None) -> State:
    """The state before anything was seen: m = -inf, l = 0 (and o = 0), one per row of x [..., n] (values [n, dv])."""
    t, _ = _row(x)
    if values is not None:
        _values(t, values)
    dtype = _stats_dtype(t, stats_dtype)
    m = torch.full(t.shape[:-1], -torch.inf, dtype=dtype, device=t.device)
    o = None if values is None else torch.zeros(*t.shape[:-1], values.shape[-1], dtype=dtype, device=t.device)
    return State(m, torch.zeros_like(m), o)


def update(state: State, x: torch.Tensor, values: torch.Tensor | None = None) -> State:
    """Take in the next block of scores x [..., b] (one element: b = 1), with its values [b, dv] if the state has an o.

    m_new = max(m, max x);  l_new = l · e^(m - m_new) + Σ e^(x - m_new);  o likewise.
    Source: arXiv 1805.02867, Algorithm 3, lines 4 and 5, for a block of any length.
    """
    _row(checks.dense("x", x))
    _rows(state, x)
    if (values is None) != (state.o is None):
        raise ValueError("the state and the block must both have values or both have none; begin with start(x, values)")
    if values is not None:
        _values(x, values)
        if values.shape[1] != state.o.shape[-1]:
            raise ValueError(
                f"values has rows of {values.shape[1]} numbers and state.o of {state.o.shape[-1]}; pass [b, dv]"
            )
    s = x.to(state.m.dtype)
    m = torch.maximum(state.m, s.amax(dim=-1))
    p, c = weights(s, m), _factor(state.m, m)
    l = state.l * c + p.sum(dim=-1)
    o = None if values is None else state.o * c.unsqueeze(-1) + p @ values.to(p.dtype)
    return State(m, l, o)


def merge(a: State, b: State) -> State:
    """The state of two parts seen separately: associative and commutative, so any split in any order gives the same.

    Works on states of numbers or lists, and of tensors of equal shape. This is what split-KV decoding and ring attention rest on.
    """
    checks.instance("a", a, State, "start(x)")
    checks.instance("b", b, State, "start(x)")
    if (a.o is None) != (b.o is None):
        raise ValueError("one state has an o and the other has none; build both with values or both without")
    was_tensor = isinstance(a.m, torch.Tensor)
    if isinstance(b.m, torch.Tensor) != was_tensor or not (was_tensor or a.o is None):
        raise TypeError(
            "merge takes two states of tensors, or two of numbers or lists without an o; build both from tensors"
        )
    (am, al), (bm, bl) = (_numbers(state, name) for name, state in (("a", a), ("b", b)))
    if am.shape != bm.shape:
        raise ValueError(f"the states have shapes {list(am.shape)} and {list(bm.shape)}; merge states of the same rows")
    m = torch.maximum(am, bm)
    ca, cb = _factor(am, m), _factor(bm, m)
    if a.o is not None:
        checks.same_shape(**{"a.o": a.o, "b.o": b.o})
    l = al * ca + bl * cb
    o = None if a.o is None else a.o * ca.unsqueeze(-1) + b.o * cb.unsqueeze(-1)
    return State(m, l, o) if was_tensor else State(m.tolist(), l.tolist(), o)


def log_sum_exp(state: State) -> Any:
    """L = m + log l, the one number per row that the backward pass needs; -inf where nothing was seen."""
    checks.instance("state", state, State, "start(x)")
    m, l = _numbers(state, "state")
    L = m + torch.log(l)
    return L if isinstance(state.m, torch.Tensor) else L.tolist()


def output(state: State) -> torch.Tensor:
    """o / l, the finished weighted average [..., dv]; zeros for a row that saw nothing. The division happens once, here."""
    checks.instance("state", state, State, "start(x)")
    if state.o is None:
        raise ValueError("this state has no o; begin with start(x, values) and update with values")
    _rows(state)
    l = torch.where(state.l == 0, torch.ones_like(state.l), state.l)
    return state.o / l.unsqueeze(-1)


def online_states(x: Numbers, block: int = 1, stats_dtype: torch.dtype | None = None) -> list[State]:
    """The state after each block of ``block`` elements of x [..., n]: ⌈n / block⌉ states.

    >>> online_states([3, 2, 5, 1])
    [State(m=3, l=1), State(m=3, l=1.368), State(m=5, l=1.185), State(m=5, l=1.203)]
    """
    checks.positive_int("block", block)
    t, was_list = _row(x)
    state, states = start(t, stats_dtype=stats_dtype), []
    for part in t.split(min(block, t.shape[-1]), dim=-1):
        state = update(state, part)
        states.append(State(state.m.tolist(), state.l.tolist()) if was_list else state)
    return states


def online(x: Numbers, block: int = 1, stats_dtype: torch.dtype | None = None) -> Any:
    """Softmax in two passes over x [..., n]: one for m and l together, one to normalise. Same shape and dtype out."""
    t, was_list = _row(x)
    state = online_states(t, block, stats_dtype)[-1]
    out = normalise(t.to(state.m.dtype), state).to(t.dtype)
    return out.tolist() if was_list else out


def average(x: Numbers, values: torch.Tensor, block: int = 1) -> torch.Tensor:
    """The average of values [n, dv] under softmax(x), x [..., n], in one pass of blocks: [..., dv], no weight kept."""
    checks.positive_int("block", block)
    t, _ = _row(x)
    state = start(t, _values(t, values))
    size = min(block, t.shape[-1])
    for x_block, v_block in zip(t.split(size, dim=-1), values.split(size), strict=True):
        state = update(state, x_block, v_block)
    return output(state).to(values.dtype)

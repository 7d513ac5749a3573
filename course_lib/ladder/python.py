"""Attention in pure Python, on lists of rows: with Values, which can be differentiated, and with plain floats."""

import math
from functools import reduce
from operator import add
from typing import Any

from course_lib import checks
from course_lib.ladder.value import Value

Rows = list[list[Any]]


def _check(q: Rows, k: Rows, v: Rows) -> None:
    """Raise unless q [Nq, d], k [Nk, d] and v [Nk, dv] belong together; ``zip`` would cut off what does not."""
    for name, rows in (("q", q), ("k", k), ("v", v)):
        _check_rows(name, rows)
    if len(q[0]) != len(k[0]):
        raise ValueError(f"q has rows of {len(q[0])} numbers but k of {len(k[0])}; they must be equal")
    if len(k) != len(v):
        raise ValueError(f"k has {len(k)} rows but v has {len(v)}; each key needs one value")


def _check_rows(name: str, rows: Rows) -> None:
    """TypeError unless ``rows`` is a list of lists of numbers or of Values, ValueError unless they are finite and of one length."""
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
        raise TypeError(
            f"{name} is {checks.shown(rows)} ({type(rows).__name__}); pass a list of rows, lists of numbers"
        )
    if not rows or not rows[0]:
        raise ValueError(f"{name} is empty; pass at least one row of at least one number")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name}[{i}] has {len(row)} numbers but {name}[0] has {len(rows[0])}; pass rows of one length"
            )
        try:
            finite = all(map(math.isfinite, row))
        except (TypeError, OverflowError):
            if not all(isinstance(x, Value) for x in row):
                raise TypeError(
                    f"{name}[{i}] is {checks.shown(row)}; pass numbers that are floats, or Values"
                ) from None
            finite = all(math.isfinite(x.data) for x in row)
        if not finite:
            raise ValueError(f"{name}[{i}] holds an infinity or NaN; pass finite numbers")


def attention_values(q: Rows, k: Rows, v: Rows) -> Rows:
    """softmax(Q Kᵀ / √d) V on rows of Values."""
    _check(q, k, v)
    scale = Value(1 / math.sqrt(len(q[0])))
    output = []
    for query in q:
        scores = [reduce(add, (a * b for a, b in zip(query, key))) * scale for key in k]
        largest = Value(max(s.data for s in scores))  # a constant: softmax does not depend on it
        weights = [(s - largest).exp() for s in scores]
        total = reduce(add, weights)
        weights = [w / total for w in weights]
        output.append([reduce(add, (w * x for w, x in zip(weights, column))) for column in zip(*v)])
    return output


def attention_floats(q: Rows, k: Rows, v: Rows) -> Rows:
    """softmax(Q Kᵀ / √d) V on rows of floats."""
    _check(q, k, v)
    scale = 1 / math.sqrt(len(q[0]))
    output = []
    for query in q:
        scores = [sum(a * b for a, b in zip(query, key)) * scale for key in k]
        largest = max(scores)
        weights = [math.exp(s - largest) for s in scores]
        total = sum(weights)
        output.append([sum(w * x for w, x in zip(weights, column)) / total for column in zip(*v)])
    return output


def values(rows: list[list[float]]) -> Rows:
    """Rows of floats as rows of Values, the leaves of a graph."""
    _check_rows("rows", rows)
    return [[Value(x) for x in row] for row in rows]


def value_gradients(
    q: list[list[float]], k: list[list[float]], v: list[list[float]], do: list[list[float]]
) -> list[list[list[float]]]:
    """dQ, dK and dV for dO, by ``Value.backward`` from sum(dO ∘ O)."""
    _check(q, k, v)
    _check_rows("do", do)
    leaves = [values(x) for x in (q, k, v)]
    o = attention_values(*leaves)
    if (len(do), len(do[0])) != (len(o), len(o[0])):
        raise ValueError(f"do has {len(do)} rows of {len(do[0])} numbers; pass {len(o)} of {len(o[0])}, as O has")
    loss = reduce(add, (x * Value(w) for row, weights in zip(o, do) for x, w in zip(row, weights)))
    loss.backward()
    return [[[x.grad for x in row] for row in leaf] for leaf in leaves]


def node_count(n_q: int, n_k: int, d: int) -> int:
    """How many Values ``attention_values`` and its leaves make: 4 for each score and dimension, 4 more for each score."""
    for name, value in (("n_q", n_q), ("n_k", n_k), ("d", d)):
        checks.positive_int(name, value)
    return 4 * n_q * n_k * (d + 1) + 2 * n_k * d + 1

"""Attention in pure Python, on lists of rows: with Values, which can be differentiated, and with plain floats."""

import math
from functools import reduce
from operator import add
from typing import Any

from course_lib.ladder.value import Value

Rows = list[list[Any]]


def _check(q: Rows, k: Rows, v: Rows) -> None:
    """ValueError unless q [Nq, d], k [Nk, d] and v [Nk, dv] belong together; ``zip`` would cut off what does not."""
    for name, rows in (("q", q), ("k", k), ("v", v)):
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise ValueError(
                    f"{name}[{i}] has {len(row)} numbers but {name}[0] has {len(rows[0])}; pass rows of one length"
                )
    if len(q[0]) != len(k[0]):
        raise ValueError(f"q has rows of {len(q[0])} numbers but k of {len(k[0])}; they must be equal")
    if len(k) != len(v):
        raise ValueError(f"k has {len(k)} rows but v has {len(v)}; each key needs one value")


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
    return [[Value(x) for x in row] for row in rows]


def value_gradients(
    q: list[list[float]], k: list[list[float]], v: list[list[float]], do: list[list[float]]
) -> list[list[list[float]]]:
    """dQ, dK and dV for dO, by ``Value.backward`` from sum(dO ∘ O)."""
    leaves = [values(x) for x in (q, k, v)]
    o = attention_values(*leaves)
    pairs = (zip(row, weights, strict=True) for row, weights in zip(o, do, strict=True))
    reduce(add, (x * Value(w) for row in pairs for x, w in row)).backward()
    return [[[x.grad for x in row] for row in leaf] for leaf in leaves]


def node_count(n_q: int, n_k: int, d: int) -> int:
    """How many Values ``attention_values`` and its leaves make: 4 for each score and dimension, 4 more for each score."""
    return 4 * n_q * n_k * (d + 1) + 2 * n_k * d + 1

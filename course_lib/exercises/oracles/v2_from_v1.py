"""Lecture 06: what v2_from_v1 is checked by."""

import contextlib
import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def drawn(queries: int, keys: int, d: int = 4) -> tuple[torch.Tensor, ...]:
        return torch.randn(queries, d), torch.randn(keys, d), torch.randn(keys, d)

    yield Case("2 queries, 2 keys: one block of each", (*drawn(2, 2), 2, 2))
    yield Case("4 queries, 8 keys in blocks of 4 and 2: K passes once", (*drawn(4, 8), 4, 2))
    yield Case("12 queries, 2 keys in blocks of 2: one block of keys", (*drawn(12, 2), 2, 2))
    yield Case(
        "16 queries, 2 keys in blocks of 2: a block of queries leaves before the next comes", (*drawn(16, 2), 2, 2)
    )
    yield Case("8 queries, 8 keys in blocks of 2", (*drawn(8, 8), 2, 2))
    yield Case("4 queries, 20 keys in blocks of 2: neither all of K nor all of V fits", (*drawn(4, 20), 2, 2))
    yield Case("ragged: 7 queries, 10 keys in blocks of 3 and 4", (*drawn(7, 10), 3, 4))
    yield Case("one query, one key, blocks larger than both", (*drawn(1, 1), 4, 8))
    yield Case("blocks of one", (*drawn(3, 4), 1, 1))
    q, k, v = drawn(6, 9)
    yield Case("scores times ten", (10 * q, k, v, 2, 3))
    q, k, v = drawn(6, 9)
    k[-1] = 8 * q[1]
    yield Case("the largest score comes last", (q, k, v, 4, 2))
    q, k, v = drawn(6, 9)
    q[:, 0], k[0, 0] = 20, 200
    yield Case("the largest score by far comes first", (q, k, v, 2, 3))
    q, k, v = drawn(6, 9)
    q[:, 0], k[:, 0] = 1e19, -1e19
    yield Case("all scores −5 · 10³⁷", (q, k, v, 2, 3))
    q, k, v = drawn(6, 9)
    q[:, 0], k[:, 0] = -20, 20
    yield Case("all scores far below 0", (q, k, v, 2, 3))


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int
) -> tuple[str, torch.Tensor, dict[str, float]]:
    """Attention in float64; Q and O cross once, K and V once for each block of queries."""
    q, k, v = q.double(), k.double(), v.double()
    passes = float(-(-len(q) // block_m))
    crossings = {"Q read": 1.0, "K read": passes, "V read": passes, "O read": 0.0, "O written": 1.0}
    output = torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=1) @ v
    loads = float(passes * -(-len(k) // block_n))
    others = {
        "bytes of any other tensor": 0.0,
        "loads of K, each of a block": loads,
        "loads of V, each of a block": loads,
    }
    return "none", output.float(), {**crossings, **others}


def _v2(memory, Q, K, V, O, block_m, block_n, bug):
    def scope(name):
        return contextlib.nullcontext() if bug == "no scopes" else memory.scope(name)

    def load(view):
        return view.data if bug == "data" else memory.load(view)

    for first in range(0, Q.data.shape[0], block_m):
        rows = slice(first, first + block_m)
        with scope("queries"):
            q = Q[rows].data if bug == "Q inside" else load(Q[rows])
            if first == 0 or bug != "not reset":
                o, l = torch.zeros(q.shape), torch.zeros(len(q))
                m = torch.full((len(q),), {"m from 0": 0.0, "finite m": -1e9}.get(bug, -math.inf))
            for start in range(0, K.data.shape[0], block_n):
                cols = slice(start, start + block_n)
                with scope("keys"):
                    q = memory.load(Q[rows]) if bug == "Q inside" else q
                    k, v = load(K[cols]), load(V[cols])
                    if bug == "after the scope":
                        memory.free(str(K[cols]))
                    s = q @ k.T / math.sqrt(q.shape[1])
                    m_new = torch.maximum(m, s.amax(dim=1))
                    p, factor = torch.exp(s - m_new[:, None]), torch.exp(m - m_new)
                    l, m = l * factor + p.sum(dim=1), m_new
                    o = (o if bug == "o not rescaled" else o * factor[:, None]) + p @ v
                    if bug == "stored inside":
                        memory.store(O[rows], o / l[:, None])
            if bug != "stored inside":
                memory.store(O[rows], o / l[:, None])


def two_passes(memory, Q, K, V, O, block_m, block_n):
    for first in range(0, Q.data.shape[0], block_m):
        rows = slice(first, first + block_m)
        with memory.scope("queries"):
            q = memory.load(Q[rows])
            m, l, o = torch.full((len(q),), -math.inf), torch.zeros(len(q)), torch.zeros(q.shape)
            for pass_ in ("maximum", "accumulators"):
                for start in range(0, K.data.shape[0], block_n):
                    cols = slice(start, start + block_n)
                    with memory.scope("keys"):
                        s = q @ memory.load(K[cols]).T / math.sqrt(q.shape[1])
                        if pass_ == "maximum":
                            m = torch.maximum(m, s.amax(dim=1))
                        else:
                            p = torch.exp(s - m[:, None])
                            l, o = l + p.sum(dim=1), o + p @ memory.load(V[cols])
            memory.store(O[rows], o / l[:, None])


def keys_outside(memory, Q, K, V, O, block_m, block_n):
    m, l = torch.full(Q.data.shape[:1], -math.inf), torch.zeros(Q.data.shape[0])
    for start in range(0, K.data.shape[0], block_n):
        cols = slice(start, start + block_n)
        with memory.scope("keys"):
            k, v = memory.load(K[cols]), memory.load(V[cols])
            for first in range(0, Q.data.shape[0], block_m):
                rows = slice(first, first + block_m)
                with memory.scope("queries"):
                    q = memory.load(Q[rows])
                    o = memory.load(O[rows]) if start else torch.zeros(q.shape)
                    s = q @ k.T / math.sqrt(q.shape[1])
                    m_new = torch.maximum(m[rows], s.amax(dim=1))
                    p, factor = torch.exp(s - m_new[:, None]), torch.exp(m[rows] - m_new)
                    l_new = l[rows] * factor + p.sum(dim=1)
                    memory.store(O[rows], (o * (l[rows] * factor)[:, None] + p @ v) / l_new[:, None])
                    m[rows], l[rows] = m_new, l_new


WRONG = {
    "if the outer loop stays over K/V: right numbers, but O crosses both ways for each block of keys": keys_outside,
    "if K passes twice, once for the maximum and once for the sums: the online softmax needs one pass": two_passes,
    **variants(
        _v2,
        {
            "if O is stored inside the loop over the keys: it is written once for each block of keys": "stored inside",
            "if Q is loaded inside the loop over the keys: it crosses once for each block of keys": "Q inside",
            "without a scope for each block: what is loaded stays, and the next block finds no room": "no scopes",
            "if Q, K and V are read by .data, which goes around the memory: read with memory.load": "data",
            "if o, l and m are not started anew for each block of queries": "not reset",
            "if m starts at 0 instead of −∞, or no maximum is taken: all scores far below 0 then vanish": "m from 0",
            "if o is not multiplied by exp(m − m_new) when the maximum grows": "o not rescaled",
            "if numbers are used that are not in the SRAM, of .data, say, or of a scope that has ended: they are NaN": "after the scope",
            "if m starts at a number such as −10⁹ instead of −∞: scores may lie below it": "finite m",
        },
    ),
}

"""Lecture 06: what v2_from_v1 is checked by."""

import contextlib
import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.tasks.v2_from_v1 import AROUND


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
    q[:, 0], k[:, 0] = -20, 20
    yield Case("all scores far below 0", (q, k, v, 2, 3))


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int
) -> tuple[torch.Tensor, dict[str, float | str]]:
    """Attention in float64; Q and O cross once, K and V once for each block of queries."""
    q, k, v = q.double(), k.double(), v.double()
    passes = float(-(-len(q) // block_m))
    crossings = {"Q read": 1.0, "K read": passes, "V read": passes, "O read": 0.0, "O written": 1.0}
    output = torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=1) @ v
    return output.float(), {AROUND: "nothing", **crossings, "bytes of any other tensor": 0.0}


def _v2(memory, Q, K, V, O, block_m, block_n, bug):
    free = {"no scopes": ("queries", "keys"), "no outer scope": ("queries",), "no inner scope": ("keys",)}.get(bug, ())

    def scope(name):
        return contextlib.nullcontext() if name in free else memory.scope(name)

    def load(view):
        return view.data if bug == "data" else memory.load(view)

    whole = [memory.load(x[:]) for x in (K, V)] if bug == "all of K and V" else []
    kept: dict[int, list[torch.Tensor]] = {}
    for first in range(0, Q.data.shape[0], block_m):
        rows = slice(first, first + block_m)
        with scope("queries"):
            q = Q[rows].data if bug == "Q inside" else load(Q[rows])
            if first == 0 or bug != "not reset":
                o, l = torch.zeros(q.shape), torch.zeros(len(q))
                m = torch.full((len(q),), 0.0 if bug == "m from 0" else -math.inf)
            all_keys = load(K[:]) if bug == "K whole" else K.data
            for start in range(0, K.data.shape[0], block_n):
                cols = slice(start, start + block_n)
                with scope("keys"):
                    q = memory.load(Q[rows]) if bug == "Q inside" else q
                    if bug == "all of K and V":
                        kept[start] = [x[cols] for x in whole]
                    elif bug == "whole inside":
                        kept[start] = [load(x[:])[cols] for x in (K, V)]
                    elif bug == "K whole":
                        kept[start] = [all_keys[cols], load(V[cols])]
                    elif bug != "kept" or start not in kept:
                        kept[start] = [load(x[cols]) for x in (K, V)]
                    k, v = kept[start]
                    s = q @ k.T / (1 if bug == "no scale" else math.sqrt(q.shape[1]))
                    m_new = torch.maximum(m, s.amax(dim=1))
                    p, factor = torch.exp(s - m_new[:, None]), torch.exp(m - m_new)
                    l = (l if bug == "l not rescaled" else l * factor) + p.sum(dim=1)
                    m = m if bug == "m kept" else m_new
                    o = (o if bug == "o not rescaled" else o * factor[:, None]) + p @ v
                    o = o / l[:, None] if bug == "divided each time" else o
                    if bug == "stored inside":
                        memory.store(O[rows], o / l[:, None])
            if bug != "stored inside":
                memory.store(O[rows], o if bug in ("divided each time", "not divided") else o / l[:, None])


def stored_inside(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "stored inside")


def q_inside(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "Q inside")


def kept_past_the_scope(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "kept")


def all_of_k_and_v(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "all of K and V")


def no_scopes(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "no scopes")


def no_outer_scope(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "no outer scope")


def no_inner_scope(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "no inner scope")


def whole_inside(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "whole inside")


def k_whole(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "K whole")


def by_data(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "data")


def m_kept(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "m kept")


def no_scale(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "no scale")


def not_reset(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "not reset")


def m_from_zero(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "m from 0")


def o_not_rescaled(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "o not rescaled")


def l_not_rescaled(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "l not rescaled")


def divided_each_time(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "divided each time")


def not_divided(memory, Q, K, V, O, block_m, block_n):
    _v2(memory, Q, K, V, O, block_m, block_n, "not divided")


def two_passes(memory, Q, K, V, O, block_m, block_n):
    for first in range(0, Q.data.shape[0], block_m):
        rows = slice(first, first + block_m)
        with memory.scope("queries"):
            q = memory.load(Q[rows])
            m, l, o = torch.full((len(q),), -math.inf), torch.zeros(len(q)), torch.zeros(q.shape)
            for turn in ("maximum", "sums"):
                for start in range(0, K.data.shape[0], block_n):
                    cols = slice(start, start + block_n)
                    with memory.scope("keys"):
                        s = q @ memory.load(K[cols]).T / math.sqrt(q.shape[1])
                        if turn == "maximum":
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
    "if the keys stay outside: right numbers, but O crosses both ways for each block of keys": keys_outside,
    "if O is stored inside the loop over the keys: it is written once for each block of keys": stored_inside,
    "if Q is loaded inside the loop over the keys: it crosses once for each block of keys": q_inside,
    "if K passes twice, once for the maximum and once for the sums: the online softmax needs one pass": two_passes,
    "if a tile is used after its scope has ended: it has left the SRAM, load it again": kept_past_the_scope,
    "if all of K and V is loaded at once: only a block of each fits": all_of_k_and_v,
    "without a scope for each block: what is loaded stays, and the next block finds no room": no_scopes,
    "without a scope for each block of queries: Q's blocks stay, and a later one finds no room": no_outer_scope,
    "if more of K and V than a block is in the SRAM, all at once or without a scope for each block of keys": no_inner_scope,
    "if all of K and V is loaded for each block of keys: load K[cols] and V[cols] only": whole_inside,
    "if all of K or all of V is in the SRAM at once: only a block of each fits": k_whole,
    "if Q, K and V are read by .data, which goes around the memory: read with memory.load": by_data,
    "if m = m_new is forgotten: m stays −∞, and all but the last block of keys is lost": m_kept,
    "without the scale 1 / √d": no_scale,
    "if o, l and m are not started anew for each block of queries": not_reset,
    "if m starts at 0 instead of −∞, or no maximum is taken: all scores far below 0 then vanish": m_from_zero,
    "if o is not multiplied by exp(m − m_new) when the maximum grows": o_not_rescaled,
    "if l is not multiplied by exp(m − m_new) when the maximum grows": l_not_rescaled,
    "if o is divided by l at every block, as in V1, but not multiplied by the old l again": divided_each_time,
    "without the division by l at the end": not_divided,
}

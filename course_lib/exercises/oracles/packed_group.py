"""Lecture 06: what packed_group is checked by."""

import contextlib
import math
import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def _inputs(tokens: int, group: int, keys: int, d: int = 4) -> tuple[torch.Tensor, ...]:
    return torch.randn(tokens * group, d), torch.randn(keys, d), torch.randn(keys, d)


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    for words, tokens, group, keys, block_m, block_n in (
        ("one token, four heads: one block, which sees all keys", 1, 4, 4, 4, 2),
        ("2 tokens, 4 heads, blocks of 8: K passes once", 2, 4, 8, 8, 2),
        ("a token in each block: the first one sees a key less", 2, 2, 8, 2, 2),
        ("as many tokens as keys", 4, 2, 4, 4, 2),
        ("blocks that cut a token's heads", 3, 4, 9, 5, 2),
        ("one head: a causal mask", 6, 1, 6, 2, 3),
        ("one token, 8 heads, 20 keys: neither all of K nor all of V fits", 1, 8, 20, 4, 2),
        ("all ragged", 5, 3, 11, 4, 3),
        ("one query, one key, blocks larger than both", 1, 1, 1, 4, 8),
        ("blocks of one", 3, 2, 4, 1, 1),
        ("16 rows in blocks of 2: a block of queries leaves before the next comes", 4, 4, 5, 2, 2),
    ):
        yield Case(words, (*_inputs(tokens, group, keys), group, block_m, block_n))
    q, k, v = _inputs(3, 2, 9)
    yield Case("scores times ten", (10 * q, k, v, 2, 3, 2))
    q, k, v = _inputs(3, 2, 9)
    q[1] *= 200
    yield Case("one query 200 times as large as the others", (q, k, v, 2, 3, 2))
    q, k, v = _inputs(3, 2, 9)
    k[6] = 8 * q[1]
    yield Case("the largest score comes late", (q, k, v, 2, 4, 2))
    for size, score, words in ((20.0, -200.0, "all scores far below 0"), (2.0**63, -1e38, "all scores −10³⁸")):
        q, k, v = _inputs(3, 2, 9)
        q[:, 0], k[:, 0] = size, 2 * score / size  # by a power of two: nothing is rounded
        yield Case(words, (q, k, v, 2, 3, 2))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    torch.manual_seed(draw.randrange(2**62))
    for _ in range(6):
        tokens, group = draw.randint(1, 5), draw.randint(1, 5)
        inputs = _inputs(tokens, group, tokens + draw.randint(0, 8))
        yield Case("any sizes", (*inputs, group, draw.randint(1, 7), draw.randint(1, 5)))


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: int, block_m: int, block_n: int
) -> tuple[str, torch.Tensor, str]:
    """Row by row, over the keys that its token sees, in float64."""
    rows = []
    for i, query in enumerate(q.double()):
        seen = len(k) - len(q) // group + i // group + 1
        scores = k[:seen].double() @ query / math.sqrt(q.shape[1])
        rows.append(torch.softmax(scores, 0) @ v[:seen].double())
    return "", torch.stack(rows).float(), ""


def _packed(memory, Q, K, V, O, G, block_m, block_n, bug):
    def scope(name):
        return contextlib.nullcontext() if bug == "no scopes" else memory.scope(name)

    def load(view):
        return view.data if bug == "data" else memory.load(view)

    (rows, d), n = Q.data.shape, K.data.shape[0]
    tokens = rows // G
    block_m *= G if bug == "block of tokens" else 1
    step = n if bug == "all keys at once" else block_n
    for first in range(0, rows - block_m + 1 if bug == "whole blocks" else rows, block_m):
        part = slice(first, first + block_m)
        with scope("queries"):
            q = load(Q[part])
            row = first + torch.arange(len(q))
            token = {"heads first": row % tokens, "rows as tokens": row}.get(bug, row // G)
            last = token if bug == "start" else (n - tokens + token).clamp(max=n - 1)
            if first == 0 or bug != "not reset":
                o, l = torch.zeros(q.shape), torch.zeros(len(q))
                m = torch.full((len(q),), {"m from 0": 0.0, "finite m": -1e9}.get(bug, -math.inf))
            o, l, m = o[: len(q)], l[: len(q)], m[: len(q)]
            end = {"to n": n, "no mask at all": n, "first row": int(last[0]) + 1, "one less": int(last.max())}.get(
                bug, int(last.max()) + 1
            )
            for start in range(0, end, step):
                with scope("keys"):
                    k, v = (load(x[start : start + step]) for x in (K, V))
                    if bug == "after the scope":
                        memory.free(str(K[start : start + step]))
                    s = q @ k.T / {"no scale": 1, "no root": d}.get(bug, math.sqrt(d))
                    if bug not in ("no mask", "no mask at all"):
                        s = s.masked_fill(
                            start + torch.arange(len(k)) > last[:, None] - int(bug == "own key"), -math.inf
                        )
                    m_new = (s.max() if bug == "one for all rows" else s.amax(dim=1)).expand(len(q))
                    if bug != "block maximum":
                        m_new = torch.maximum(m, m_new)
                    if bug == "by L":
                        m_new = torch.logaddexp(m, s.logsumexp(dim=1))
                    p, factor = torch.exp(s - m_new[:, None]), torch.exp(m - m_new)
                    l, m = torch.ones(len(q)) if bug == "by L" else l * factor + p.sum(dim=1), m_new
                    o = (o if bug == "o kept" else o * factor[:, None]) + p @ v
                    if bug == "stored inside":
                        memory.store(O[part], o / l[:, None])
            if bug != "stored inside":
                memory.store(O[part], o / l[:, None])


def head_by_head(memory, Q, K, V, O, G, block_m, block_n):
    (rows, d), n = Q.data.shape, K.data.shape[0]
    for h in range(G):
        for first in range(h, rows, block_m * G):
            with memory.scope("queries"):
                own = range(first, min(first + block_m * G, rows), G)
                q = torch.cat([memory.load(Q[i]) for i in own])
                last = n - rows // G + torch.tensor(own) // G
                o, l, m = torch.zeros(q.shape), torch.zeros(len(q)), torch.full((len(q),), -math.inf)
                for start in range(0, int(last[-1]) + 1, block_n):
                    with memory.scope("keys"):
                        k, v = memory.load(K[start : start + block_n]), memory.load(V[start : start + block_n])
                        s = q @ k.T / math.sqrt(d)
                        s = s.masked_fill(start + torch.arange(len(k)) > last[:, None], -math.inf)
                        m_new = torch.maximum(m, s.amax(dim=1))
                        p, factor = torch.exp(s - m_new[:, None]), torch.exp(m - m_new)
                        l, o, m = l * factor + p.sum(dim=1), o * factor[:, None] + p @ v, m_new
                for i, x in zip(own, o / l[:, None]):
                    memory.store(O[i], x[None])


WRONG = {
    "if each head walks over the keys by itself: K and V pass once for every head": head_by_head,
    **variants(
        _packed,
        {
            "if the rows are taken to hold all tokens of one head after the other: row r belongs to token r // G": "heads first",
            "if a row's number is taken for its token: G rows belong to each": "rows as tokens",
            "if the mask is aligned at the first key: the last token sees the last key": "start",
            "if nothing is masked: a block walks as far as its last row sees, and its other rows see less": "no mask",
            "if nothing is masked, and every block walks on to the last key": "no mask at all",
            "if a token does not see its own key: it sees keys up to n − N + t, that one included": "own key",
            "if the scores are not divided by √d": "no scale",
            "if the scores are divided by d: it is √d": "no root",
            "if block_m is taken for a number of tokens: it counts rows of Q, G to a token": "block of tokens",
            "if the last rows, fewer than block_m, are left out": "whole blocks",
            "if the walk ends before the last key that is seen: range(0, n) ends before n": "one less",
            "if a block walks on to the last key: right, but blocks are loaded that none of its rows sees": "to n",
            "if all of K and V is loaded at once: the SRAM has room for one block of each": "all keys at once",
            "if the walk ends with the last key of the block's first row: later tokens see more": "first row",
            "if O is stored inside the loop over the keys: it is written once for each block of keys": "stored inside",
            "without a scope for each block: what is loaded stays, and the next block finds no room": "no scopes",
            "if numbers are NaN: of .data, say, or of a scope that has ended, or by a factor of ∞ in the first block": "after the scope",
            "if Q, K and V are read by .data, which goes around the memory: read with memory.load": "data",
            "if o, l and m are not started anew for each block of queries": "not reset",
            "if one number, L = m + ln ℓ, stands for m and ℓ: where scores are large, it has no digits left for ℓ": "by L",
            "if all rows have one maximum: in a row whose scores lie far below it all weights vanish": "one for all rows",
            "if the maximum is that of the block of keys alone: when a large score has passed, the correction overflows": "block maximum",
            "if m starts at 0 instead of −∞, or no maximum is taken: all scores far below 0 then vanish": "m from 0",
            "if m starts at a number such as −10⁹ instead of −∞: scores may lie below it": "finite m",
            "if o is not multiplied by exp(m − m_new) when the maximum grows": "o kept",
        },
    ),
}

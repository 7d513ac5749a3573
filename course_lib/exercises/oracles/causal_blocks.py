"""Lecture 11: what causal_blocks is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    for words, *args in (
        ("a block on the diagonal", 2, 2, 2, 2, 4, 4),
        ("a block below the diagonal", 2, 0, 2, 2, 4, 4),
        ("a block above the diagonal", 0, 2, 2, 2, 4, 4),
        ("4 queries and 6 keys", 0, 0, 2, 2, 4, 6),
        ("4 queries and 6 keys", 0, 2, 2, 2, 4, 6),
        ("4 queries and 6 keys", 0, 4, 2, 2, 4, 6),
        ("far from the diagonal", 48, 16, 16, 16, 64, 64),
        ("far from the diagonal", 0, 32, 16, 16, 64, 64),
        ("wide blocks of keys", 16, 0, 16, 64, 64, 64),
        ("tall blocks of queries", 0, 32, 64, 16, 64, 64),
        ("the last query of the block sees one key", 0, 16, 16, 16, 32, 33),
        ("the first query of the block misses one key", 16, 0, 16, 16, 34, 32),
        ("the first query of the block just sees the last key", 16, 0, 16, 16, 33, 32),
        ("one query, one key", 0, 0, 16, 16, 1, 1),
        ("one new query, many keys", 0, 0, 16, 16, 1, 20),
        ("one new query, many keys, the ragged block", 0, 16, 16, 16, 1, 20),
        ("ragged queries and keys", 32, 32, 16, 16, 40, 40),
        ("queries that see no key", 0, 0, 16, 16, 48, 16),
        ("the last queries see the few keys", 32, 0, 16, 16, 48, 16),
    ):
        yield Case(words, tuple(args))
    yield from _anywhere(random.Random(0), 40)


def _anywhere(draw: random.Random, times: int) -> Iterable[Case]:
    for words, size in (
        ("small blocks anywhere", 6),
        ("blocks of any size anywhere", 40),
        ("thousands of queries and keys", 5000),
    ):
        for _ in range(times):
            n_q, n_k = draw.randint(1, size), draw.randint(1, size)
            blocks = draw.randint(1, min(size, 99)), draw.randint(1, min(size, 99))
            q_start = draw.randrange(n_q)
            diagonal = q_start + n_k - n_q + draw.randint(-blocks[1], blocks[0])
            yield Case(words, (q_start, min(max(diagonal, 0), n_k - 1), *blocks, n_q, n_k))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    yield from _anywhere(draw, 12)


def expected(q_start: int, k_start: int, block_m: int, block_n: int, n_q: int, n_k: int) -> str:
    """Pair by pair."""
    queries = torch.arange(q_start, min(q_start + block_m, n_q))[:, None]
    seen = torch.arange(k_start, min(k_start + block_n, n_k)) <= queries + (n_k - n_q)
    if not seen.any():
        return "skip"
    return "full" if seen.all() else "masked"


def _decide(q_start, k_start, block_m, block_n, n_q, n_k, bug):
    if bug == "blocks swapped":
        block_m, block_n = block_n, block_m
    offset = {
        "own key hidden": n_k - n_q - 1,
        "one key more": n_k - n_q + 1,
        "at the start": 0,
        "at the start, tail counted": 0,
        "never below 0": max(n_k - n_q, 0),
        "upside down": n_q - n_k,
    }.get(bug, n_k - n_q)
    last_query = (q_start + block_m if bug == "at the start, tail counted" else min(q_start + block_m, n_q)) - 1
    last_key = (
        k_start + block_n if bug in ("tail counted", "at the start, tail counted") else min(k_start + block_n, n_k)
    ) - 1
    if bug in ("one query too many", "both ends"):
        last_query += 1
    if bug == "skip by the last key" and last_key > last_query + offset:
        return "skip"
    if bug == "full by the first key":
        last_key = k_start
    if bug in ("full one late", "both ends"):
        last_key += 1
    to_skip = q_start if bug == "skip by the first query" else last_query
    to_be_full = last_query if bug == "full by the last query" else q_start
    if k_start > to_skip + offset - (bug == "skip one early") and bug != "no skip":
        return "skip"
    return "full" if last_key <= to_be_full + offset else "masked"


WRONG = variants(
    _decide,
    {
        "if a query does not see the key at its own place (j < i + n_k − n_q)": "own key hidden",
        "if a query sees one key beyond its own place": "one key more",
        "if a block is skipped though its last query, q_start + block_m − 1, just sees its first key: > decides, not >=": "skip one early",
        "if the mask is aligned at the start (j <= i): the first query and the first key stand side by side": "at the start",
        "if the mask is aligned at the start (j <= i), and queries beyond n_q and keys beyond n_k count": "at the start, tail counted",
        "if the ends of both blocks are one too far: the last one is at start + size − 1": "both ends",
        "if the offset may not fall below 0: with more queries than keys, the first queries see none": "never below 0",
        "if keys beyond n_k count: a ragged block looks cut although all its keys are seen": "tail counted",
        "if block_m and block_n change places: block_m counts queries, block_n keys": "blocks swapped",
        "if the offset is n_q − n_k: query i sees key j ≤ i + n_k − n_q": "upside down",
        "if the last query is counted at q_start + block_m: it is one less": "one query too many",
        "if the last key decides what to skip: the first one of the block is seen sooner": "skip by the last key",
        "if the first key decides what is full: the last one of the block is hidden longer": "full by the first key",
        "if the last key is counted at k_start + block_n, or < decides: the last key may be the last that is seen": "full one late",
        "if the first query decides what to skip: the later ones of the block see more": "skip by the first query",
        "if the last query decides what is full: the first one of the block sees less": "full by the last query",
        "if nothing is skipped: a block of which no query sees a key needs no work": "no skip",
    },
)

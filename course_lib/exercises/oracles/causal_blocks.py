"""Lecture 06: what causal_blocks is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case


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


def expected(q_start: int, k_start: int, block_m: int, block_n: int, n_q: int, n_k: int) -> str:
    """Pair by pair, from the whole mask."""
    seen = torch.ones(n_q, n_k).tril(n_k - n_q)[q_start : q_start + block_m, k_start : k_start + block_n]
    if not seen.any():
        return "skip"
    return "full" if seen.all() else "masked"


def _decide(first_query, last_query, first_key, last_key, offset):
    if first_key > last_query + offset:
        return "skip"
    return "full" if last_key <= first_query + offset else "masked"


def _at(q_start, k_start, block_m, block_n, n_q, n_k, offset):
    last_query, last_key = min(q_start + block_m, n_q) - 1, min(k_start + block_n, n_k) - 1
    return _decide(q_start, last_query, k_start, last_key, offset)


def diagonal_hidden(q_start, k_start, block_m, block_n, n_q, n_k):
    return _at(q_start, k_start, block_m, block_n, n_q, n_k, n_k - n_q - 1)


def one_key_too_many(q_start, k_start, block_m, block_n, n_q, n_k):
    return _at(q_start, k_start, block_m, block_n, n_q, n_k, n_k - n_q + 1)


def aligned_at_the_start(q_start, k_start, block_m, block_n, n_q, n_k):
    return _at(q_start, k_start, block_m, block_n, n_q, n_k, 0)


def shifted_the_other_way(q_start, k_start, block_m, block_n, n_q, n_k):
    return _at(q_start, k_start, block_m, block_n, n_q, n_k, n_q - n_k)


def never_shifted_back(q_start, k_start, block_m, block_n, n_q, n_k):
    return _at(q_start, k_start, block_m, block_n, n_q, n_k, max(n_k - n_q, 0))


def tail_counted(q_start, k_start, block_m, block_n, n_q, n_k):
    return _decide(q_start, q_start + block_m - 1, k_start, k_start + block_n - 1, n_k - n_q)


def ends_one_too_far(q_start, k_start, block_m, block_n, n_q, n_k):
    return _decide(q_start, min(q_start + block_m, n_q), k_start, min(k_start + block_n, n_k), n_k - n_q)


def key_end_one_too_far(q_start, k_start, block_m, block_n, n_q, n_k):
    return _decide(q_start, min(q_start + block_m, n_q) - 1, k_start, min(k_start + block_n, n_k), n_k - n_q)


def query_end_one_too_far(q_start, k_start, block_m, block_n, n_q, n_k):
    return _decide(q_start, min(q_start + block_m, n_q), k_start, min(k_start + block_n, n_k) - 1, n_k - n_q)


def skip_by_the_first_query(q_start, k_start, block_m, block_n, n_q, n_k):
    last_key = min(k_start + block_n, n_k) - 1
    return _decide(q_start, q_start, k_start, last_key, n_k - n_q)


def full_by_the_last_query(q_start, k_start, block_m, block_n, n_q, n_k):
    last_query, last_key = min(q_start + block_m, n_q) - 1, min(k_start + block_n, n_k) - 1
    return _decide(last_query, last_query, k_start, last_key, n_k - n_q)


def queries_swapped(q_start, k_start, block_m, block_n, n_q, n_k):
    last_query, last_key = min(q_start + block_m, n_q) - 1, min(k_start + block_n, n_k) - 1
    return _decide(last_query, q_start, k_start, last_key, n_k - n_q)


def full_by_the_first_key(q_start, k_start, block_m, block_n, n_q, n_k):
    return _decide(q_start, min(q_start + block_m, n_q) - 1, k_start, k_start, n_k - n_q)


def starts_compared(q_start, k_start, block_m, block_n, n_q, n_k):
    place = q_start + n_k - n_q
    if k_start > place:
        return "skip"
    return "full" if k_start < place else "masked"


WRONG = {
    "if a query does not see the key at its own place (j < i + n_k − n_q)": diagonal_hidden,
    "if a query sees one key beyond its own place": one_key_too_many,
    "if the mask is aligned at the start (j <= i): the first query and the first key stand side by side": (
        aligned_at_the_start
    ),
    "if the offset has the wrong sign (n_q − n_k instead of n_k − n_q)": shifted_the_other_way,
    "if the offset may not fall below 0: with more queries than keys, the first queries see none": never_shifted_back,
    "if keys beyond n_k count: a ragged block looks cut although all its keys are seen": tail_counted,
    "if start + size is taken for the last query and the last key of a block: both are one less": ends_one_too_far,
    "if k_start + block_n is taken for the last key of the block: it is one less": key_end_one_too_far,
    "if q_start + block_m is taken for the last query of the block: it is one less": query_end_one_too_far,
    "if the first query decides what to skip: the later ones of the block see more": skip_by_the_first_query,
    "if the last query decides what is full: the first one of the block sees less": full_by_the_last_query,
    "if first and last query are swapped: the last one decides what to skip, the first one what is full": queries_swapped,
    "if the first key decides what is full: the later ones of the block may be hidden": full_by_the_first_key,
    "if only the starts are compared: the sizes of the blocks decide, too": starts_compared,
}

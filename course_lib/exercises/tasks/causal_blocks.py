"""Lecture 11: which pairs of blocks a causal mask skips, leaves whole, or cuts."""

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="11",
    title="a causal mask by blocks",
    hints=(
        "Draw the mask for 4 queries and 6 keys, and blocks of 2 × 2. Which corner of a block is the last to be seen, which the first?",
        "'skip' is decided by the last query and the first key of the block, 'full' by the first query and the last key.",
        "With offset = n_k − n_q query i sees up to key i + offset. Compare one corner's key with that of its query, for each "
        "of the two questions; and which is the last key of a block that reaches past n_k?",
    ),
)

# --- for teachers ---

SOLUTION = '''
def causal_blocks(q_start: int, k_start: int, block_m: int, block_n: int, n_q: int, n_k: int) -> str:
    """'skip', 'full' or 'masked' for one block of queries and one of keys; the last query sees the last key."""
    offset = n_k - n_q
    last_query = min(q_start + block_m, n_q) - 1
    last_key = min(k_start + block_n, n_k) - 1
    if k_start > last_query + offset:
        return "skip"
    return "full" if last_key <= q_start + offset else "masked"
'''
WHY = """
The diagonal runs from the upper left to the lower right. The lower left corner of a block (last query, first key) is the first to be seen:
if it is hidden, all is. The upper right corner (first query, last key) is the last: if it is seen, all is. With as many queries as keys,
as on this page, it does not matter at which end the mask is aligned; with one new query and many old keys it does: aligned at
the start, that query would see one key. A full block still needs the tail mask where it is ragged, but no causal one.
"""


def cases(draw):
    for words, *args in (
        ("a block on the diagonal", 2, 2, 2, 2, 4, 4),
        ("a block below the diagonal", 2, 0, 2, 2, 4, 4),
        ("a block above the diagonal", 0, 2, 2, 2, 4, 4),
        ("4 queries and 6 keys", 0, 2, 2, 2, 4, 6),
        ("wide blocks of keys", 16, 0, 16, 64, 64, 64),
        ("the last query of the block sees one key", 0, 16, 16, 16, 32, 33),
        ("the first query of the block misses one key", 16, 0, 16, 16, 34, 32),
        ("the first query of the block just sees the last key", 16, 0, 16, 16, 33, 32),
        ("one query, one key", 0, 0, 16, 16, 1, 1),
        ("one new query, many keys, the ragged block", 0, 16, 16, 16, 1, 20),
        ("queries that see no key", 0, 0, 16, 16, 48, 16),
    ):
        yield Case(words, tuple(args))
    for words, size in (("small blocks", 6), ("blocks of any size", 40), ("thousands of queries and keys", 5000)):
        for _ in range(40):
            n_q, n_k = draw.randint(1, size), draw.randint(1, size)
            blocks = draw.randint(1, min(size, 99)), draw.randint(1, min(size, 99))
            q_start = draw.randrange(n_q)
            diagonal = q_start + n_k - n_q + draw.randint(-blocks[1], blocks[0])
            yield Case(words, (q_start, min(max(diagonal, 0), n_k - 1), *blocks, n_q, n_k))


def expected(q_start, k_start, block_m, block_n, n_q, n_k):
    """Pair by pair."""
    queries = torch.arange(q_start, min(q_start + block_m, n_q))[:, None]
    seen = torch.arange(k_start, min(k_start + block_n, n_k)) <= queries + (n_k - n_q)
    if not seen.any():
        return "skip"
    return "full" if seen.all() else "masked"


OFFSET = "n_k - n_q"
WRONG = {
    "if a query does not see the key at its own place (j < i + n_k − n_q)": (OFFSET, "n_k - n_q - 1"),
    "if a block is skipped though its last query, q_start + block_m − 1, just sees its first key: > decides, not >=":
        ("k_start > ", "k_start >= "),
    "if the mask is aligned at the start (j <= i): the first query and the first key stand side by side": (OFFSET, "0"),
    "if the offset may not fall below 0: with more queries than keys, the first queries see none": (OFFSET, "max(n_k - n_q, 0)"),
    "if block_m and block_n change places: block_m counts queries, block_n keys":
        ("t + block_m", "t + block_n", "k_start + block_n", "k_start + block_m"),
    "if the last query decides what is full: the first one of the block sees less": ("<= q_start", "<= last_query"),
}  # fmt: skip

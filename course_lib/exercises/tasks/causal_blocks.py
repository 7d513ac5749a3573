"""Lecture 11: which pairs of blocks a causal mask skips, leaves whole, or cuts."""

from course_lib.exercises.base import Exercise

ASKED = r"""
A causal mask aligned at the **end**: of 4 queries and 6 keys, query 3 sees all keys, query 2 the keys 0 to 4, query 0 the keys 0 to 2. In
general query $i$ sees key $j$ if $j \le i + n_k - n_q$, for $n_q$ queries and $n_k$ keys; if there are more queries than keys, the first
ones see none. (`attention()` of lecture 07 aligns at the start, as PyTorch does: there $j \le i$.) A kernel has a block of `block_m`
queries from `q_start` on, and a block of `block_n` keys from `k_start` on; both starts are in range, and what a block has beyond the last
query or key does not count. Return `'skip'` if no query of the block sees a key of the block, `'full'` if each query sees each key, and
`'masked'` if there is something to mask. Two comparisons are enough.
"""

STUB = '''
def causal_blocks(q_start: int, k_start: int, block_m: int, block_n: int, n_q: int, n_k: int) -> str:
    """'skip', 'full' or 'masked' for one block of queries and one of keys; the last query sees the last key."""
    ...
'''


EXERCISE = Exercise(
    name="causal_blocks",
    lecture="11",
    title="a causal mask by blocks",
    level=2,
    minutes=10,
    core=True,
    asked=ASKED,
    stub=STUB,
    hints=(
        "Draw the mask for 4 queries and 6 keys, and blocks of 2 × 2. Which corner of a block is the last to be seen, which the first?",
        "'skip' is decided by the last query and the first key of the block, 'full' by the first query and the last key.",
        "With offset = n_k − n_q query i sees up to key i + offset. Compare one corner's key with that of its query, for each "
        "of the two questions; and which is the last key of a block that reaches past n_k?",
    ),
)

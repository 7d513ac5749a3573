"""Solution of causal_blocks."""

SOURCE = '''
def causal_blocks(q_start: int, k_start: int, block_m: int, block_n: int, n_q: int, n_k: int) -> str:
    """'skip', 'full' or 'masked' for one block of queries and one of keys; the last query sees the last key."""
    offset = n_k - n_q
    last_query = min(q_start + block_m, n_q) - 1
    last_key = min(k_start + block_n, n_k) - 1
    if k_start > last_query + offset:
        return "skip"
    return "full" if last_key <= q_start + offset else "masked"
'''

EXPLANATION = """
The diagonal runs from the upper left to the lower right. The lower left corner of a block (last query, first key) is the first to be seen:
if it is hidden, all is. The upper right corner (first query, last key) is the last: if it is seen, all is. With as many queries as keys,
as on this page, it does not matter at which end the mask is aligned; with one new query and many old keys it does: aligned at
the start, that query would see one key. A full block still needs the tail mask where it is ragged, but no causal one.
"""

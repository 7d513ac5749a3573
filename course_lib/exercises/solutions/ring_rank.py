"""Solution of ring_rank."""

SOURCE = '''
def ring_rank(rank: int, ranks: int, q, k, v, attend):
    """A generator: o [heads, c, d] of this rank's queries over the keys of ranks 0 to rank."""
    for step in range(ranks):
        goes_on = step < ranks - 1
        if goes_on:
            coming = yield ("post", k, v)
        if step == 0:
            o, L = attend(q, k, v, True)
        elif step <= rank:
            part, part_L = attend(q, k, v, False)
            both = torch.logaddexp(L, part_L)
            o = o * (L - both).exp()[..., None] + part * (part_L - both).exp()[..., None]
            L = both
        if goes_on:
            yield ("wait",)
            k, v = coming
    return o
'''

EXPLANATION = """
The order of three lines makes the ring: post, attend, wait. Waiting before attending gives the same result and hides nothing; attending to
what has not arrived gives NaN here, and on a GPU numbers of an earlier step. A rank that sees no key of a block must still pass it on,
or all behind it wait for ever. Only the block of one's own keys has a diagonal; from step 1 on a rank sees all of a block or nothing.
"""

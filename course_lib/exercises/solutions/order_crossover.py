"""Solution of order_crossover."""

SOURCE = '''
def order_crossover(N: int, d: int, block_m: int, e: int) -> int | None:
    """The smallest block_n with which V1 moves fewer bytes than V2; None if there is none."""
    one_pass = d * e + 2 * 4 * d + 2 * 2 * 4  # of V1, a row: Q; O both ways; l and m both ways
    budget = 2 * math.ceil(N / block_m) * d * e + 4  # of V2, a row: K and V, and L; the rest is 2 d e in both
    passes = (budget - 1) // one_pass
    return math.ceil(N / passes) if passes else None
'''

EXPLANATION = """
The 2·d·e of K and V in V1 meet the 2·d·e of Q and O in V2. What is left: V1 pays d·e + 8·d + 16 for each block of
keys, V2 pays 2·d·e for each block of queries. For large d in fp16 that is 10·d against 4·d: V1 needs blocks two and a
half times as large as V2's, in fp32 one and a half times. For N = 4,096, d = 64, fp16 and 16 queries it needs 42
keys. The search is as good an answer: V1's bytes never grow with block_n, so the first hit is the smallest.
"""

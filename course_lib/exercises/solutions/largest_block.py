"""Solution of largest_block."""

SOURCE = '''
def largest_block(sram_bytes: int, block_m: int, d: int) -> int:
    """The largest block_n, a power of two, whose five tiles fit in sram_bytes; 0 if there is none."""
    queries = 2 * block_m * d + 4 * block_m * d  # Q and O
    key = 2 * d + 2 * d + 4 * block_m  # a row of K, a row of V, a column of S
    block_n = 0
    while queries + (2 * block_n or 1) * key <= sram_bytes:
        block_n = 2 * block_n or 1
    return block_n
'''

EXPLANATION = """
The sum is linear in block_n: a fixed part for the block of queries, and a price for each key. With block_m = d = 128 a key costs
1,024 bytes, and half of that is its column of S, which formulas with four tiles leave out. Real kernels keep S and O in registers and
have several copies of K and V on the way, so the prices differ; the sum is done in the same manner.
"""

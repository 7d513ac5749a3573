"""Solution of count_bytes."""

SOURCE = '''
def count_bytes(m: int, n: int, k: int, block: int) -> dict[str, int]:
    """Bytes that the loop nest moves between HBM and SRAM: {'A': ..., 'B': ..., 'C': ...}."""
    down, across, steps = (math.ceil(size / block) for size in (m, n, k))
    return {"A": 4 * m * k * across, "B": 4 * k * n * down, "C": 4 * m * n * (2 * steps - 1)}
'''

EXPLANATION = """
Count whole matrices instead of tiles. For a fixed j, the loops over i and p load every tile of A once, and together the tiles are A,
however ragged; so A crosses ⌈n / block⌉ times, and B ⌈m / block⌉ times. C crosses 2⌈k / block⌉ − 1 times because the nest puts its sum
back at every step. With the sum in SRAM that would be once: the first thing that a better nest changes.
"""

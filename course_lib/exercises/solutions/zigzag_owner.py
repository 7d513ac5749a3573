"""Solution of zigzag_owner."""

SOURCE = '''
def zigzag_owner(token: int, ranks: int, length: int) -> tuple[int, int]:
    """(rank, place) of a token in zigzag order."""
    size = length // (2 * ranks)
    piece, place = divmod(token, size)
    return (piece, place) if piece < ranks else (2 * ranks - 1 - piece, size + place)
'''

EXPLANATION = """
The pieces go down the ranks and up again, hence the name. Within a rank tokens stay in their order, so the late piece simply follows
the early one. Whatever belongs to a token, its position for RoPE, its label, its mask, has to be dealt out by the same rule.
"""

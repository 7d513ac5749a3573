"""Solution of lite_is_exact."""

SOURCE = '''
def lite_is_exact(n_keys: int, block_n: int) -> bool:
    """Whether Lite is attention for all inputs with n_keys keys in blocks of block_n."""
    return n_keys <= block_n
'''

EXPLANATION = """
With one block, the sum by which Lite divides runs over all keys: that is attention, and the mask of the ragged tail keeps it so. With more,
the weights add up to the number of blocks. If all values are 1, attention returns 1 and Lite returns 2 or more, whatever the scores. So
there is nothing in between: Lite is exact for all inputs or wrong for nearly all. Neither N nor the block alone decides.
"""

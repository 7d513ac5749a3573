"""Solution of lite_weights."""

SOURCE = '''
def lite_weights(x: torch.Tensor, block_n: int) -> torch.Tensor:
    """The weights [N] that Lite gives to the values of N keys with scores x [N], float32."""
    return torch.cat([torch.softmax(block, 0) for block in x.split(block_n)])
'''

EXPLANATION = """
The weights are 0.731, 0.269, 0.982, 0.018. Each block hands out a weight of 1, so with T blocks all weights add up to T, here 2: Lite's
output is a sum of T averages. With one block it is the softmax. A key's weight depends on its own block alone: a score of 300 in the last
block leaves the weights of the first block as they were, where attention would take nearly everything from them.
"""

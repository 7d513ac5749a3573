"""Solution of two_consumers."""

SOURCE = '''
def two_consumers(
    blocks: int, buffers: int, load: int, qk: int, softmax: int, pv: int
) -> list[tuple[int, str, int]]:
    """The order in which the tensor cores serve (consumer, "QK" or "PV", block)."""
    order = []
    for step in range(blocks + 1):
        for consumer in (1, 2):
            ahead = [(consumer, "QK", step)] if step < blocks else []
            behind = [(consumer, "PV", step - 1)] if step > 0 else []
            order += ahead + behind if buffers > 2 else behind + ahead
    return order
'''

EXPLANATION = """
With PV first, one consumer takes exponentials while the other multiplies: ping-pong, enough as long as a softmax is no longer than two
matmuls of the other. With QK of the next block first, a consumer is ahead of itself, and its softmax may also run beside its own PV; that
is FlashAttention-3's overlap inside a warpgroup. It holds two blocks at a time, so with two buffers nobody can fetch a third, and what the
order gains is lost in waiting for loads. With a buffer more it wins. So the buffers decide here, not the durations.
"""

"""What a training step of a GPT multiplies: its blocks' matmuls, its attention, and what a faster attention can gain.

A block of width D has 12 D² weights: 4 D² around attention, and 8 D² in an MLP of twice D × 4D, or 12 D² in a gated one of three.
"""

# Matmuls of a fused attention over each pair of a query and a key: backward S is computed again.
FORWARD, BACKWARD = 2, 5
WIDE = 4  # times the width, of an MLP


def block_flops(width: int, *, gated: bool = False) -> int:
    """Operations per token of a block's matmuls with weights, forward: 2 for each weight. Backward has twice as many."""
    mlp = (3 if gated else 2) * WIDE
    return 2 * (4 + mlp) * width**2


def attention_flops(width: int, t: float, *, causal: bool = True) -> float:
    """Operations per token of the two matmuls of attention, forward, at a context of ``t`` tokens; half of all under a causal mask."""
    return 4 * t * width * (0.5 if causal else 1)


def crossing(width: int, *, gated: bool = False, causal: bool = True, recomputed: bool = False) -> float:
    """The context at which attention takes as many operations as the matmuls with weights, forward and backward.

    ``recomputed``: backward a fused attention has five matmuls and not four.
    """
    more = (FORWARD + BACKWARD) / (3 * FORWARD) if recomputed else 1.0
    return block_flops(width, gated=gated) / attention_flops(width, 1, causal=causal) / more


def gain(share: float, faster: float) -> float:
    """Amdahl: how many times as fast a step becomes when a ``share`` of its time, 0 to 1, becomes ``faster`` times as fast."""
    return 1 / (1 - share + share / faster)

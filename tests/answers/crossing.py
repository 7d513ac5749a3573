def right_by_operations(width, mlp, causal):
    weights = 2 * (4 * width**2 + mlp * width**2)
    per_key = 4 * width
    return weights / (per_key / 2 if causal else per_key)


def wrong_mask_the_wrong_way(width, mlp, causal):
    return (4 + mlp) * width * (0.5 if causal else 1)


def wrong_without_attentions_weights(width, mlp, causal):
    """without the 4 · width² around attention"""
    return mlp * width * (1 if causal else 0.5)

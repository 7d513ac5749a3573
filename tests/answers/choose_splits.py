def right_in_one_line(batch, heads, heads_k, keys, block, seats):
    p = batch * heads_k
    fills = [p * s / (-(-p * s // seats) * seats) for s in range(1, min(128, -(-keys // block)) + 1)]
    return 1 + [fill >= 0.85 * max(fills) for fill in fills].index(True)


def wrong_better_than(batch, heads, heads_k, keys, block, seats):
    """at least is asked"""
    p = batch * heads_k
    fills = [p * s / (-(-p * s // seats) * seats) for s in range(1, min(128, -(-keys // block)) + 1)]
    return 1 + [fill > 0.85 * max(fills) for fill in fills].index(True)

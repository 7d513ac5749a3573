"""Solution of greedy_token."""

SOURCE = '''
def greedy_token(blocks) -> tuple[int, float]:
    """(token, probability) of the largest of all scores; blocks is an iterator of tensors [n], each there until the next."""
    m, l, token, before = -math.inf, 0.0, 0, 0
    for x in blocks:
        top = float(x.max())
        if top > m:
            l *= math.exp(m - top)
            m, token = top, before + int(x.argmax())
        if m > -math.inf:
            l += float(torch.exp(x - m).sum())
        before += len(x)
    return token, 1 / l
'''

EXPLANATION = """
The largest score measured from itself is e^0 = 1, so its probability is 1 / ℓ: the online softmax has it for nothing, and only the token
has to be carried along. A sampler that picks the likeliest token so reads 128,000 scores once and writes two numbers. The comparison is >
and not ≥, so that the first of equal scores stays; and a block of −∞ leaves m at −∞, from which nothing can be measured.
"""

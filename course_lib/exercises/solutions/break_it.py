"""Solution of break_it."""

SOURCE = '''
def break_it(block: int, queries: int, keys: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(q [n, d], k [m, d], v [m, e]), n ≤ queries and m ≤ keys, on which every wrong kernel shows."""
    last = torch.tensor([2.0, -1.0, -200.0])  # the last key's score, above or below those of the first block
    scores = torch.full((3, block + 1), -1500.0)
    scores[2] += 200  # rows far apart
    scores[:, :block] += torch.linspace(-0.5, 0.0, block)  # a little apart: a softmax of one weight alone hides much
    scores[:, block] += last
    q = math.sqrt(3) * torch.eye(3)  # with d = 3 the scores are the columns of k
    v = 1e5 * torch.arange(1.0, block + 2)[:, None]
    return q, scores.T.contiguous(), v
'''

EXPLANATION = """
One row of scores cannot rise and fall at its last block, but three rows can: one rises by less than 4 (all kinds of rescaling), one
falls a little (skipped blocks), one falls by 200 (the block's own maximum, whose correction overflows). All of them lie below −1,000, so
that whatever stands in for padded keys, or for the maximum, is the largest number there is; the rows are 200 apart, for a maximum that
they share. A ragged last block and three queries do the rest, and values beyond 65,504 what concerns fp16. Random inputs leave seven
of the mistakes unseen, however many tokens they have.
"""

"""Solution of choose_splits."""

SOURCE = '''
def choose_splits(batch: int, heads: int, heads_k: int, keys: int, block: int, seats: int) -> int:
    """The smallest number of splits that fills the GPU's seats at least 0.85 times as well as the best one."""
    fill = {}
    for s in range(1, min(128, math.ceil(keys / block)) + 1):
        programs = batch * heads_k * s
        fill[s] = programs / (math.ceil(programs / seats) * seats)
    best = max(fill.values())
    return next(s for s in fill if fill[s] >= 0.85 * best)
'''

EXPLANATION = """
For one sequence with 8 heads of keys on 132 seats 33 splits are best (264 programs, two full waves), 16 are 0.97 as good,
and 15, 0.91 as good, are taken: fewer splits leave fewer partial results to write and to merge. The heads of the queries do
not appear. FlashAttention-3's rule is this one, with some cases apart; a rule that divides seats by programs has no eye for
the seventeenth split, which makes the whole GPU wait for four programs.
"""

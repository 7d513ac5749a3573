"""Solution of crossover."""

SOURCE = '''
def crossover(old: tuple[int, int], new: tuple[int, int]) -> int | None:
    """The length from which on the rung new is faster than old; each is (a call, a score) in picoseconds."""
    more, saved = new[0] - old[0], old[1] - new[1]
    if saved <= 0:
        return 1 if saved == 0 and more < 0 else None
    return math.isqrt(more // saved) + 1 if more > 0 else 1
'''

EXPLANATION = """
new's call costs more, and N² scores pay it back: N² · saved > more. So a call ten times as cheap moves the crossing by
√10 only. In whole numbers no rounding can go wrong: N² > more / saved is the same as N² > more // saved, and isqrt + 1
is the first such N. The lecture's recording says 64: it has powers of two only.
"""

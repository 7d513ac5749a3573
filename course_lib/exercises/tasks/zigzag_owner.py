"""Lecture 13: who owns a token in zigzag order, and where."""

from course_lib.exercises.base import Exercise

ASKED = r"""
A token has been dealt out in zigzag order, and you want it back: its label, say. With 4 ranks and 16 tokens the sequence is cut into
8 pieces of 2; rank 1 has pieces 1 and 6, so tokens 2, 3, 12, 13, in this order. Token 12 is therefore with rank 1, in place 2.

Return the rank that owns `token`, and the place at which it keeps it, counted from 0, as two ints. `length` is a multiple of
2 · `ranks`; tokens and ranks are counted from 0. Do it by arithmetic: lengths go to billions.
"""

STUB = '''
def zigzag_owner(token: int, ranks: int, length: int) -> tuple[int, int]:
    """(rank, place) of a token in zigzag order."""
    ...
'''

EXERCISE = Exercise(
    name="zigzag_owner",
    lecture="13",
    title="where is my token?",
    level=2,
    minutes=8,
    asked=ASKED,
    stub=STUB,
    parts=("rank", "place"),
    answers=(
        "course_lib.model.parallel.owners",
        "course_lib.model.parallel.positions",
        "course_lib.model.parallel._pieces",
    ),
    hints=(
        "In which of the 2P pieces is the token, and at which place within it?",
        "Pieces 0 to P − 1 belong to the rank of the same number. Pieces P to 2P − 1 go to the ranks P − 1 down to 0.",
        "divmod by the length of a piece gives the piece and the place in it. A late piece is its rank's second one, so it lies "
        "behind the first; and the late pieces go down the ranks.",
    ),
)

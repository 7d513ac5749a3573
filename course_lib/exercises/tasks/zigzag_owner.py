"""Lecture 13: who owns a token in zigzag order, and where."""

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="13",
    title="where is my token?",
    parts=("rank", "place"),
    forbidden=("model.parallel.owners", "model.parallel.positions", "model.parallel._pieces"),
    hints=(
        "In which of the 2P pieces is the token, and at which place within it?",
        "Pieces 0 to P − 1 belong to the rank of the same number. Pieces P to 2P − 1 go to the ranks P − 1 down to 0.",
        "divmod by the length of a piece gives the piece and the place in it. A late piece is its rank's second one, so it lies "
        "behind the first; and the late pieces go down the ranks.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def zigzag_owner(token: int, ranks: int, length: int) -> tuple[int, int]:
    """(rank, place) of a token in zigzag order."""
    size = length // (2 * ranks)
    piece, place = divmod(token, size)
    return (piece, place) if piece < ranks else (2 * ranks - 1 - piece, size + place)
'''
WHY = """
The pieces go down the ranks and up again, hence the name. Within a rank tokens stay in their order, so the late piece simply follows
the early one. Whatever belongs to a token, its position for RoPE, its label, its mask, has to be dealt out by the same rule.
"""


def cases(draw):
    yield Case("an early token", (2, 4, 16))
    yield Case("a late token", (12, 4, 16))
    yield Case("the last token is with rank 0", (15, 4, 16))
    yield Case("the middle: piece P belongs to the last rank", (8, 4, 16))
    yield Case("one rank has all", (5, 1, 8))
    yield Case("11 ranks: 15 / 22 is no float", (15, 11, 22))
    yield Case("the last token of a piece of a million", (999_999_999, 512, 1024 * 1_000_000))
    for _ in range(16):
        ranks, size = draw.randint(1, 40), draw.randint(1, 50)
        yield Case("any token of any rank", (draw.randrange(2 * ranks * size), ranks, 2 * ranks * size))


def expected(token, ranks, length):
    """Rank after rank: is the token in one of its two ranges?"""
    size = length // (2 * ranks)
    for rank in range(ranks):
        early, late = range(rank * size, (rank + 1) * size), range(length - (rank + 1) * size, length - rank * size)
        for before, piece in ((0, early), (size, late)):
            if token in piece:
                return rank, before + piece.index(token)


EARLY, RANK, PLACE = "(piece, place)", "2 * ranks - 1 - piece", "size + place"
WRONG = {
    "if each rank has one piece: that is contiguous order": ("(2 * ranks)", "ranks"),
    "if the piece is computed with floats: a quotient may come out just below its whole number; // is exact":
        ("piece, place = divmod(token, size)", "piece = int(token / length * 2 * ranks)\n    place = token - piece * size"),
    "if the late pieces go to ranks 0 to P − 1 again: they go back, P − 1 to 0": (RANK, "piece - ranks"),
    "if place and rank change places": (EARLY, "(place, piece)", f"{RANK}, {PLACE}", f"{PLACE}, {RANK}"),
    "if the place is that within the piece: a late piece follows the early one": (PLACE, "place"),
    "if the place is that in the sequence: it is that in the rank's share": (EARLY, "(piece, token)", PLACE, "token"),
}  # fmt: skip

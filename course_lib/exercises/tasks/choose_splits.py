"""Lecture 08: how many splits fill a GPU."""

from fractions import Fraction

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="08",
    title="how many splits",
    forbidden=("kernels.decoding.choose_splits", "kernels.decoding.wave_efficiency"),
    hints=(
        "How many waves do p · s programs take on the seats? How many seats do these waves offer, and how many are taken?",
        "programs = batch * heads_k * s, waves = ⌈programs / seats⌉, fill = programs / (waves * seats). Not heads: a group is one tile.",
        "Which values may s take, by its own limit and by the number of blocks? You need the fill of all of them before you can "
        "say which is the first that is good enough.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def choose_splits(batch: int, heads: int, heads_k: int, keys: int, block: int, seats: int) -> int:
    """The smallest number of splits that fills the GPU's seats at least 0.85 times as well as the best one."""
    fill = {}
    for s in range(1, min(128, math.ceil(keys / block)) + 1):
        programs = batch * heads_k * s
        fill[s] = programs / (math.ceil(programs / seats) * seats)
    best = max(fill.values())
    return next(s for s in fill if fill[s] >= 0.85 * best)
'''
WHY = """
For one sequence with 8 heads of keys on 132 seats 33 splits are best (264 programs, two full waves), 16 are 0.97 as good,
and 15, 0.91 as good, are taken: fewer splits leave fewer partial results to write and to merge. FlashAttention-3's rule is
this one, with some cases apart.
"""


def cases(draw):
    yield Case("one block of keys cannot be split", (1, 8, 2, 50, 64, 132))
    yield Case("8 heads of keys on 132 seats, a long text", (1, 32, 8, 100_000, 64, 132))
    yield Case("a short text: 5 blocks, the last one short", (1, 32, 8, 300, 64, 132))
    yield Case("17 sequences: 136 programs make a second wave", (17, 32, 8, 8192, 64, 132))
    yield Case("one head on 2,000 seats: the cap of 128 is best", (1, 16, 1, 1_000_000, 64, 2000))
    yield Case("17 splits are 0.85 as good as 20", (1, 1, 1, 320, 16, 20))
    yield Case("no fill reaches 0.85, and the best is not the last", (3, 1, 1, 192, 64, 8))
    for _ in range(40):
        heads_k, group = draw.choice((1, 2, 4, 8)), draw.choice((1, 4, 8))
        keys, block, seats = draw.randint(1, 20_000), draw.choice((16, 64, 128)), draw.randint(1, 300)
        numbers = draw.randint(1, 40), heads_k * group, heads_k, keys, block, seats
        fills = _fills(*numbers)
        if Fraction(17, 20) * max(fills) not in fills:  # there rounding would decide
            yield Case("any numbers", numbers)


def _fills(batch, heads, heads_k, keys, block, seats):
    programs = [batch * heads_k * s for s in range(1, min(128, -(-keys // block)) + 1)]
    return [Fraction(p, -(-p // seats) * seats) for p in programs]


def expected(*arguments):
    """With fractions."""
    fills = _fills(*arguments)
    return next(s for s, fill in enumerate(fills, 1) if fill >= Fraction(17, 20) * max(fills))


MOST, FIRST = "min(128, math.ceil(keys / block))", "next(s for s in fill if fill[s] >= 0.85 * best)"
WRONG = {
    "if the heads of the queries are counted: those of a group share one program": ("heads_k * s", "heads * s"),
    "if the largest s is never tried: range(1, n) ends before n": (f"{MOST} + 1", f"max(2, {MOST})"),
    "if a wave may be a part of one: programs / seats is not rounded up": ("math.ceil(programs / seats)", "max(1, programs / seats)"),
    "if short texts are split into more pieces than they have blocks": (MOST, "128"),
    "if the best fill itself is wanted, and not 0.85 of it: more splits write more partial results": ("0.85 * ", ""),
    "if a fill of 0.85 of the best is not good enough: at least is asked": (">=", ">"),
    "if 0.85 is asked of the fill itself: it is a share of the best fill": (FIRST, "next((s for s in fill if fill[s] >= 0.85), 1)"),
}  # fmt: skip

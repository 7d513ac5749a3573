"""Lecture 04: an input on which wrong kernels show."""

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness import wrong_attention


def examine(case, result):
    """The kernels are run here, on the student's numbers, and not where the student's code is."""
    return wrong_attention.getting_by(result, *case.args)


EXERCISE = Exercise(
    lecture="04",
    title="break it",
    examine=examine,
    parts=("the input", "these get by"),
    forbidden=("exercises.harness.wrong_attention.getting_by",),
    hints=(
        "Start from torch.randn and a ragged number of keys, and run the check: it names the mistakes that get by. For each, ask which "
        "row of scores it needs.",
        "Every query has its own row of scores. If q is a multiple of the unit matrix, row i of the scores is column i of k but for a "
        "factor, so you can write each row down as you want it.",
        "Three rows are enough: in one the last key lies a little above the others, in one a little below, in one far below (more than "
        "90). What is left: all far below zero, rows far apart, and values of a size that fp16 does not hold.",
    ),
)

# --- for teachers ---

SOLUTION = '''
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
WHY = """
One row of scores cannot rise and fall at its last block, but three rows can: one rises by less than 4 (all kinds of rescaling), one
falls a little (skipped blocks), one falls by 200 (the block's own maximum, whose correction overflows). All of them lie below −1,000, so
that whatever stands in for padded keys, or for the maximum, is the largest number there is; the rows are 200 apart, for a maximum that
they share. A ragged last block and three queries do the rest, and values beyond 65,504 what concerns fp16. Random inputs leave seven
of the mistakes unseen, however many tokens they have.
"""


def cases(draw):
    yield Case("16 queries, 64 keys, in blocks of 4", (4, 16, 64))
    yield Case("3 queries, 5 keys", (4, 3, 5))
    for block in draw.sample((5, 6, 7, 12, 16, 24, 32), 2):
        yield Case("any blocks", (block, 3 + draw.randint(0, 2), block + 1 + draw.randint(0, 2)))


def expected(block, queries, keys):
    """Nothing is wrong with the input, and no mistake gets by."""
    return "", ""


LAST, LOW, RETURN = "[2.0, -1.0, -200.0]", "-1500.0", "return q, scores.T.contiguous(), v"
RANDOM = "torch.manual_seed(1)\n    return torch.randn(min(queries, 3), 8), torch.randn(m, 8), torch.randn(m, 8)"
WRONG = {
    "from torch.randn: no score is far from 0, and no row far from another": (RETURN, f"m = min(keys, block + 1)\n    {RANDOM}"),
    "if the keys fill their blocks: nothing is padded, so no mistake with the tail shows":
        (RETURN, "return q, scores.T[:block].contiguous(), v[:block]"),
    "if the scores do not lie below −1,000: in their maximum a padded key, or a start at 0, is harmless": (LOW, "0.0"),
    "if a spike comes late, but none early, or one too low for an overflow: the block's own maximum then does no harm":
        (LAST, "[2.0, 150.0, -1.0]"),
    "if all rows lie at the same height: they can share a maximum": ("scores[2] += 200", "scores[2] += 0"),
    "if the values are small: fp16 holds them": ("1e5 * ", ""),
}  # fmt: skip

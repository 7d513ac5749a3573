"""Lecture 02: the online softmax's update by one block of scores."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="02",
    title="one step of the online softmax",
    parts=("m", "l"),
    forbidden=("model.softmax.update", "model.softmax.merge"),
    hints=(
        "The new maximum is the larger of the old one and the block's.",
        "The old ℓ was summed relative to the old m. By which factor must it be multiplied to be relative to the new one?",
        "One factor brings all of the old ℓ to the new maximum; the new scores are measured from it at once. exp(−∞) is 0: the "
        "first block needs no special case.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def online_update(m: float, l: float, x: torch.Tensor) -> tuple[float, float]:
    """(m, l) after a block of scores x [n], float32; m and l as floats."""
    new = max(m, float(x.max()))
    return new, l * math.exp(m - new) + float(torch.exp(x - new).sum())
'''
WHY = """
Everything is kept relative to the largest score so far, so no exponential exceeds 1. When the maximum grows, the old sum shrinks by
exp(m − m_new): one multiplication, however many scores it stands for.
"""


def cases(draw):
    def case(words, m, l, *x):
        return Case(words, (m, l, torch.tensor(x)))

    yield case("3, 2, 5, 1 as the first block", -math.inf, 0.0, 3.0, 2.0, 5.0, 1.0)
    yield case("5, 1 after 3, 2", 3.0, 1 + math.exp(-1), 5.0, 1.0)
    yield case("a block below the maximum so far", 5.0, 1.5, 3.0, 2.0)
    yield case("all scores far below 0", -math.inf, 0.0, -1001.0, -1000.0, -1002.0)
    yield case("scores of 10,000 after scores near 0", 1.0, 2.0, 10000.0, 9999.0, 0.0)
    yield case("scores at the lower end of fp32", -math.inf, 0.0, -3e38, -3e38)
    yield case("a block of one score", 0.0, 1.0, 0.0)
    yield Case("a long block", (draw.uniform(-30, 30), draw.uniform(1, 9), torch.randn(1000) * 10))


def expected(m, l, x):
    """From the definition: the old scores stand for one of size m + ln l."""
    scores = x.double()
    if l > 0:
        scores = torch.cat([torch.tensor([m + math.log(l)], dtype=torch.float64), scores])
    new = max(m, float(x.max()))
    return new, float(torch.exp(scores - new).sum())


FACTOR, MAX = " * math.exp(m - new)", "max(m, float(x.max()))"
WRONG = {
    "if m starts at 0 instead of −∞: all scores far below 0 then vanish": ("    new", "    m = max(m, 0.0)\n    new"),
    "if the old ℓ is not rescaled to the new maximum, or m is overwritten before the factor is taken": (FACTOR, ""),
    "if the factor of the old ℓ is upside down: it is e^(m − m_new), at most 1": ("m - new", "new - m"),
    "without subtracting the maximum: large scores overflow": (FACTOR, "", "x - new", "x"),
    "if the maximum is that of the block alone: it may fall": (MAX, "float(x.max())"),
    "if the new scores are measured from the old m: exp(x − m) is infinite in the first block": ("x - new", "x - m"),
    "if the old ℓ is dropped: each block is then normalised by its own sum": (f"l{FACTOR} + ", ""),
}  # fmt: skip

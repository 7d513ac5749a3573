"""Lecture 02: the largest score and its weight, in one pass."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise


def run(function, case):
    return function(_passing(case.args[0]))


def _passing(blocks):
    """One block after the other; each is NaN once the next is asked for."""
    for block in blocks:
        yield block
        block.fill_(torch.nan)


EXERCISE = Exercise(
    lecture="02",
    title="the likeliest token in one pass",
    run=run,
    tolerance=3e-4,  # a log-sum-exp in fp32 is as good an answer
    parts=("token", "probability"),
    hints=(
        "What is the weight of the largest score, if it is measured from itself? So which two numbers of the lecture do you need?",
        "Beside m and ℓ carry the token of m. It changes when a block's maximum exceeds m, and it counts from the first token of all: "
        "how many came before this block?",
        "Begin with m = −∞ and ℓ = 0. After a first block of −∞ alone m is still −∞; then exp(m − m_new) is the exponential of "
        "−∞ − (−∞). Such a block adds nothing to ℓ, but its tokens count.",
    ),
)

# --- for teachers ---

SOLUTION = '''
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
WHY = """
The largest score measured from itself is e^0 = 1, so its probability is 1 / ℓ: the online softmax has it for nothing, and only the token
has to be carried along. A sampler that picks the likeliest token so reads 128,000 scores once and writes two numbers.
"""
INF = math.inf


def cases(draw):
    def case(words, *blocks):
        return Case(words, ([torch.tensor(x) for x in blocks],))

    yield case("3, 2 and then 5, 1", [3.0, 2.0], [5.0, 1.0])
    yield case("one token", [7.0])
    yield case("blocks of different lengths", [1.0, 2.0, 0.5], [3.0], [0.0, 4.0, 3.5, 1.0])
    yield case("equal scores: the first token wins", [1.0, 4.0, 4.0], [4.0, 0.0], [4.0])
    yield case("all scores far below 0", [-1001.0, -1000.0], [-1000.5, -999.0])
    yield case("scores in the thousands", [0.0, 1000.0], [3000.0, 2999.0])
    yield case("a first block of forbidden tokens", [-INF, -INF, -INF], [2.0, 1.0], [-INF])
    yield case("scores at the lower end of fp32", [-3.1e38, -3e38], [-3.2e38])
    sizes = [100, 7, 250, 1, 64]
    draw.shuffle(sizes)
    yield Case("422 scores, times ten", ([10 * torch.randn(n) for n in sizes],))


def expected(blocks):
    """With all scores at hand, in float64."""
    scores = [x for block in blocks for x in block.tolist()]
    return scores.index(max(scores)), 1 / math.fsum(math.exp(x - max(scores)) for x in scores)


RESCALED = "            l *= math.exp(m - top)\n"
ADDED = "        if m > -math.inf:\n            l += float(torch.exp(x - m).sum())\n"
KEPT = "    x = torch.cat(list(blocks))\n    return int(x.argmax()), float(torch.softmax(x, 0).max())\n"
WRONG = {
    "if the token is counted within its block: count from the first token of all": ("before + int", "int"),
    "if the last of equal scores wins: it has to be larger, not as large":
        ("if top > m", "if top > -math.inf and top >= m", "int(x.argmax())", "int((x == top).nonzero()[-1])"),
    "if ℓ is not rescaled when a larger score comes": (RESCALED, ""),
    "if the blocks are kept and looked at later: each is gone when the next comes": ("    m, l, token", f"{KEPT}    m, l, token"),
    "if the probability is that within the token's block: ℓ has to hold all scores":
        (RESCALED, "            l = float(torch.exp(x - top).sum())\n", ADDED, ""),
    "without subtracting the maximum: large scores overflow": (RESCALED, "", "x - m", "x", "1 / l", "float(torch.tensor(m).exp() / l)"),
    "if m starts at 0 instead of −∞: all scores far below 0 then vanish": ("= -math.inf, 0.0", "= 0.0, 0.0"),
    "if a block of −∞ alone is forgotten: −∞ − (−∞) is NaN": (ADDED, "        l += float(torch.exp(x - m).sum())\n"),
}  # fmt: skip

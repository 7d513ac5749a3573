"""Lecture 08: the results of pieces of many sequences, in any order, become one for each row."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="08",
    title="merge pieces of many rows",
    parts=("O", "L"),
    tolerance=1e-3,  # of an L near −20,000 float32 keeps steps of 2⁻⁹, and all weights are 2^(L_p − L)
    forbidden=("model.softmax.merge", "parallel.blocks.merge", "kernels.merging.merge"),
    hints=(
        "For one row it is the page's merge, with the shares 2^(L_p − L). So you need for each row the sum of 2^(L_p − m) over its "
        "pieces, and of these times O_p.",
        "A sum by rows: x.index_add(0, owner, y) adds y[i] to x[owner[i]], as often as a row has pieces, where x[owner] += y adds once. "
        "The largest by rows: x.scatter_reduce(0, owner, y, 'amax').",
        "Each row is measured from its own largest L, m[owner] for the pieces. Then look for ∞ and NaN: a row whose m is −∞, "
        "a piece whose weight is 0 and whose average is NaN, a sum of 0 by which you divide.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def merge_pieces(O_p: torch.Tensor, L_p: torch.Tensor, owner: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [n, d], L [n], base 2) of n rows, from their pieces O_p [p, d] and L_p [p], base 2; piece i is of row owner[i]."""
    m = torch.full((n,), -math.inf).scatter_reduce(0, owner, L_p, "amax")
    shift = torch.where(m == -math.inf, 0.0, m)
    weights = torch.exp2(L_p - shift[owner])  # 0 for a piece without a key
    total = torch.zeros(n).index_add(0, owner, weights)
    written = torch.where(L_p[:, None] == -math.inf, 0.0, O_p)
    O = torch.zeros(n, O_p.shape[1]).index_add(0, owner, weights[:, None] * written)
    return O / torch.where(total == 0, 1.0, total)[:, None], shift + torch.log2(total)
'''
WHY = """
A piece counts by its share of its row's weight, 2^(L_p − L), and it does not matter how many pieces a row has, or when they come. Three
places lose a test that has a key everywhere: 0 · NaN, so that an unwritten average has to be left out and not multiplied away; −∞ − (−∞) in
a row without a key; and the division by its sum of 0.
"""
INF = math.inf


def cases(draw):
    def case(words, L, owner, n, d=2):
        O = torch.randn(len(L), d).masked_fill((torch.tensor(L) == -INF)[:, None], math.nan)
        return Case(words, (O, torch.tensor(L), torch.tensor(owner), n))

    yield case("two pieces of one row", [4.7800262, 7.2396600], [0, 0], 1)
    yield case("two rows, their pieces in any order", [1.0, 4.0, 2.5, -1.0, 3.0], [1, 0, 1, 0, 1], 2)
    yield case("a piece without a key", [1.0, -INF, 2.0], [0, 0, 1], 2)
    garbage = torch.tensor([[1.5, -0.5], [INF, -INF], [0.5, 2.0], [7.0, 7.0]])
    L = torch.tensor([1.0, -INF, 2.0, -INF])
    yield Case("pieces without a key that hold ∞ and 7", (garbage, L, torch.tensor([0, 0, 1, 2]), 3))
    yield case("a row whose pieces have no key", [-INF, 1.0, -INF], [0, 1, 0], 2)
    yield case("rows without a piece, the last one too", [1.0, 2.0, 0.0], [2, 0, 2], 4)
    yield case("one row far above the other", [3000.0, 3001.0, -2000.0, -2002.0], [0, 0, 1, 1], 2)
    yield case("all far below 0", [-20000.0, -20003.0, -30000.0], [0, 0, 1], 2)
    rows, each = draw.randint(1, 6), [draw.choice((-INF, draw.uniform(-9, 9))) for _ in range(draw.randint(1, 12))]
    yield case("any pieces", each, [draw.randrange(rows) for _ in each], rows, draw.randint(1, 5))


def expected(O_p, L_p, owner, n):
    """Row by row in float64, as the softmax of one score for each piece."""
    O, L = torch.zeros(n, O_p.shape[1]), torch.full((n,), -INF)
    for row in range(n):
        mine = [i for i in range(len(owner)) if int(owner[i]) == row and float(L_p[i]) > -INF]
        if mine:
            scores = L_p[mine].double() * math.log(2)
            O[row] = (torch.softmax(scores, 0) @ O_p[mine].double()).float()
            L[row] = float(torch.logsumexp(scores, 0)) / math.log(2)
    return O, L


SHIFT, TOTAL = "torch.where(m == -math.inf, 0.0, m)", "torch.where(total == 0, 1.0, total)"
WRITTEN, LOG = "torch.where(L_p[:, None] == -math.inf, 0.0, O_p)", "shift + torch.log2(total)"
MOST = 'scatter_reduce(0, owner, L_p, "amax")'
WRONG = {
    "if base 2 is taken for base e: the strong pieces count too much": ("torch.exp2", "torch.exp", "torch.log2", "torch.log"),
    "if L comes back as a natural logarithm: it is asked for in base 2": (LOG, f"({LOG}) * math.log(2)"),
    "if −∞ is forgotten: unwritten averages give 0 · NaN, and rows without a key −∞ − (−∞) and 0/0":
        (SHIFT, "m", TOTAL, "total", WRITTEN, "O_p"),
    "if one maximum serves all rows: in a row far below it all weights vanish": (MOST, f"{MOST}.max().expand(n)"),
    "if of several pieces of a row one replaces the other, as with x[owner] += y":
        ("index_add(0, owner, ", "index_put((owner,), "),
    "without subtracting a maximum: 2^L overflows": (SHIFT, "torch.zeros(n)"),
    "if the average of a piece without a key is multiplied by 0: 0 · NaN is NaN": (WRITTEN, "O_p"),
}  # fmt: skip

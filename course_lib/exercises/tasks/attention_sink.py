"""Lecture 05: an attention sink, taken into results that were computed without it."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise

EXERCISE = Exercise(
    lecture="05",
    title="an attention sink",
    tolerance=5e-5,
    parts=("O", "L"),
    forbidden=("model.softmax.merge", "parallel.blocks.merge", "kernels.merging.merge"),
    hints=(
        "e^L is all the weight that a row has given out. What does it become with the sink, and which share of it is left to the values?",
        "The new L is the logarithm of e^L + e^sink, which may overflow on the way: measure both from the larger one, as in a merge. "
        "The values keep the share e^(L − L_new) of the weight.",
        "torch.logaddexp measures from the larger one by itself. A sink belongs to a head, so it needs a dimension for the queries. And "
        "where there is neither key nor sink, look at what L − L_new is.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def attention_sink(O: torch.Tensor, L: torch.Tensor, sink: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(O [H, n, d], L [H, n]) of an attention in which head h has also the score sink[h], without a value."""
    L_new = torch.logaddexp(L, sink[:, None])
    share = torch.where(L == -math.inf, 0.0, torch.exp(L - L_new))
    return O * share[:, :, None], L_new
'''
WHY = r"""
By hand: $L = 3 + \log 1.368 = 3.313$, $L_\text{new} = \log(e^{3.313} + e^3) = 3.862$, and $12.69 \cdot e^{3.313 - 3.862} = 7.33$. The
sink is one more state in a merge, with $m$ = sink, $\ell = 1$ and $o = 0$. A kernel that takes it in by itself starts its loop from that
state, where ours starts from $m = -\infty$ and $\ell = 0$. A row may so give its values less than a weight of 1, even next to nothing.
"""
INF = math.inf


def cases(draw):
    def case(words, L, sink, d=3):
        rows = torch.tensor(L)
        O = torch.randn(*rows.shape, d).masked_fill((rows == -INF)[:, :, None], 0.0)
        return Case(words, (O, rows, torch.tensor(sink)))

    by_hand = torch.tensor([[[12.689414]]]), torch.tensor([[3.3132617]])
    yield Case("3, 2 with 10, 20 and a sink of 3", (*by_hand, torch.tensor([3.0])))
    yield Case("no sink", (*by_hand, torch.tensor([-INF])))
    yield case("a sink far above: nothing is left to the values", [[1.0, -2.0]], [60.0])
    yield case("as many heads as queries", [[1.0, 2.0], [-1.0, 0.5]], [2.0, -2.0], d=2)
    yield case("L in the hundreds", [[200.0, 300.0]], [150.0])
    yield case("L and sink far below 0", [[-200.0, -2000.0]], [-1000.0])
    yield case("a row without a key, and a sink", [[1.0, -INF]], [0.5])
    yield case("a row without a key, and no sink", [[1.0, -INF], [-INF, 2.0]], [-INF, 1.0])
    H, n = draw.randint(2, 4), draw.randint(5, 16)
    yield Case("more heads and queries", (torch.randn(H, n, 8), torch.randn(H, n) * 4, torch.randn(H) * 4))


def expected(O, L, sink):
    """Row by row: the softmax of two scores, L with the value O and the sink with the value 0."""
    out, sums = torch.zeros(O.shape), torch.full(L.shape, -INF)
    for h, row in ((h, row) for h in range(L.shape[0]) for row in range(L.shape[1])):
        one, other = float(L[h, row]), float(sink[h])
        if one > -INF:
            out[h, row] = (O[h, row].double() / (1 + math.exp(min(700.0, other - one)))).float()
        if max(one, other) > -INF:
            sums[h, row] = max(one, other) + math.log1p(math.exp(-abs(one - other)))
    return out, sums


NEW, SHARE, SINK = "torch.logaddexp(L, sink[:, None])", "torch.exp(L - L_new)", "sink[:, None]"
WRONG = {
    "if L stays as it was: whoever merges this result with another gives it too little weight": (", L_new\n", ", L\n"),
    "if O stays as it was: the sink takes a part of every row's weight": ("O * share[:, :, None]", "O"),
    "if the sinks are laid along the queries: each belongs to a head, for all its queries":
        (SINK, "(sink[None, :] if len(sink) == L.shape[1] else sink[:, None])"),
    "if e^L and e^sink are computed as they are: both may overflow, or vanish": (NEW, f"torch.log(torch.exp(L) + torch.exp({SINK}))"),
    "if the sink is added to L: it is a score like any other, and e^sink is added to e^L": (NEW, f"L + {SINK}"),
    "if a row with neither key nor sink is forgotten: −∞ − (−∞) is NaN": (f"torch.where(L == -math.inf, 0.0, {SHARE})", SHARE),
}  # fmt: skip

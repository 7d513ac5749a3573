"""Lecture 13: one rank of Ulysses."""

import math

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness.ranks import Ranks, attend, told

HEADS, SENT = "heads × tokens it attends with", "numbers sent beyond those that are needed"


def run(function, case):
    """What went wrong with the messages, and of each rank o, with which queries it attends, and what it sends without need."""
    count, q, k, _ = case.args
    group = Ranks.of(function, *case.args)
    o = group.results()
    attended = [" and ".join(f"{heads} × {n}" for n, heads in sorted(x.items())) for x in group.attended]
    enough = q.shape[1] // count * q.shape[2] * 2 * (q.shape[0] + math.lcm(k.shape[0], count))
    return told(group.trouble, {"o": o, HEADS: attended, SENT: [max(0, x - enough) for x in group.sent]})


EXERCISE = Exercise(
    lecture="13",
    title="heads for tokens",
    run=run,
    tolerance=1e-4,
    arguments=("ranks", "q of all tokens", "k", "v"),
    hints=(
        "Rank r gets the r-th part of the heads: chunk along the heads, exchange, and put together along the tokens.",
        "q of all tokens: torch.cat(yield the chunks of q along dim 0, dim=1). The same for k and v, with heads repeated by "
        "repeat_interleave if the ranks cannot share them out. Afterwards chunk o along the tokens, exchange, and cat along the heads.",
        "H is a multiple of H_k and of `ranks`, so repeating each KV head, in a row, until there are enough for all ranks "
        "always works out; consecutive heads of q share one, hence repeat_interleave. The way back is the same exchange with "
        "heads and tokens changed.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def ulysses_rank(rank: int, ranks: int, q, k, v, attend):
    """A generator: o [H, c, d] of this rank's tokens, over all tokens."""
    times = math.lcm(k.shape[0], ranks) // k.shape[0]
    mine = []
    for x in (q, k.repeat_interleave(times, dim=0), v.repeat_interleave(times, dim=0)):
        got = yield ("exchange", list(x.chunk(ranks, dim=0)))
        mine.append(torch.cat(got, dim=1))
    o, _ = attend(*mine)
    got = yield ("exchange", list(o.chunk(ranks, dim=1)))
    return torch.cat(got, dim=0)
'''
WHY = """
An all-to-all is a transposition: the dimension that is cut on the way out is put together on the way back. Cutting heads and joining
tokens, then cutting tokens and joining heads. Repeating KV heads up to the next common multiple with the number of ranks sends as few
of them as possible; a head that two ranks need is sent twice.
"""


def cases(draw):
    for words, count, tokens, d, heads, kv_heads in (
        ("one rank keeps all", 1, 2, 2, 2, 1),
        ("two ranks, two heads", 2, 4, 2, 2, 2),
        ("four ranks, two KV heads", 4, 8, 4, 4, 2),
        ("four ranks, eight heads, two KV heads", 4, 4, 4, 8, 2),
        ("two ranks, six heads, three KV heads", 2, 4, 4, 6, 3),
    ):
        yield Case(words, (count, *(torch.randn(h, tokens, d) for h in (heads, kv_heads, kv_heads))))


def expected(ranks, q, k, v):
    """The whole at once in float64."""
    o = attend(*(x.double() for x in (q, k, v)))[0].float().chunk(ranks, dim=1)
    share = f"{q.shape[0] // ranks} × {q.shape[1]}"
    return told("", {"o": o, HEADS: [share] * ranks, SENT: [0] * ranks})


TIMES, SHARES = "math.lcm(k.shape[0], ranks) // k.shape[0]", "list(x.chunk(ranks, dim=0))"
BACK = '    got = yield ("exchange", list(o.chunk(ranks, dim=1)))\n    return torch.cat(got, dim=0)'
WRONG = {
    "if the second exchange is forgotten: o is still that of all tokens and a few heads": (BACK, "    return o"),
    "if heads of k and v are repeated ranks // H_k times: with 3 heads on 2 ranks that is not enough":
        (TIMES, "max(1, ranks // k.shape[0])"),
    "if KV heads are repeated all together, 0 1 0 1: consecutive heads of q share one, 0 0 1 1":
        ("repeat_interleave(times, dim=0)", "repeat(times, 1, 1)"),
    "if no head of k and v is repeated: there are fewer than ranks, or some are needed by two": (TIMES, "1"),
    "if heads of k and v are repeated up to those of q: the least common multiple of H_k and the ranks is enough":
        (TIMES, "q.shape[0] // k.shape[0]"),
    "if everything is sent to everyone: no head is dealt out, and each rank computes all":
        (TIMES, "1", SHARES, "[x] * ranks", BACK, "    return o.chunk(ranks, dim=1)[rank]"),
}  # fmt: skip

"""Lecture 13: one rank of Ulysses."""

import math

from course_lib.exercises.exercise import Exercise
from course_lib.exercises.harness import ranks


def run(function, case):
    """What went wrong with the messages, o by rank, and in words who attends with other queries, or sends more, than asked."""
    count, *whole = case.args
    parts = [[x.clone() for x in y.chunk(count, dim=1)] for y in whole]
    queries: list[dict[int, int]] = [{} for _ in range(count)]  # of each rank: tokens -> heads

    def rank_code(rank):
        def attend(q, k, v, causal=False):
            n, heads = int(q.shape[-2]), int(q.shape[0])
            queries[rank][n] = queries[rank].get(n, 0) + heads
            return ranks.attend(q, k, v, causal)

        return function(rank, count, *(x[rank] for x in parts), attend)

    group = ranks.Ranks(rank_code, count)
    found = group.results()
    q, k, _ = whole
    share = {q.shape[1]: q.shape[0] // count}
    other = ((r, work(x)) for r, x in enumerate(queries) if x != share)
    attended = (f"rank {r} attends with {words}; its share: {work(share)}" for r, words in other)
    enough = q.shape[1] // count * q.shape[2] * 2 * (q.shape[0] + math.lcm(k.shape[0], count))
    sent = (f"rank {r} sends {x:,} numbers; {enough:,} are enough" for r, x in enumerate(group.sent) if x > enough)
    return told(group.trouble, found, next(attended, ""), next(sent, ""))


def work(queries):
    """Heads by tokens, in words."""
    words = [f"{heads} head{'s' * (heads != 1)} of {n} tokens" for n, heads in sorted(queries.items())]
    return " and ".join(words) or "nothing"


def told(trouble, o, attended, sent):
    """The result by its names."""
    parts = {f"o of rank {rank}": x for rank, x in enumerate(o)}
    return {"messages": trouble} | parts | {"attention": attended, "what is sent": sent}


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

import torch

from course_lib.exercises.exercise import Case

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
        ("two ranks, four heads", 2, 4, 2, 4, 4),
        ("two KV heads for four heads", 2, 6, 4, 4, 2),
        ("four ranks, two KV heads", 4, 8, 4, 4, 2),
        ("four ranks, eight heads, two KV heads", 4, 4, 4, 8, 2),
        ("two ranks, six heads, three KV heads", 2, 4, 4, 6, 3),
    ):
        yield Case(words, (count, *(torch.randn(h, tokens, d) for h in (heads, kv_heads, kv_heads))))


def expected(ranks, q, k, v):
    """Head after head, in float64."""
    group = q.shape[0] // k.shape[0]
    o = []
    for head, mine in enumerate(q.double()):
        keys, values = (x[head // group].double() for x in (k, v))
        o.append(torch.softmax(mine @ keys.T / math.sqrt(q.shape[2]), 1) @ values)
    return told("", torch.stack(o).float().chunk(ranks, dim=1), "", "")


TIMES, SHARES = "math.lcm(k.shape[0], ranks) // k.shape[0]", "list(x.chunk(ranks, dim=0))"
BACK = '    got = yield ("exchange", list(o.chunk(ranks, dim=1)))\n    return torch.cat(got, dim=0)'
KEYS = "k.repeat_interleave(times, dim=0), v.repeat_interleave(times, dim=0)"
WRONG = {
    "if the second exchange is forgotten: o is still that of all tokens and a few heads": (BACK, "    return o"),
    "if a rank keeps only its rows of its own heads: the other heads' rows are with the other ranks":
        (BACK, "    return o.chunk(ranks, dim=1)[rank]"),
    "if heads of k and v are repeated as often as there are ranks": (TIMES, "ranks if k.shape[0] % ranks else 1"),
    "if heads of k and v are repeated ranks // H_k times: with 3 heads on 2 ranks that is not enough":
        (TIMES, "max(1, ranks // k.shape[0])"),
    "if parts are put together along the heads: they are other tokens of the same heads": ("(got, dim=1)", "(got, dim=0)"),
    "if KV heads are repeated all together, 0 1 0 1: consecutive heads of q share one, 0 0 1 1":
        (KEYS, "k.repeat(times, 1, 1), v.repeat(times, 1, 1)"),
    "if no head of k and v is repeated: there are fewer than ranks, or some are needed by two": (TIMES, "1"),
    "if heads of k and v are repeated up to those of q: the least common multiple of H_k and the ranks is enough":
        (TIMES, "q.shape[0] // k.shape[0]"),
    "if everything is sent to everyone: no head is dealt out, and each rank computes all":
        (TIMES, "1", SHARES, "[x] * ranks", BACK, "    return o.chunk(ranks, dim=1)[rank]"),
    "if every rank gets all heads of K and V: these are its tokens with everybody's keys, and no head has moved for them":
        (f"(q, {KEYS})", "(k, v)", SHARES, "[x] * ranks", "(*mine)", "(q, *mine)", BACK, "    return o"),
}  # fmt: skip

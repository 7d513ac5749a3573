"""Lecture 13: one rank of Ulysses."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import ranks

ASKED = r"""
A rank has its tokens of all heads; it wants all tokens of its heads, and afterwards the rows of $O$ of its tokens again. With 2 ranks
and 4 heads rank 0 gives rank 1 its tokens of heads 2 and 3, and gets from it the other tokens of heads 0 and 1.

`got = yield ("exchange", [x_0, x_1, …])` is an all-to-all: it sends `x_r` to rank `r`, one tensor for each rank, itself too, and gives a
list of what the ranks have sent to this one, by rank. `o, L = attend(q, k, v)` is attention of q [n, N, d] over k and v [m, N, d], n a
multiple of m: consecutive heads of q share one of k and v.

`q` is [H, c, d], `k` and `v` are [H_k, c, d], of the c tokens that this rank owns in contiguous order. H is a multiple of `ranks` and of
H_k. Where H_k is no multiple of `ranks`, repeat heads of k and v, each one several times in a row, until each rank gets those that
its heads need, and no more. Return $o$, [H, c, d].
"""

STUB = '''
def ulysses_rank(rank: int, ranks: int, q, k, v, attend):
    """A generator: o [H, c, d] of this rank's tokens, over all tokens."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> dict[str, Any]:
    """What went wrong with the messages, o by rank, and in words who attends with other queries, or sends more, than asked."""
    count, *whole = case.args
    parts = [[x.clone() for x in y.chunk(count, dim=1)] for y in whole]
    queries: list[dict[int, int]] = [{} for _ in range(count)]  # of each rank: tokens -> heads

    def rank_code(rank: int) -> Any:
        def attend(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
            n, heads = int(q.shape[-2]), int(q.shape[0])
            queries[rank][n] = queries[rank].get(n, 0) + heads
            return ranks.attend(q, k, v, causal)

        return function(rank, count, *(x[rank] for x in parts), attend)

    group = ranks.Ranks(rank_code, count)
    found = group.results()
    q, k, _ = whole
    share = {q.shape[1]: q.shape[0] // count}
    attended = (
        f"rank {r} attends with {_told(x)}; its share: {_told(share)}" for r, x in enumerate(queries) if x != share
    )
    enough = whole[0].shape[1] // count * q.shape[2] * 2 * (q.shape[0] + math.lcm(k.shape[0], count))
    sent = (f"rank {r} sends {x:,} numbers; {enough:,} are enough" for r, x in enumerate(group.sent) if x > enough)
    return told(group.trouble, found, next(attended, ""), next(sent, ""))


def _told(queries: dict[int, int]) -> str:
    return (
        " and ".join(f"{heads} head{'s' * (heads != 1)} of {n} tokens" for n, heads in sorted(queries.items()))
        or "nothing"
    )


def told(trouble: str, o: Sequence[Any], attended: str, sent: str) -> dict[str, Any]:
    """The result by its names."""
    parts = {f"o of rank {rank}": x for rank, x in enumerate(o)}
    return {"messages": trouble} | parts | {"attention": attended, "what is sent": sent}


EXERCISE = Exercise(
    name="ulysses_rank",
    lecture="13",
    title="heads for tokens",
    level=2,
    minutes=24,
    asked=ASKED,
    stub=STUB,
    run=run,
    apart=True,
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

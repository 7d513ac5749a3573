"""Lecture 13: one rank of Ulysses."""

from collections.abc import Callable
from typing import Any

from course_lib.exercises import ranks
from course_lib.exercises.base import Case, Exercise

ASKED = r"""
A rank has its tokens of all heads; it wants all tokens of its heads, and afterwards the rows of $O$ of its tokens again. With 2 ranks
and 4 heads rank 0 gives rank 1 its tokens of heads 2 and 3, and gets from it the other tokens of heads 0 and 1.

`got = yield ("exchange", [x_0, x_1, …])` is an all-to-all: it sends `x_r` to rank `r`, one tensor for each rank, itself too, and gives a
list of what the ranks have sent to this one, by rank. `o, L = attend(q, k, v)` is attention of q [n, N, d] over k and v [m, N, d], n a
multiple of m: consecutive heads of q share one of k and v.

`q` is [H, c, d], `k` and `v` are [H_k, c, d], of the c tokens that this rank owns in contiguous order. H is a multiple of `ranks` and of
H_k. H_k may be smaller than `ranks`, or no multiple of it: then repeat heads of k and v, each one several times in a row, until each
rank gets those that its heads need. Return $o$, [H, c, d].
"""

STUB = '''
def ulysses_rank(rank: int, ranks: int, q, k, v, attend):
    """A generator: o [H, c, d] of this rank's tokens, over all tokens."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> tuple[str, Any, list[list[int]]]:
    """What went wrong with the messages, o by rank, and of how many tokens the queries were with which each rank has attended."""
    count, *whole = case.args
    parts = [[x.clone() for x in y.chunk(count, dim=1)] for y in whole]
    tokens: list[set[int]] = [set() for _ in range(count)]

    def rank_code(rank: int) -> Any:
        def attend(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
            tokens[rank].add(int(q.shape[-2]))
            return ranks.attend(q, k, v, causal)

        return function(rank, count, *(x[rank] for x in parts), attend)

    group = ranks.Ranks(rank_code, count)
    found = group.results()
    return group.trouble, found, [sorted(x) for x in tokens]


EXERCISE = Exercise(
    name="ulysses_rank",
    lecture="13",
    title="heads for tokens",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    run=run,
    apart=True,
    tolerance=1e-4,
    parts=("trouble with messages", "o of each rank", "tokens of the queries that each rank attends with"),
    arguments=("ranks", "q of all tokens", "k", "v"),
    hints=(
        "Rank r gets the r-th part of the heads: chunk along the heads, exchange, and put together along the tokens.",
        "q of all tokens: torch.cat(yield the chunks of q along dim 0, dim=1). The same for k and v, with heads repeated by "
        "repeat_interleave if there are too few. Afterwards chunk o along the tokens, exchange, and cat along the heads.",
        "H is a multiple of H_k and of `ranks`, so repeating each KV head, in a row, until there are enough for all ranks "
        "always works out; consecutive heads of q share one, hence repeat_interleave. The way back is the same exchange with "
        "heads and tokens changed.",
    ),
)

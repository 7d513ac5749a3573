"""Lecture 13: one rank of a causal ring."""

from collections.abc import Callable, Sequence
from typing import Any

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import ranks

ASKED = r"""
Write what one rank of a ring does under a causal mask, in contiguous order. A rank is a generator here, and it asks for messages by
`yield`:

- `k_new, v_new = yield ("post", k, v)` begins to send `k` and `v` to the next rank, and to receive as many tensors from the one before.
  It returns at once. Until they have arrived, `k_new` and `v_new` hold NaN;
- `yield ("wait",)` returns when the oldest post has arrived.

`o, L = attend(q, k, v, causal)` is attention over one block of keys, `causal=True` for the diagonal one. With four ranks, rank 1 attends
to its own keys and to those of rank 0, and to no others; keys still have to be passed on by everyone, at all steps but the last. Post
before you attend, so that a message travels meanwhile. `q`, `k`, `v` are [heads, c, d], float32; return $o$ of all keys that the
rank's queries see, divided as `attend` gives it.
"""

STUB = '''
def ring_rank(rank: int, ranks: int, q, k, v, attend):
    """A generator: o [heads, c, d] of this rank's queries over the keys of ranks 0 to rank."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> dict[str, Any]:
    """What went wrong with the messages, o by rank, and for each rank how often it has posted, and attended with a message under way."""
    count, *whole = case.args
    parts = [[x.clone() for x in y.chunk(count, dim=1)] for y in whole]

    def rank_code(rank: int) -> Any:
        def attend(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
            group.seen[rank].append("attend")
            return ranks.attend(q, k, v, causal)

        return function(rank, count, *(x[rank] for x in parts), attend)

    group = ranks.Ranks(rank_code, count)
    found = group.results()
    return told(group.trouble, found, [x.count("post") for x in group.seen], [_hidden(x) for x in group.seen])


def told(trouble: str, o: Sequence[Any], posts: Sequence[int], hidden: Sequence[int]) -> dict[str, Any]:
    """The result by its names."""
    return (
        {"messages": trouble}
        | {f"o of rank {rank}": x for rank, x in enumerate(o)}
        | {f"posts of rank {rank}": x for rank, x in enumerate(posts)}
        | {f"calls of attend by rank {rank} while a message travels": x for rank, x in enumerate(hidden)}
    )


def _hidden(seen: list[str]) -> int:
    travelling, found = 0, 0
    for what in seen:
        travelling += {"post": 1, "wait": -1}.get(what, 0)
        found += what == "attend" and travelling > 0
    return found


EXERCISE = Exercise(
    name="ring_rank",
    lecture="13",
    title="one rank of a causal ring",
    level=2,
    minutes=20,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    apart=True,
    tolerance=1e-4,
    arguments=("ranks", "q of all tokens", "k", "v"),
    hints=(
        "At step t the keys here are those of rank (rank − t) mod ranks. Which of these do the queries see, and with which mask?",
        "for step in range(ranks): post if a step follows; attend if rank − step ≥ 0, causal only at step 0; merge; wait if you have "
        "posted; then the new keys are the keys.",
        "A rank that sees nothing of a block passes it on all the same, and attends only if its own number is large enough. "
        "What you merge are averages with their L, as in the page's `merge`. k_new holds NaN until the wait has returned.",
    ),
)

"""Lecture 13: one rank of the backward pass of a ring."""

from collections.abc import Callable, Sequence
from typing import Any

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import ranks

ASKED = r"""
Now backward, without a mask. At each step a rank adds what its queries give to the $dK$ and $dV$ of the keys that are there; both
travel along with these keys, in fp32. In this simple form a rank adds its own part first, and not at home, so that the ring goes once
round: `ranks` posts, one more than on the page.

Lecture 07 for a block of keys, in float32, with the $L$ and $O$ of *all* keys; $P$ is the weights and $D$ the row sums, as there:

$$P = e^{S - L}, \quad D = \mathrm{rowsum}(dO \circ O), \quad dV \mathrel{+}= P^\top dO, \quad dS = P \circ (dO\,V^\top - D), \quad
dQ \mathrel{+}= dS\,K / \sqrt d, \quad dK \mathrel{+}= dS^\top Q / \sqrt d$$

`new_k, new_v, new_dk, new_dv = yield ("post", k, v, dk, dv)` begins to send these to the next rank and to receive as many tensors from
the one before, which hold NaN until `yield ("wait",)` has returned. `q`, `k`, `v`, `do` are [heads, c, d] in bfloat16, `o`
[heads, c, d] and `L` [heads, c] in float32. Return (dq, dk, dv) of this rank's own queries and keys, in float32.
"""

STUB = '''
def ring_backward(rank: int, ranks: int, q, k, v, o, L, do):
    """A generator: (dq, dk, dv) of this rank's tokens, float32 [heads, c, d]."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> dict[str, Any]:
    """What went wrong with the messages, the gradients by rank, and how often each rank has posted."""
    count, q, k, v, do = case.args
    o, L = ranks.attend(*(x.float() for x in (q, k, v)))
    parts = [[x.clone() for x in y.chunk(count, dim=1)] for y in (q, k, v, o, L, do)]
    group = ranks.Ranks(lambda rank: function(rank, count, *(x[rank] for x in parts)), count)
    found = group.results()
    return told(group.trouble, found, [x.count("post") for x in group.seen])


def told(trouble: str, gradients: Sequence[Any], posts: Sequence[int]) -> dict[str, Any]:
    """The result by its names."""
    return (
        {"messages": trouble}
        | {f"rank {rank}": x for rank, x in enumerate(gradients)}
        | {f"posts of rank {rank}": x for rank, x in enumerate(posts)}
    )


EXERCISE = Exercise(
    name="ring_backward",
    lecture="13",
    title="gradients that travel home",
    level=3,
    minutes=30,
    asked=ASKED,
    stub=STUB,
    run=run,
    apart=True,
    tolerance=1e-4,
    parts=("dq", "dk", "dv"),
    arguments=("ranks", "q of all tokens", "k", "v", "do"),
    answers=("course_lib.parallel.blocks.backward",),
    hints=(
        "The loop runs `ranks` times: compute with the keys that are there, add to the dK and dV that came with them, pass on all four.",
        "Begin with q, k, v, do in float() for the arithmetic, and dk = dv = zeros in float32. After the last post and wait "
        "the dk and dv here are those of this rank's keys.",
        "One block of lecture 07's Algorithm 2, in float32, with the L and O of all keys. dq grows at home; dk and dv are those "
        "that came with the keys, and go on with them. After how many posts are they home?",
    ),
)

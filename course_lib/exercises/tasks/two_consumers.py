"""Lecture 10: an order of matmuls that keeps the tensor cores busy."""

import math
from collections import Counter
from typing import Any

from course_lib.exercises.base import Case, Exercise
from course_lib.model import pipeline

ASKED = r"""
The tensor cores of an SM serve two consumers, one matmul at a time, in an order that you choose. For each block of keys a consumer needs
$QK^\top$, then its softmax (on its own, as soon as it can), then $PV$. Return the order for `blocks` blocks as a list of
`(consumer, "QK", block)` and `(consumer, "PV", block)`, consumers 1 and 2, blocks from 0 on, each matmul once. A matmul starts when
the one before it is done and what it needs is there; until then all later ones wait.

- Blocks arrive one after another, each takes `load`. There are `buffers` buffers, 2 or more: block j is fetched when both consumers have
  finished $PV$ of block j − `buffers`.
- A consumer has registers for the scores of two blocks: $QK^\top$ of block j needs $PV$ of block j − 2 to be done.

`qk`, `softmax` and `pv` are durations of one consumer's work on a block. The tensor cores have to be idle for **less than 25 %** of the
time from the first load to the last $PV$. No single order does that for all cases of the check; each has one that does. `in_order` and
`idle_fraction` of `course_lib.model.pipeline` compute what becomes of an order.
"""

STUB = '''
def two_consumers(
    blocks: int, buffers: int, load: int, qk: int, softmax: int, pv: int
) -> list[tuple[int, str, int]]:
    """The order in which the tensor cores serve (consumer, "QK" or "PV", block)."""
    ...
'''
MOST_IDLE = 0.25


def examine(case: Case, result: Any) -> tuple[str, str]:
    """What is wrong with an order, and in words how long the tensor cores are idle if that is too long."""
    try:
        order = [(int(consumer), str(kind), int(block)) for consumer, kind, block in result]
        words = _missing(order, case.args[0])
        if words:
            return words, ""
        idle = pipeline.idle_fraction(pipeline.in_order(order, *case.args))
    except (TypeError, ValueError, OverflowError) as error:
        said = str(error)
        return said if said.startswith("order") else 'return a list of (consumer, "QK" or "PV", block)', ""
    if idle < MOST_IDLE:
        return "", ""
    share = "exactly 25" if math.isclose(idle, MOST_IDLE) else f"{100 * idle:.1f}"
    return "", f"the tensor cores are idle for {share} % of the time; less than 25 % is asked"


def _missing(order: list[tuple[int, str, int]], blocks: int) -> str:
    """In words which matmul is not in the order, or stands there twice, or is none."""
    wanted = [(c, kind, j) for j in range(blocks) for kind in ("QK", "PV") for c in (1, 2)]
    times = Counter(order)
    if none := times.keys() - set(wanted):
        return f"order has {min(none)}; consumers are 1 and 2, blocks 0 to {blocks - 1}"
    twice = [x for x in wanted if times[x] > 1]
    missing = [x for x in wanted if not times[x]]
    return f"order has {twice[0]} twice" if twice else f"order lacks {missing[0]}" if missing else ""


EXERCISE = Exercise(
    name="two_consumers",
    lecture="10",
    title="who multiplies next?",
    level=3,
    minutes=30,
    asked=ASKED,
    stub=STUB,
    examine=examine,
    parts=("the order", "the result"),
    answers=("course_lib.model.pipeline.simulate",),
    hints=(
        "Draw four blocks with qk = pv = 1 and softmax = 1, then with softmax = 3. What could the tensor cores do while both consumers are "
        "at their softmax, and which two orders of QK of block j + 1 and PV of block j are there?",
        "If PV of a block comes first, the consumer's softmax is hidden behind the other consumer's two matmuls only. If QK of the next "
        "block comes first, its softmax is hidden behind PV, too, but two blocks are in use. What does that ask of the buffers?",
        "Both orders go round the consumers: PV of block j, QK of block j + 1, the next consumer; or QK of block j + 1, PV of block j, the "
        "next. Which case needs which? You can also try both with in_order and return the better one.",
    ),
)

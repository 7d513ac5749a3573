"""Lecture 10: what two_consumers is checked by."""

import random
from collections.abc import Iterable

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.model import pipeline


def cases() -> Iterable[Case]:
    yield Case("all durations 1", (12, 2, 1, 1, 1, 1))
    yield Case("loads of 2", (12, 2, 2, 1, 1, 1))
    yield Case("two buffers, a softmax of 2", (12, 2, 2, 1, 2, 1))
    yield Case("two buffers, loads of 3", (12, 2, 3, 1, 2, 1))
    yield Case("two buffers, a longer QK", (12, 2, 1, 2, 3, 1))
    yield Case("three buffers, a softmax of 3", (12, 3, 2, 1, 3, 1))
    yield Case("three buffers, a softmax of 4", (12, 3, 2, 1, 4, 1))
    yield Case("four buffers, 20 blocks, a softmax of 7", (20, 4, 3, 2, 7, 2))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading; each has one of the two orders with a margin."""
    found = 0
    while found < 6:
        sizes = draw.randint(10, 20), draw.randint(2, 4), *(draw.randint(1, 6) for _ in range(4))
        order = _order(sizes[0], "PV first" if sizes[1] == 2 else "")
        if pipeline.idle_fraction(pipeline.in_order(order, *sizes)) < 0.2:
            found += 1
            yield Case("any durations", sizes)


def expected(blocks: int, buffers: int, load: int, qk: int, softmax: int, pv: int) -> tuple[str, str]:
    """Nothing is wrong with the order, and the tensor cores are not idle for too long."""
    return "", ""


def _order(blocks, bug):
    order = []
    for step in range(blocks + 1):
        for consumer in (1, 2):
            ahead = [(consumer, "QK", step)] * (step < blocks)
            behind = [(consumer, "PV", step - 1)] * (step > 0)
            order += behind + ahead if bug == "PV first" else ahead + behind
    return order


def _served(blocks, buffers, load, qk, softmax, pv, bug):
    good = _order(blocks, "PV first" if buffers == 2 else "")
    both, kinds = (1, 2), ("QK", "PV")
    return {
        "PV first": _order(blocks, "PV first"),
        "QK first": _order(blocks, ""),
        "alone": [(c, kind, j) for j in range(blocks) for c in both for kind in kinds],
        "together": [(c, kind, j) for j in range(blocks) for kind in kinds for c in both],
        "all scores": [(c, kind, j) for kind in kinds for j in range(blocks) for c in both],
        "one by one": [(c, kind, j) for c in both for j in range(blocks) for kind in kinds],
        "PV before QK": [(c, kind, j) for j in range(blocks) for c in both for kind in ("PV", "QK")],
        "no end": good[:-2],
        "from 0": [(c - 1, kind, j) for c, kind, j in good],
        "buffers swapped": _order(blocks, "" if buffers == 2 else "PV first"),
    }[bug]


WRONG = variants(
    _served,
    {
        "if PV always comes before the next QK: a long softmax is then longer than what hides it": "PV first",
        "if the next QK always comes before PV: two blocks are in use at a time, and two buffers cannot bring a third": "QK first",
        "if a consumer finishes a block before the other begins: nobody multiplies during its softmax": "alone",
        "if both consumers are at the same point: they take their exponentials at the same time": "together",
        "if a consumer's third QK, or each, comes before its first PV: there are registers for the scores of two blocks": "all scores",
        "if one consumer goes through all blocks before the other begins: buffers wait for both": "one by one",
        "if PV stands before the QK that it needs": "PV before QK",
        "if the last PV are missing": "no end",
        "if consumers are counted from 0: they are 1 and 2": "from 0",
        "if the two orders change places: it is QK first that needs a third buffer": "buffers swapped",
    },
)

"""What answers are run with: ranks whose messages arrive in order, warps whose phases are an mbarrier's, an attention with mistakes."""

import re

import pytest
import torch

from course_lib.exercises.exercise import defined, exercises
from course_lib.exercises.harness import wrong_attention
from course_lib.exercises.harness.ranks import Ranks, attend
from course_lib.exercises.harness.warps import TILE_BYTES, Barrier, recorded, tried
from course_lib.exercises.tasks.tile_ring import ROLES
from course_lib.model import reference

# --- ranks ---


def results(make, ranks=3):
    group = Ranks(make, ranks)
    return group.results(), group.trouble


def _passes_on(rank):
    x, seen = torch.tensor([float(rank)]), []
    for _ in range(3):
        coming = yield ("post", x)
        early = coming.clone()
        yield ("wait",)
        x = coming
        seen.append((bool(early.isnan()), int(x)))
    return seen


def test_a_message_holds_nothing_until_it_has_arrived() -> None:
    found, trouble = results(_passes_on)
    assert trouble == ""
    assert found == [[(True, (rank - step) % 3) for step in (1, 2, 3)] for rank in range(3)]


def _exchanges(rank):
    for round_ in range(2):
        got = yield ("exchange", [torch.tensor(100 * round_ + 10 * rank + to) for to in range(3)])
    return [int(x) for x in got]


def test_each_rank_gets_its_own_from_each_other() -> None:
    assert results(_exchanges) == ([[100 + 10 * source + rank for source in range(3)] for rank in range(3)], "")


def _one_is_silent(rank):
    if rank != 1:
        yield ("post", torch.ones(1))
        yield ("wait",)
    return rank


def _leaves(rank):
    yield ("post", torch.ones(1))


def _endless(rank):
    while True:
        yield ("post", torch.ones(1))
        yield ("wait",)


def _other_shapes(rank):
    yield ("post", torch.ones(1 + rank))
    yield ("wait",)


def _waits(rank):
    yield ("wait",)


def _no_request(rank):
    yield "post"


def _few(rank):
    yield ("exchange", [torch.ones(1)])


@pytest.mark.parametrize(
    ("make", "trouble"),
    [
        (_one_is_silent, "rank 2 waits for a message that nobody sends"),
        (_leaves, "rank 0 ends before a message that it has begun has arrived"),
        (_endless, "never stops asking"),
        (_other_shapes, "rank 1 receives tensors of other shapes than it sends"),
        (_waits, "rank 0 waits, but has begun no message"),
        (_no_request, "rank 0 yields what is no request"),
        (_few, "rank 0 has a list of 1 for the exchange"),
        (lambda rank: rank, "rank 0 returns at once: without a yield it is no generator"),
    ],
)
def test_what_goes_wrong_with_messages_is_told(make, trouble) -> None:
    assert trouble in results(make)[1]


@pytest.mark.parametrize("causal", [False, True])
def test_what_ranks_attend_with_is_attention(causal) -> None:
    q, k, v = torch.randn(4, 6, 8), *torch.randn(2, 2, 6, 8)
    o, L = attend(q, k, v, causal)
    for head in range(4):
        one = q[head], k[head // 2], v[head // 2]
        torch.testing.assert_close(o[head].double(), reference.attention(*one, causal=causal), atol=1e-5, rtol=0)
        weights = (one[0].double() @ one[1].double().T / 8**0.5).exp()
        sums = (weights.tril() if causal else weights).sum(1)
        torch.testing.assert_close(L[head].double(), sums.log(), atol=1e-5, rtol=0)


# --- warps ---


def test_a_phase_is_complete_when_arrivals_and_bytes_are_there() -> None:
    barrier = Barrier(1)
    assert (barrier.passed(0), barrier.passed(1)) == (False, True)
    barrier.change(arrivals=1, expected=TILE_BYTES)
    barrier.change(expected=-TILE_BYTES // 2)
    assert not barrier.passed(0)
    barrier.change(expected=-TILE_BYTES // 2)
    assert (barrier.passed(0), barrier.passed(1)) == (True, False)


def _one(*requests, consumer=()):
    """A producer that asks for these things, beside consumers that ask for those."""
    return requests, consumer


COPY = (("expect", "full", 0, TILE_BYTES), ("copy", 0, 0, 0))


@pytest.mark.parametrize(
    ("make", "trouble"),
    [
        (_one(("wait", "full", 0, 0)), r"deadlock: the producer waits for phase 0 of full\[0\]"),
        (_one(*COPY, consumer=[("read", 0)]), "reading too early: consumer 1 reads buffer 0 before"),
        (_one(consumer=[("read", 0)]), "reading too early: consumer 1 reads buffer 0 before anything has landed there"),
        (_one(*COPY, ("copy", 0, 1, 0)), "overwriting: tile 0 of job 0 is still landing in buffer 0"),
        (_one(*COPY, ("wait", "full", 0, 0), ("copy", 0, 1, 0)), "where consumer 1 has not read tile 0 of job 0"),
        (
            _one(*COPY, ("wait", "empty", 0, 0), ("copy", 0, 1, 0), consumer=[("wait", "full", 0, 0), ("read", 0), ("arrive", "empty", 0)]),
            "a fence is missing: tile 1 of job 0 is copied to buffer 0",
        ),
        (_one(*COPY, consumer=[("wait", "full", 0, 0), ("read", 0), ("read", 0)]), "a second time"),
        (_one(("copy", 0, 2, 0)), "the producer yields what is no request"),
        (_one(("expect", "empty", 0, 1)), "the producer yields what is no request"),
        (_one(("wait", "full", 0, 2)), "the producer yields what is no request"),
        (_one(("arrive", "full", 1)), "the producer yields what is no request"),
        (_one(("read", 0)), "the producer yields what is no request"),
        (_one("fence"), "the producer yields what is no request"),
        (_one(*COPY), "consumer 1 ends before it has read tile 0 of job 0"),
        (_one(("copy", 0, 1, 0), COPY[0], consumer=[("wait", "full", 0, 0), ("read", 0)]), "a wrong tile: consumer 1 reads tile 1 of"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told(make, trouble) -> None:
    found, _ = tried(*make, [[3, 4]], 1, 1)
    assert re.search(trouble, found), found


def test_a_role_is_recorded_alone() -> None:
    def adds(n):
        total = 0
        for _ in range(n):
            yield ("wait", "full", 0, 0)
            total += yield ("read", 0)
        return total

    assert recorded(adds(2), [3, 4]) == ([("wait", "full", 0, 0), ("read", 0)] * 2, 7, "")
    assert recorded(adds(3), [3, 4]).returned == 7  # there is nothing more to read
    assert recorded(7, [3]).trouble == "returns at once: without a yield it is no generator"
    endless = recorded((("fence",) for _ in iter(int, 1)), [])
    assert (endless.trouble, len(endless.requests)) == ("never stops asking", 1)


def test_with_two_consumers_both_get_all_and_the_buffers_are_full() -> None:
    ring = defined(exercises()["tile_ring"].module.SOLUTION, "tile_ring")
    producer, consumer = (recorded(ring(role, [2, 3], 2), [3, 4, 5, 6, 7]) for role in ROLES)
    assert consumer.returned == [7, 18]
    assert tried(producer.requests, consumer.requests, [[3, 4], [5, 6, 7]], 2, 2) == ("", 2)


# --- attention with mistakes ---


def test_without_a_mistake_it_is_attention() -> None:
    for n_q, n_k, block in ((1, 1, 4), (3, 5, 4), (7, 20, 8)):
        q, k, v = torch.randn(n_q, 8) * 10, torch.randn(n_k, 8), torch.randn(n_k, 3)
        right = reference.attention(q, k, v)
        assert float((wrong_attention.attention(q, k, v, block) - right).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "return a tuple of three"),
        ((torch.zeros(2, 2),) * 2, "return a tuple of three"),
        ((torch.zeros(2, 2, dtype=torch.float64),) * 3, "float32 tensors with two dimensions"),
        ((torch.zeros(2),) * 3, "float32 tensors with two dimensions"),
        ((torch.zeros(2, 3), torch.zeros(2, 2), torch.zeros(2, 2)), r"q \[2, 3\], k \[2, 2\], .* of one width"),
        ((torch.zeros(2, 2), torch.zeros(2, 2), torch.zeros(3, 2)), "k and v of one length"),
        ((torch.zeros(2, 65),) * 3, "widths have to be 1 to 64"),
        ((torch.zeros(5, 2), torch.zeros(2, 2), torch.zeros(2, 2)), "at most 4 queries and 6 keys"),
        ((torch.zeros(2, 2), torch.zeros(7, 2), torch.zeros(7, 2)), "at most 4 queries and 6 keys"),
        ((torch.zeros(2, 2), torch.zeros(0, 2), torch.zeros(0, 2)), "at most 4 queries and 6 keys"),
        ((torch.full((2, 2), torch.inf),) * 3, "have to be finite"),
        ((torch.full((2, 2), 1e30),) * 3, "the right kernel fails on it, too"),
    ],
)
def test_what_is_no_input_is_told(given, words) -> None:
    trouble, names = wrong_attention.getting_by(given, 4, 4, 6)
    assert names == ""
    assert re.search(words, trouble)

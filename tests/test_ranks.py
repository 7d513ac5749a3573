"""Simulated ranks: messages arrive in order, nothing is there before it has arrived, and who waits for ever is named."""

import pytest
import torch

from course_lib.exercises.harness.ranks import Ranks


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

"""The pipeline simulation: closed forms, and what hardware allows. The page's own copy of it: test_in_the_page.py."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.model import pipeline


def test_one_warpgroup_without_overlap_takes_the_sum_of_its_parts() -> None:
    for load, qk, soft, pv in ((3.0, 1.0, 2.0, 1.0), (0.5, 1.0, 1.0, 1.0)):
        work = qk + soft + pv
        alone = pipeline.simulate(5, 1, 1, load, qk, soft, pv)
        assert alone[-1].end == pytest.approx(5 * (load + work))  # one buffer: load, then work, each time
        ahead = pipeline.simulate(5, 1, 2, load, qk, soft, pv)
        assert ahead[-1].end == pytest.approx(load + 4 * max(load, work) + work)
        assert pipeline.idle_fraction(ahead) == pytest.approx(1 - 5 * (qk + pv) / ahead[-1].end)


def ping_pong(blocks: int) -> list[tuple[int, str, int]]:
    """P V of a block and Q Kᵀ of the next, then the other consumer."""
    order = [(c, kind, j) for j in range(blocks + 1) for c in (1, 2) for kind, j in (("PV", j - 1), ("QK", j))]
    return [work for work in order if 0 <= work[2] < blocks]


def test_an_order_that_comes_to_no_end_is_refused() -> None:
    with pytest.raises(ValueError, match="order lets PV of block 2 of warpgroup 2 wait for a matmul that comes later"):
        pipeline.in_order(ping_pong(3)[::-1], 3, 2, 1.0, 1.0, 1.0, 1.0)


TIME = st.sampled_from([0.5, 1.0, 2.0, 3.5])


@given(st.integers(1, 6), st.integers(1, 3), st.integers(2, 4), TIME, TIME, TIME, TIME, st.sampled_from(pipeline.MODES))
def test_a_timeline_keeps_to_what_hardware_allows(blocks, consumers, buffers, load, qk, soft, pv, mode) -> None:
    spans = pipeline.simulate(blocks, consumers, buffers, load, qk, soft, pv, mode)
    at = {(s.warpgroup, s.kind, s.block): s for s in spans}
    alone = mode == "many warps"
    ring = 1 if alone else buffers
    assert len(at) == blocks * ((consumers if alone else 1) + 3 * consumers)
    copies = sorted((s.start, s.end) for s in spans if s.kind == "load")
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(copies))
    for warpgroup, block in itertools.product(range(1, consumers + 1), range(blocks)):
        scores, weights, matmul = (at[warpgroup, kind, block] for kind in ("QK", "softmax", "PV"))
        owner = warpgroup if alone else 0
        assert at[owner, "load", block].end <= scores.start + 1e-9
        assert scores.end <= weights.start + 1e-9
        assert weights.end <= matmul.start + 1e-9
        if block + ring < blocks:
            assert matmul.end <= at[owner, "load", block + ring].start + 1e-9
    tensor = sorted((s.start, s.end) for s in spans if s.kind in ("QK", "PV"))
    assert tensor[-1][1] - tensor[0][0] >= consumers * blocks * (qk + pv) - 1e-6 or consumers == 1 or blocks == 1
    for warpgroup in range(1, consumers + 1):  # one accumulator: a warpgroup's P V never overlap
        mine = sorted((s.start, s.end) for s in spans if s.kind == "PV" and s.warpgroup == warpgroup)
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(mine))
    if mode == "ping-pong":
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(tensor))
    assert 0 <= pipeline.idle_fraction(spans) < 1


def test_taking_turns_keeps_the_tensor_cores_busier() -> None:
    plain, turns = (pipeline.simulate(12, 2, 2, 1, 1, 2, 1, mode) for mode in ("specialised", "ping-pong"))
    # In step, both wait for both softmaxes: of 2 + 2 + 2 units a block the tensor cores work 4. The first load takes 1.
    assert pipeline.idle_fraction(plain) == pytest.approx(1 - 12 * 4 / (1 + 12 * 6))
    assert pipeline.idle_fraction(turns) < 0.15


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60), st.integers(1, 9))
def test_loads_of_workers(work, workers) -> None:
    for queue in (False, True):
        busy = pipeline.loads(work, workers, queue)
        assert sum(busy) == pytest.approx(sum(work))
        assert len(busy) == workers
    # Whoever took the longest load's last piece was free first: it is over the mean by no more than that piece.
    assert max(pipeline.loads(work, workers, True)) <= sum(work) / workers + max(work) + 1e-9
    assert pipeline.loads([3, 1, 1, 1], 2, False) == [4, 2]
    assert pipeline.loads([3, 1, 1, 1], 2, True) == [3, 3]
    # Chosen ahead: the first has the 2 in hand when it begins its 3, so that it ends at 5, where the second is free at 1.
    assert pipeline.loads([3, 1, 2, 1], 2, True, ahead=True) == [5, 2]
    assert pipeline.loads([3, 1, 2, 1], 2, True) == [4, 3]
    busy = pipeline.loads(work, workers, True, ahead=True)
    assert sum(busy) == pytest.approx(sum(work))
    assert max(busy) <= sum(work) / workers + 2 * max(work) + 1e-9  # at most one piece waits in hand

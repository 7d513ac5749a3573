"""What attention on several GPUs costs on paper: who owns which token, who works when, who sends what."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib import parallel
from course_lib.model import parallel as model
from course_lib.model import ring_timeline

ORDER, RANKS, LENGTH = st.sampled_from(model.ORDERS), st.integers(1, 7), st.integers(1, 60)
D = 16


# --- who owns what, and who sees what ---


@given(ORDER, RANKS, LENGTH)
def test_each_token_has_one_owner(order, ranks, length) -> None:
    owned = [model.positions(order, ranks, rank, length) for rank in range(ranks)]
    assert torch.equal(torch.cat(owned).sort().values, torch.arange(length))
    for rank, tokens in enumerate(owned):
        assert torch.equal(tokens, tokens.sort().values)
        assert len(tokens) == model.owned(order, ranks, rank, length) <= -(-length // ranks) + (order == "zigzag")
        assert bool((model.owners(order, ranks, length)[tokens] == rank).all())
    x = torch.arange(3 * length).view(3, length)
    parts = [parallel.shard(x, ranks, rank, order, dim=1) for rank in range(ranks)]
    assert torch.equal(parallel.unshard(parts, order, dim=-1), x)


@given(ORDER, RANKS, LENGTH, st.booleans())
def test_the_work_of_all_steps_is_the_mask(order, ranks, length, causal) -> None:
    seen = torch.zeros(length, length, dtype=torch.int64)
    for rank, source in itertools.product(range(ranks), repeat=2):
        mine, theirs = (model.positions(order, ranks, x, length) for x in (rank, source))
        work = model.work(order, ranks, rank, source, length, causal)
        if work:
            i, j = torch.arange(work.queries)[:, None], torch.arange(work.keys)
            block = (j <= i + work.offset) if work.causal else torch.ones(work.queries, work.keys, dtype=torch.bool)
            assert work.pairs == int(block.sum()) > 0
            seen[mine[work.first :, None], theirs[: work.keys]] += block
        assert (work is not None) <= ((rank - source) % ranks <= model.hops(order, ranks, source, length, causal))
    assert torch.equal(seen, torch.ones_like(seen).tril() if causal else torch.ones_like(seen))
    assert sum(map(sum, model.step_pairs(order, ranks, length, causal))) == int(seen.sum())


def test_contiguous_keys_go_no_further_than_they_are_seen() -> None:
    assert [model.hops("contiguous", 4, source, 16, True) for source in range(4)] == [3, 2, 1, 0]
    assert [model.hops("zigzag", 4, source, 16, True) for source in range(4)] == [3] * 4
    sent = [
        [x.keys_values for x in model.ring_bytes("contiguous", 4, rank, 16, 1, D, causal=True)] for rank in range(4)
    ]
    block = 2 * 4 * D * 2
    assert sent == [[block, 0, 0, 0], [block, block, 0, 0], [block, block, block, 0], [0, 0, 0, 0]]


# --- what it costs ---


def test_the_formulas_give_the_known_numbers() -> None:
    for flops, tokens in ((640e12, 2238), (318e12, 1112), (989e12, 3458)):
        assert round(model.hiding_tokens(flops, 286e9)) == tokens
        assert model.hiding_tokens(flops, 286e9, group=4, visible=0.5) == pytest.approx(
            model.hiding_tokens(flops, 286e9) / 2
        )
    c = model.hiding_tokens(640e12, 286e9, group=2, latency=100)
    heads, kv_heads, d = 8, 4, 128
    seconds = 100 * 2 * kv_heads * d * 2 / 286e9
    assert 4 * c * c * heads * d / 640e12 == pytest.approx(seconds + 2 * c * kv_heads * d * 2 / 286e9)


@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 8), (16, 16), (64, 4)])
def test_a_ring_sends_less_than_ulysses_up_to_the_crossover(heads, kv_heads) -> None:
    for ranks in (2, 4):
        ring = sum(x.keys_values for x in model.ring_bytes("zigzag", ranks, 0, 64 * ranks, kv_heads, D))
        ulysses = sum(model.ulysses_bytes(ranks, 0, 64 * ranks, heads, kv_heads, D))
        at = heads / kv_heads + 1  # (P - 1) 2 c Hk D e = (P - 1)/P c D e (2 H + 2 Hk)
        assert (ring < ulysses, ring == ulysses) == (ranks < at, ranks == at)


# --- the simulated timeline ---

SHAPE = {"heads": 8, "kv_heads": 4, "d": 128, "flops_per_s": 640e12, "link_bytes_per_s": 286e9}


@pytest.mark.parametrize("order", model.ORDERS)
@pytest.mark.parametrize("causal", [False, True])
def test_without_a_wait_for_links_a_timeline_is_the_critical_path(order, causal) -> None:
    fast = SHAPE | {"link_bytes_per_s": 1e30}
    for ranks in (1, 2, 5):
        line = ring_timeline.simulate(order, ranks, 640 * ranks, causal=causal, **fast)
        assert line.busy == pytest.approx(model.efficiency(order, ranks, 640 * ranks, causal))
        alone = 4 * 8 * 128 * sum(map(sum, model.step_pairs(order, ranks, 640 * ranks, causal))) / 640e12
        assert ranks * line.busy == pytest.approx(alone / line.seconds)
        backward = ring_timeline.simulate(order, ranks, 640 * ranks, causal=causal, backward=True, **fast)
        assert backward.seconds == pytest.approx(2.5 * line.seconds)


def test_a_link_hides_from_the_length_of_the_formula_on() -> None:
    least = model.hiding_tokens(640e12, 286e9, group=2)
    for c, hidden in ((int(least), False), (int(least) + 1, True)):
        line = ring_timeline.simulate("contiguous", 4, 4 * c, **SHAPE)
        assert (line.busy == pytest.approx(1, abs=1e-9)) == hidden
    instant = SHAPE | {"flops_per_s": 1e30}
    line = ring_timeline.simulate("zigzag", 4, 4096, latency=1e-6, causal=True, **instant)
    assert line.seconds == pytest.approx(3 * (1e-6 + 2 * 1024 * 4 * 128 * 2 / 286e9))
    backward = ring_timeline.simulate("zigzag", 4, 4096, causal=True, backward=True, **instant)
    block = 2 * 1024 * 4 * 128
    sent = [2, 2, 2 + 4, 4, 4]  # bytes a number: keys in the first three batches, sums in the last three
    assert backward.seconds == pytest.approx(sum(sent) * block / 286e9)
    spans = line.spans()
    assert {span.lane for span in spans} == {"compute", "send"}
    assert sum(span.end - span.start for span in spans if span.lane == "send") == pytest.approx(4 * line.seconds)

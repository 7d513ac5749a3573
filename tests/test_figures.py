"""Figures from records: typed rows, bounds that the page derives, and words for a reader who has not seen the answer."""

import itertools

import pytest
import torch
from matplotlib.figure import Figure

from course_lib import data, figures
from course_lib.figures import (
    backward,
    decoding,
    loop_orders,
    many_gpus,
    matmul_pictures,
    one_head,
    records,
    ring_claims,
    stack,
    two_gpus,
    wrong_kernel,
)
from course_lib.model import cost, reference, registers


def test_rows_have_the_fields_asked_for() -> None:
    (first, *_), raw = (
        records.rows(loop_orders.Timed, "loop_orders"),
        loop_orders.data.measured(records.H200, "loop_orders"),
    )
    assert first == loop_orders.Timed(**{name: raw.rows[0][name] for name in loop_orders.Timed._fields})


@pytest.mark.parametrize(
    ("heads", "n", "bounds"), [(16, 16_384, (33, 57 / 16, 1.067)), (256, 1024, (2.0625, 57 / 16, 1.063))]
)
def test_bounds_are_those_that_the_page_derives_and_no_step_passes_its_own(heads, n, bounds) -> None:
    gains = loop_orders.gains(heads, n)
    assert [gain.bound for gain in gains] == pytest.approx(bounds, rel=1e-3)
    assert all(gain.measured < gain.bound for gain in gains)


def test_an_eager_call_takes_as_long_as_the_slower_of_host_and_gpu_and_a_replayed_one_as_the_gpu() -> None:
    words = [figures.launches(Figure().subplots(), *us) for us in ((4, 40), (400, 40))]
    assert words == [
        "one of many calls: 40 µs eager, 4 µs replayed",
        "one of many calls: 400 µs eager, 400 µs replayed",
    ]


def test_scores_cross_dram_six_times_in_standard_attention() -> None:
    crossings = [round(float(row[1])) for row in figures.standard_kernels().rows]
    assert crossings == [1, 2, 2, 1]


@pytest.mark.parametrize(
    ("order", "held_rows", "held_columns"),
    [("outer loop over K/V", False, True), ("outer loop over Q", True, False), ("two passes", True, True)],
)
def test_the_picture_of_the_backward_pass_streams_the_accumulators_that_the_formula_reads(
    order, held_rows, held_columns
):
    alone = held_rows != held_columns
    drawn = {name for name in backward.ROW_TENSORS if backward.role(name, held_columns, alone) == backward.ACCUMULATED}
    drawn |= {name for name in backward.COLUMN_TENSORS if backward.role(name, held_rows, alone) == backward.ACCUMULATED}
    assert drawn == {"dQ", "dK", "dV"} & set(cost.backward_traffic(order, 64, 16, 16, 16, "fp16").reads)


def test_a_distance_so_far_never_falls_and_a_run_is_no_distance_from_itself() -> None:
    assert sorted(backward.apart("attention")) == backward.apart("attention")
    assert set(backward.apart("sdpa")) == {0}


@pytest.mark.parametrize("one_query", [False, True])
def test_a_table_of_times_fits_one_query_where_ours_is_as_many_times_as_long_at_each_length(one_query: bool) -> None:
    apart = stack.over_reported("Python", one_query)
    assert (max(apart) / min(apart) < 1.2) == one_query


def test_less_its_call_ours_on_flat_arrays_takes_as_many_times_as_long_as_the_reported_cpp_at_each_length() -> None:
    apart = stack.flat_over_reported()
    assert max(apart) / min(apart) < 1.3
    call, score = stack.call_and_score()
    assert [call + score * n**2 for n in (8, 64)] == pytest.approx([stack.run("C++ -O2", n).seconds for n in (8, 64)])


def test_of_two_machines_the_shared_rungs_are_drawn_and_of_one_all_but_the_interpreted() -> None:
    names = []
    for machine in (*stack.MACHINES, "both"):
        ax = Figure().subplots()
        stack.over_n(ax, "memory, all queries", machine)
        names.append([text.get_text() for text in ax.get_legend().get_texts()])
    assert len(names[2]) == 2 * len(stack.COMPARED)
    assert set(stack.REMAINS) <= set(names[1])
    assert not [name for name in names[0] if "interpreted" in name]


@pytest.mark.parametrize(("spike", "block", "words"), [(0, 64, "1 of 7"), (20, 64, "2 of 7"), (0, 16, "2 of 31")])
def test_a_late_spike_brings_one_correction_more_than_the_row_has(spike, block, words) -> None:
    said = figures.running_state(list(Figure().subplots(2, 2).flat), block, spike, 1.0)
    assert said == f"{words} blocks after the first brought a correction"


@pytest.mark.parametrize(
    ("scale", "tolerance", "accepted"),
    [
        (1.0, 1e-2, "64"),
        (0.01, 1e-2, "64, 128"),
        (0.003, 1e-2, "64, 128, 256, 512"),
        (0.001, 1e-2, "64, 128, 256, 512, 1,024"),
        (0.01, 1e-3, "64"),
    ],
)
def test_a_test_with_small_values_accepts_lite(scale, tolerance, accepted) -> None:
    assert figures.usual_test(Figure().subplots(), scale, tolerance) == f"the test accepts Lite at N = {accepted}"


@pytest.mark.kernel
def test_a_mistake_takes_the_place_of_words_that_stand_in_the_kernel_once() -> None:
    for words in ("tl.load", "tl.store(nothing)"):
        with pytest.raises(ValueError, match="pass words that stand in Online's kernel once"):
            one_head.with_mistake(words, "")


@pytest.mark.kernel
def test_in_one_full_block_of_ordinary_scores_no_mistake_shows() -> None:
    table = figures.caught(lambda name: [torch.randn(64, 16) for _ in range(3)], ["random"])
    assert table.headers == ["input", "Online", *one_head.MISTAKES]
    assert table.rows == [["random", *["passed"] * 5]]


def test_lite_is_attention_in_one_block_and_the_weights_of_its_blocks_add_up_to_their_number() -> None:
    (head,) = wrong_kernel.random_heads([48])
    q, k, v = head
    torch.testing.assert_close(wrong_kernel.block_averages(q, k, v, 48), reference.attention(q, k, v))
    ones = torch.ones_like(v)
    torch.testing.assert_close(wrong_kernel.block_averages(q, k, ones, 16), 3 * ones.double())


def test_the_state_after_all_scores_depends_on_no_order_and_no_block() -> None:
    words = [
        figures.scores_in_order(Figure().subplots(), order, block)
        for order in ("as drawn", "rising", "falling")
        for block in (1, 7, 64)
    ]
    assert len({text.split(";")[1] for text in words}) == 1
    assert [text.split(" in ")[0] for text in words[3::3]] == ["63 corrections", "0 corrections"]
    for order in ("as drawn", "rising", "falling"):
        ax = Figure().subplots()
        figures.scores_in_order(ax, order, 1)
        low, high = ax.get_ylim()
        assert all(low < y < high for line in ax.lines for y in line.get_ydata()), order


def test_programs_in_groups_read_fewer_strips_of_large_matrices() -> None:
    assert matmul_pictures.by_columns(395) == (11, 3)
    assert matmul_pictures.by_groups(395) == (3, 49)
    for order in (matmul_pictures.by_columns, matmul_pictures.by_groups):
        assert len({order(program) for program in range(matmul_pictures.TILES**2)}) == matmul_pictures.TILES**2
    assert matmul_pictures.strips(matmul_pictures.by_columns) == (128, 4)
    assert matmul_pictures.strips(matmul_pictures.by_groups) == (8, 50)


def test_groups_gain_nothing_where_the_programs_cover_many_columns_as_it_is() -> None:
    assert matmul_pictures.strips(matmul_pictures.by_columns, 32) == (32, 13)
    assert matmul_pictures.strips(matmul_pictures.by_groups, 32) == (16, 32)


def test_an_h200_runs_as_many_programs_with_tiles_of_128_as_the_picture_fills() -> None:
    # registers and bytes as lecture 03's compiler says
    fit = registers.resident_programs(128, 164, 49_152, data.gpu("H200").shared_kib_per_sm)
    assert min(fit.values()) * data.gpu("H200").sms == matmul_pictures.AT_ONCE


def test_a_ring_hides_its_messages_where_the_inequality_says_and_a_simulated_one_as_the_formula_counts() -> None:
    words = figures.hiding(Figure().subplots(), "H200", "NVLink 4", 4, "causal, zigzag")
    assert words.startswith("H200, NVLink 4: from 1,099 tokens")
    for order, busy in (("contiguous", 8 / 15), ("zigzag", 1.0)):
        assert many_gpus.simulated(order, 8, 2**20, 8, "NVLink 4").busy == pytest.approx(busy, rel=1e-3)
    assert many_gpus.kernel_rate(3000) == many_gpus.kernel_rates()[2048]
    assert many_gpus.kernel_rate(16) == many_gpus.kernel_rates()[512]
    axes = Figure().subplots(1, 2)
    assert "InfiniBand NDR, zigzag: 8 GPUs 100%, 64 GPUs 100%, 512 GPUs 36%" in figures.busy_gpus(
        axes, 2**20, 8, "forward"
    )


@pytest.mark.parametrize("direction", two_gpus.PASSES)
@pytest.mark.parametrize("n", [16_384, 65_536])
def test_each_recorded_call_of_the_ring_has_its_own_kernels(n, direction) -> None:
    """One of them begins with a kernel and not with its message, which waits."""
    calls = [two_gpus.ring_call(n, direction, call) for call in range(3)]
    assert len({tuple(sorted(x.kernel for x in call)) for call in calls}) == 1
    for one, next_one in itertools.pairwise(calls):
        assert max(x.end for x in one) <= min(x.begin for x in next_one)


def test_what_sources_say_of_rings_is_judged_by_counts() -> None:
    found = {
        name: [supports for _, supports in getattr(ring_claims, name)()]
        for name in ("zigzag_is_balanced", "blocks_hide", "striped_gain", "ulysses_volume", "errors_by_ranks")
    }
    assert found == {
        "zigzag_is_balanced": [True],
        "blocks_hide": [True, True, False],
        "striped_gain": [True, True],
        "ulysses_volume": [True, False, False],
        "errors_by_ranks": [False, True],
    }


def test_a_claim_of_a_gain_fails_where_nothing_is_gained_and_one_of_pages_cell_by_cell(monkeypatch) -> None:
    monkeypatch.setattr(ring_claims.parallel, "efficiency", lambda order, ranks, tokens: 0.5)
    assert [supports for _, supports in ring_claims.striped_gain()] == [False, False]
    for prices, verdicts in (((1.04, 1.01), [True]), ((1.04, 1.06), [False]), ((1.05, 1.06), [False])):
        monkeypatch.setattr(decoding, "against", lambda name, *_, p=prices: p if name == decoding.PAGED else (1.0, 1.0))
        assert [supports for _, supports in decoding.sixteen_is_enough()] == verdicts

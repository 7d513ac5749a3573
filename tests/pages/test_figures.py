"""What figures compute, against closed forms and counts by hand. What their pages print, nbval compares."""

import pytest
from matplotlib.figure import Figure

from course_lib import figures
from course_lib.figures import (
    climb_records,
    loop_orders,
    machinery,
    many_gpus,
    matmul_pictures,
    tile_pictures,
)


@pytest.mark.parametrize(
    ("heads", "n", "bounds"), [(16, 16_384, (33, 57 / 16, 1.067)), (256, 1024, (2.0625, 57 / 16, 1.063))]
)
def test_bounds_are_those_that_the_page_derives_and_no_step_passes_its_own(heads, n, bounds) -> None:
    gains = loop_orders.gains(heads, n)
    assert [gain.bound for gain in gains] == pytest.approx(bounds, rel=1e-3)
    assert all(gain.measured < gain.bound for gain in gains)


def test_the_bounds_of_the_climb_are_those_that_its_page_derives() -> None:
    assert [round(climb_records.cycles("Online", d), -1) for d in (64, 128)] == [920, 1560]
    assert climb_records.expected("exp2", 64, False, 4096) == pytest.approx(920 / (920 - 136), rel=2e-3)
    assert climb_records.expected("causal block skipping", 64, True, 4096) == pytest.approx(4096 / 2080)
    assert climb_records.expected("overlap", 128, False, 4096) == pytest.approx(32 / 26)


@pytest.mark.parametrize(("spike", "block", "words"), [(0, 64, "1 of 7"), (20, 64, "2 of 7"), (0, 16, "2 of 31")])
def test_a_late_spike_brings_one_correction_more_than_the_row_has(spike, block, words) -> None:
    said = figures.running_state(list(Figure().subplots(2, 2).flat), block, spike, 1.0)
    assert said == f"{words} blocks after the first brought a correction"


@pytest.mark.parametrize(("scale", "accepted"), [(1.0, "64"), (0.01, "64, 128"), (0.001, "64, 128, 256, 512, 1,024")])
def test_a_test_with_small_values_accepts_lite(scale, accepted) -> None:
    assert figures.usual_test(Figure().subplots(), scale, 1e-2) == f"the test accepts Lite at N = {accepted}"


def test_the_state_after_all_scores_depends_on_no_order_and_no_block() -> None:
    words = [
        figures.scores_in_order(Figure().subplots(), order, block)
        for order in ("as drawn", "rising", "falling")
        for block in (1, 7, 64)
    ]
    assert len({text.split(";")[1] for text in words}) == 1
    assert [text.split(" in ")[0] for text in words[3::3]] == ["63 corrections", "0 corrections"]


def test_programs_in_groups_read_fewer_strips_of_large_matrices_alone() -> None:
    for order in (matmul_pictures.by_columns, matmul_pictures.by_groups):
        assert len({order(program) for program in range(matmul_pictures.TILES**2)}) == matmul_pictures.TILES**2
    assert matmul_pictures.strips(matmul_pictures.by_columns) == (128, 4)
    assert matmul_pictures.strips(matmul_pictures.by_groups) == (8, 50)
    assert matmul_pictures.strips(matmul_pictures.by_columns, 32) == (32, 13)
    assert matmul_pictures.strips(matmul_pictures.by_groups, 32) == (16, 32)


def test_a_simulated_ring_is_as_busy_as_the_formula_counts() -> None:
    for order, busy in (("contiguous", 8 / 15), ("zigzag", 1.0)):
        assert many_gpus.simulated(order, 8, 2**20, 8, "NVLink 4").busy == pytest.approx(busy, rel=1e-3)


@pytest.mark.parametrize("buffers", [1, 2, 6])
def test_the_model_of_the_ring_keeps_its_buffers_and_the_bandwidth(buffers) -> None:
    ways = machinery.trips(buffers, 50_000)
    assert all(ways[n][0] == ways[n - buffers][1] for n in range(buffers, len(ways)))  # a buffer holds one tile
    late = [end for _, end in ways if end > 10_000]
    rate = 132 * machinery.TILE * (len(late) - 1) / (late[-1] - late[0])
    assert rate == pytest.approx(min(4800, buffers * machinery.ring_rates()[1]), rel=0.02)


def test_swizzling_loses_no_piece_and_spreads_every_read_over_all_banks() -> None:
    for row in range(64):
        assert sorted(tile_pictures.swizzled(row, piece) for piece in range(8)) == list(range(8))
    for piece in range(8):
        assert tile_pictures.cycles(tile_pictures.below_each_other, piece) == 8
        assert tile_pictures.cycles(tile_pictures.swizzled, piece) == 1

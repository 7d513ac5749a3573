"""Lecture 11's figures: what its page derives by hand, and what records and the compiler say of it."""

import pytest
from matplotlib.figure import Figure

from course_lib.figures import climb, climb_records
from course_lib.instruments import assembly
from course_lib.show.style import render

GRID = climb_records.GRID


def test_counts_are_those_that_the_page_derives() -> None:
    assert [round(climb_records.cycles("Online", d), -1) for d in (64, 128)] == [920, 1560]
    assert climb_records.expected("exp2", 64, False, 4096) == pytest.approx(920 / (920 - 136), rel=2e-3)
    assert climb_records.expected("causal block skipping", 64, True, 4096) == pytest.approx(4096 / 2080)
    assert climb_records.expected("overlap", 128, False, 4096) == pytest.approx(32 / 26)
    assert climb_records.expected("causal block skipping", 64, False, 4096) is None


def test_the_parts_of_the_peak_multiply_to_what_is_reached() -> None:
    busy, clock, rest = climb_records.shares()
    row = next(
        r for r in climb_records.rows(climb_records.Counted, "eight_bit_counters") if r.algorithm == "attention()"
    )
    reached = 4 * row.heads * row.n**2 * row.d / row.seconds / 989e12
    assert busy * clock * rest == pytest.approx(reached, rel=1e-2)
    assert 0 < rest <= 1


@pytest.mark.parametrize("gpu", ["H200", "H100"])
def test_one_kernel_timed_twice_is_compared_with_itself_only(gpu) -> None:
    noise = climb_records.noise(gpu)
    assert len(noise) == 38  # tuned is exp2 in all 20 cells, attention() is a rung with its tiles in 18
    assert all(0.9 < ratio < 1.1 for ratio in noise)


@pytest.mark.parametrize("gpu", ["H200", "H100"])
@pytest.mark.parametrize("cell", [GRID[0], GRID[-1], (64, True, 512)])
def test_the_stairs_are_drawn_at_every_shape_and_name_the_rung_that_attention_launches(cell, gpu) -> None:
    d, causal, n = cell
    png, words = render(climb.stairs, d=d, mask="causal" if causal else "none", n=n, gpu=gpu, size=(4, 2))
    assert png.startswith(b"\x89PNG")
    assert climb.best(*cell)[0].name in words


def test_a_step_that_does_nothing_is_up_in_about_half_of_ten_cells() -> None:
    up = {row[0]: row[-2:] for row in climb.ten_cells().rows}
    assert up["tuned"] == [2, 5]
    assert up["overlap"] == [5, 10]


def test_a_gain_that_one_kernel_timed_twice_has_too_is_marked() -> None:
    ax = Figure().subplots()
    climb.stairs(ax, 128, "none", 4096)
    factors = [text.get_text() for text in ax.texts if "×" in text.get_text()]
    assert len(factors) == len(climb.RUNGS) - 1
    within = max(abs(ratio - 1) for ratio in climb_records.noise())
    assert all(("≈" in words) == (abs(float(words.strip("≈ ×")) - 1) < within) for words in factors)


@pytest.mark.kernel
def test_tma_frees_registers_for_one_more_program_at_the_large_tile() -> None:
    found = {pair.tile: pair.resident for pair in climb.pairs()}
    assert found["64 × 128, 4 warps, 2 stages"] == (2, 3)
    assert found["64 × 128, 4 warps, 3 stages"] == (2, 2)


@pytest.mark.kernel
def test_the_assembler_guards_each_power_unless_small_results_may_be_zero() -> None:
    guarded, plain = (assembly.assembled(name) for name in ("ex2.approx.f32", "ex2.approx.ftz.f32"))
    assert [line.split()[0] for line in plain] == ["MUFU.EX2"]
    assert len(guarded) == 4
    with pytest.raises(assembly.CompileError, match=r"^the assembler refuses 'no\.such'"):
        assembly.assembled("no.such")


@pytest.mark.kernel
def test_the_assembler_lifts_the_wait_for_pv_over_the_softmax_unless_a_barrier_holds_it() -> None:
    rows = {(row[0], row[1]): row[2] for row in climb.order().rows}
    assert rows["overlap", "PTX"].endswith("wait(0)")
    assert rows["overlap", "machine code"].index("wait(0)") < rows["overlap", "machine code"].index("EX2")
    for held in ("late wait", "lecture 12's"):
        order = rows[held, "machine code"]
        assert order.index("wait(1)") < order.index("EX2") < order.index("wait(0)")

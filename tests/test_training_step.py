"""What a training step multiplies, what a faster attention gains, and where the record's attention overtakes the matmuls."""

import math

import pytest

from course_lib.figures import capstone, capstone_steps
from course_lib.model import training_step


def test_operations_cross_where_the_page_and_the_book_say() -> None:
    assert training_step.crossing(1024) == 12 * 1024
    assert training_step.crossing(384, causal=False) == 6 * 384
    assert training_step.crossing(512, gated=True, causal=False) == 8 * 512
    assert training_step.crossing(1024, recomputed=True) == pytest.approx(12 * 1024 * 6 / 7)
    assert training_step.block_flops(1) == 24
    assert training_step.attention_flops(64, 100) == 2 * 64 * 100


def test_amdahl() -> None:
    assert training_step.gain(1 / 7, 2) == pytest.approx(14 / 13)
    assert training_step.gain(0.5, 1e9) == pytest.approx(2)


def made_up(t: int, attention: float, seconds: float = 3.0) -> capstone_steps.Step:
    return capstone_steps.Step(64, 1, t, 65_536, "attention", True, seconds + attention, attention, 1.0, 1)


def test_a_crossing_lies_between_the_recorded_contexts(monkeypatch) -> None:
    monkeypatch.setattr(capstone_steps, "steps", lambda *_: [made_up(1000 * 2**i, 0.25 * 2**i) for i in range(6)])
    assert capstone_steps.crossing() == pytest.approx(4000)
    monkeypatch.setattr(capstone_steps, "steps", lambda *_: [made_up(1000, 0.1), made_up(2000, 0.2)])
    assert math.isnan(capstone_steps.crossing())


def test_a_gap_is_the_largest_of_its_kind(monkeypatch) -> None:
    curves = {("SDPA", 0): 1.0, ("SDPA", 1): 1.2, ("SDPA", 2): 1.1, ("SDPA flash", 0): 1.03}
    curves |= {("attention", seed): curves["SDPA", seed] + 0.05 for seed in range(3)}
    monkeypatch.setattr(capstone, "losses", lambda name, seed=0, part="": {0: 4.4, 99: curves[name, seed]})
    monkeypatch.setattr(capstone, "backends", lambda: ["SDPA flash", "plain"])
    assert [capstone.last(kind) for kind in range(3)] == pytest.approx([0.2, 0.03, 0.05])


def test_what_was_not_recorded_is_named() -> None:
    with pytest.raises(ValueError, match="SDPA with seed 77 was not recorded; choose one of"):
        capstone.losses("SDPA", 77)
    with pytest.raises(ValueError, match="attention was not recorded at 77 tokens and a width of 1024; choose one of"):
        capstone_steps.step("attention", 77)

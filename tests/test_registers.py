"""The register file's arithmetic: the pairs that FlashAttention-3 uses, the hardware's limits, and the compiler's agreement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import runtime
from course_lib.instruments import compiled
from course_lib.model import registers


def test_the_pairs_of_flash_attention_3() -> None:
    assert registers.plan(2, 24) == (24, 240)
    assert registers.plan(3, 32) == (32, 160)
    assert registers.plan(1, 24) == (24, 256)
    assert [registers.at_start(n) for n in (1, 2, 3, 4)] == [256, 256, 168, 128]


def test_only_two_matmuls_in_flight_need_what_the_producer_gives_away() -> None:
    for d, consumers in ((64, 3), (128, 2)):
        one, two = (sum(registers.tiles(d, in_flight=n).values()) + 20 for n in (1, 2))
        assert one <= registers.at_start(consumers + 1) < two


@given(st.integers(1, 7), st.integers(3, 32).map(lambda n: 8 * n))
def test_a_plan_keeps_to_the_limits_and_no_better_one_does(consumers, producer) -> None:
    pool = registers.at_start(consumers + 1) * (consumers + 1)
    try:
        plan = registers.plan(consumers, producer)
    except ValueError:
        assert pool - producer < 24 * consumers
        return
    assert plan.consumer % 8 == 0
    assert 24 <= plan.consumer <= 256
    assert producer + consumers * plan.consumer <= pool <= 512
    assert plan.consumer == 256 or producer + consumers * (plan.consumer + 8) > pool


def test_tiles() -> None:
    assert registers.tiles(128, in_flight=1) == {"O": 64, "S": 64}
    assert registers.tiles(128, in_flight=2) == {"O": 64, "S": 64, "P": 32}
    assert sum(registers.tiles(128, in_flight=3).values()) == 224
    assert registers.tiles(64, 256, 1, 128) == {"O": 64, "S": 256}
    assert registers.tiles(1, 1, 2, 16) == {"O": 1, "S": 1, "P": 1}  # whole registers, and none takes no place


@pytest.mark.skipif(runtime.mode() == "no kernels", reason="no compiler here")
def test_what_does_not_fit_spills() -> None:
    """The solver says what the compiler finds: 3 consumers at d = 64 have 160, and two scores and P are 192."""
    import torch

    from course_lib.kernels.hopper import THREE_MATMULS, forward

    q = torch.empty(1, 32, 1024, 64, dtype=torch.bfloat16, device="meta")
    two, three = compiled.inspect_all([(forward, (rung, q, q, q), {}) for rung in ("overlap", THREE_MATMULS)])
    most = registers.plan(3, 32).consumer
    for report, in_flight in ((two, 2), (three, 3)):
        assert (report.spilled_bytes > 0) == (sum(registers.tiles(64, in_flight=in_flight).values()) > most)


def test_resident_programs_are_what_registers_and_shared_memory_leave() -> None:
    assert registers.resident_programs(128, 174, 57_344, 228) == {
        "registers": 2,
        "shared": 4,
    }  # 176 · 128 = 22,528 of 65,536
    assert registers.resident_programs(128, 126, 32_768, 228) == {"registers": 4, "shared": 6}

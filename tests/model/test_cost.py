"""The cost model: closed forms against sums over blocks, the papers' numbers, rooflines, registers, a training step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib import data
from course_lib.instruments import compiled
from course_lib.model import cost, registers, roofline, training_step


def test_the_reported_memory_reproduces_exactly() -> None:
    for row in data.reported("attention_gpu"):
        for algorithm, column in (("standard", "pytorch_mb"), ("flash", "flash_mb")):
            assert cost.attention_memory(row["n"], row["d"], "fp32", algorithm) / 2**20 == row[column]


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 600))
def test_no_algorithm_beats_the_compulsory_traffic(n: int, d: int, block: int) -> None:
    least = cost.compulsory_traffic(n, d).total_bytes
    assert cost.flash_v2_traffic(n, d, block).total_bytes >= least
    assert cost.flash_v1_traffic(n, d, block).total_bytes > least
    assert cost.standard_attention_traffic(n, d, block_m=block).total_bytes > least
    if block >= n:
        assert cost.flash_v2_traffic(n, d, block).total_bytes == least


SIZE = st.integers(1, 90)


@given(SIZE, SIZE, SIZE, st.booleans(), st.integers(1, 9))
def test_the_closed_forms_are_the_sums_over_all_blocks(n, block_m, block_n, causal, split) -> None:
    blocks = []  # rows, keys they meet, blocks of keys they meet
    for start in range(0, n, block_m):
        rows = min(block_m, n - start)
        seen = [j for j in range(0, n, block_n) if not causal or j < start + rows]
        blocks.append((rows, sum(min(block_n, n - j) for j in seen), len(seen)))
    each = -(-len(blocks) // split)
    programs = [max(keys for _, keys, _ in blocks[i : i + each]) for i in range(0, len(blocks), each)]
    visits = sum(r * b for r, _, b in blocks)
    v1 = cost.flash_v1_traffic(n, 3, block_n, block_m=block_m, causal=causal, split=split)
    assert v1.reads == {"Q": 12 * visits, "K": 12 * sum(programs), "V": 12 * sum(programs)} | v1.writes
    assert v1.writes == {"O": 12 * visits, "l": 4 * visits, "m": 4 * visits}
    v2 = cost.flash_v2_traffic(n, 3, block_m, block_n=block_n, causal=causal)
    assert v2.reads["K"] == v2.reads["V"] == 12 * sum(keys for _, keys, _ in blocks)
    found = cost.attention_operations("V2", n, 3, block_m, block_n, causal)
    assert found.exp == sum(r * keys for r, keys, _ in blocks) + visits
    backward = cost.backward_traffic("two passes", n, 3, block_m, block_n, causal=causal)
    assert backward.reads["Q"] == 12 * (visits + n)
    assert backward.reads["K"] == 12 * (n + sum(keys for _, keys, _ in blocks))


@pytest.mark.parametrize("n", [10**9, 10**400])
def test_the_closed_forms_are_exact_at_any_length_and_as_fast(n) -> None:
    assert cost.flash_v1_traffic(n, 4, 1, block_m=1).reads["Q"] == 16 * n * n
    assert cost.flash_v2_traffic(n, 4, 1, block_n=1, causal=True).reads["K"] == 16 * (n * (n + 1) // 2)
    assert cost.attention_operations("V1", n, 4, 1, 1, causal=True).divide == n * (n + 1) // 2
    assert cost.backward_traffic("outer loop over K/V", n, 4, 1, 1, causal=True).reads["Q"] == 16 * (n * (n + 1) // 2)
    assert cost.tiled_matmul_traffic(n, n, n, 3, 3).reads["A"] == 4 * n * n * -(-n // 3)
    assert cost.flash_v1_blocks(12 * n + 1, 3) == (3, n + 1)


def test_block_sizes_of_the_paper() -> None:
    assert [cost.flash_v1_blocks(sram, 64) for sram in (24_576, 24_577, 1000)] == [(64, 96), (64, 97), (4, 4)]


# --- GPUs and their rooflines ---


def test_an_a100_as_the_papers_give_it_and_every_other_gpu_sound() -> None:
    a100 = data.gpu("A100-40")
    assert a100.sram_bytes == 108 * 192 * 1024
    assert a100.sram_bytes_per_s == pytest.approx(19e12, rel=0.05)
    assert a100.ridge("fp16") == pytest.approx(312e12 / 1.555e12)
    for gpu in data.gpus().values():
        assert gpu.shared_kib_per_block <= gpu.shared_kib_per_sm <= gpu.l1_kib_per_sm
        assert gpu.sram_bytes < gpu.hbm_gb * 1e9
        ridge, peak = gpu.ridge("fp16"), gpu.flops_per_s("fp16")
        assert roofline.attainable(gpu, ridge * 2, "fp16") == peak
        assert roofline.attainable(gpu, ridge / 2, "fp16") == pytest.approx(peak / 2)
        assert roofline.time_on(gpu, ridge * 100.5, 100, "fp16").bound == "compute"
        assert roofline.time_on(gpu, ridge * 99.5, 100, "fp16").bound == "memory"


def test_the_reported_intensities_reproduce() -> None:
    for row in data.reported("intensity"):
        flops = cost.attention_flops(row["n"], row["d"])
        standard = roofline.intensity(flops, cost.standard_attention_traffic(row["n"], row["d"], "fp32"))
        flash = roofline.intensity(flops, cost.compulsory_traffic(row["n"], row["d"], "fp32"))
        assert (f"{standard:.1f}", f"{flash:.0f}") == (f"{row['standard']:.1f}", f"{row['flash']:.0f}")


# --- the register file ---


def test_the_pairs_of_flash_attention_3() -> None:
    assert [registers.plan(*x) for x in ((2, 24), (3, 32), (1, 24))] == [(24, 240), (32, 160), (24, 256)]
    assert [registers.at_start(n) for n in (1, 2, 3, 4)] == [256, 256, 168, 128]
    assert registers.tiles(128, in_flight=2) == {"O": 64, "S": 64, "P": 32}
    assert registers.tiles(64, 256, 1, 128) == {"O": 64, "S": 256}
    # 176 · 128 = 22,528 of 65,536
    assert registers.resident_programs(128, 174, 57_344, 228) == {"registers": 2, "shared": 4}


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


@pytest.mark.kernel
@pytest.mark.weekly
@pytest.mark.parametrize(("d", "consumers", "producer"), [(64, 3, 32), (128, 2, 24)])
def test_what_does_not_fit_the_registers_spills(d, consumers, producer) -> None:
    """The solver says what the compiler finds: at d = 64, 3 consumers have 160, and two scores and P are 192."""
    from course_lib.kernels.hopper import THREE_MATMULS, forward

    q = torch.empty(1, 32, 1024, d, dtype=torch.bfloat16, device="meta")
    reports = compiled.inspect_all([(forward, (rung, q, q, q), {}) for rung in ("overlap", THREE_MATMULS)])
    most = registers.plan(consumers, producer).consumer - (20 if d == 128 else 0)
    for report, in_flight in zip(reports, (2, 3)):
        assert (report.spilled_bytes > 0) == (sum(registers.tiles(d, in_flight=in_flight).values()) > most)


# --- a training step ---


def test_operations_cross_where_the_page_and_the_book_say() -> None:
    assert training_step.crossing(1024) == 12 * 1024
    assert training_step.crossing(512, gated=True, causal=False) == 8 * 512
    assert training_step.crossing(1024, recomputed=True) == pytest.approx(12 * 1024 * 6 / 7)
    assert training_step.gain(1 / 7, 2) == pytest.approx(14 / 13)


BAD = [
    (lambda: cost.attention_operations("V3", 8, 8, 4, 4), "order is 'V3'; choose one of 'V1', 'running', 'V2'"),
    (lambda: cost.backward_traffic("inside out", 4, 2, 2, 2), "order is 'inside out'"),
    (lambda: data.gpu("T4").flops_per_s("bf16"), "the T4 has no bf16 tensor-core rate"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()

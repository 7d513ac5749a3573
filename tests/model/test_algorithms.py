"""The algorithms on the simulated memory: right against float64, and counted equal to the closed forms, tensor by tensor."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import algorithms
from course_lib.model import cost, reference
from course_lib.model.memory import SRAMOverflow

SIZE = st.integers(1, 40)
BLOCK = st.none() | st.integers(1, 45)
DTYPES = [torch.float16, torch.float32, torch.float64]


@settings(max_examples=60)
@given(SIZE, SIZE, st.integers(1, 20), st.integers(1, 20), BLOCK, BLOCK, st.sampled_from(DTYPES))
def test_standard_attention(nq, nk, d, dv, block_m, block_n, dtype) -> None:
    q, k, v = torch.randn(nq, d).to(dtype), torch.randn(nk, d).to(dtype), torch.randn(nk, dv).to(dtype)
    run = algorithms.standard_attention(q, k, v, block_m=block_m, block_n=block_n)
    tolerance = {torch.float16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(run.output.double(), reference.attention(q, k, v), atol=tolerance, rtol=tolerance)
    assert run.memory.traffic() == cost.standard_attention_traffic(nq, d, dtype, nk, dv, block_m)
    assert run.memory.flops() == cost.attention_flops(nq, d, nk, dv)
    assert run.memory.resident_bytes == 0


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 2), (8, 8, 8), (7, 1, 16)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_standard_matmul(m, n, k, dtype) -> None:
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    run = algorithms.standard_matmul(a, b)
    torch.testing.assert_close(run.output.double(), a.double() @ b.double(), atol=2e-2, rtol=2e-2)
    assert run.memory.traffic() == cost.tiled_matmul_traffic(m, n, k, 1, 1, dtype)  # tiles of one number
    assert run.memory.flops().matmul == 2 * m * n * k


@given(st.integers(1, 60), st.integers(1, 70))
def test_softmax_passes(n, block) -> None:
    x, v = torch.randn(n, dtype=torch.float64) * 4, torch.randn(n, 3, dtype=torch.float64)
    oracle = reference.softmax(x)
    offline, online = algorithms.offline_softmax(x, block), algorithms.online_softmax(x, block)
    fused = algorithms.softmax_average(x, v, block)
    for run, passes in ((offline, 3), (online, 2)):
        torch.testing.assert_close(run.output, oracle)
        assert run.memory.traffic().reads == {"x": passes * n * 8}
        assert run.memory.traffic().writes == {"y": n * 8}
    torch.testing.assert_close(fused.output, oracle @ v)
    assert fused.memory.traffic().reads == {"x": n * 8, "V": n * 3 * 8}
    assert fused.memory.traffic().writes == {"O": 3 * 8}


@pytest.mark.parametrize("function", [algorithms.offline_softmax, algorithms.online_softmax])
@pytest.mark.parametrize(("n", "block"), [(2_500, 1), (70_000, 1_000)])
def test_halves_are_summed_in_float32(function, n, block) -> None:
    """In fp16 the sum would stall at 2048, and beyond 65,504 be infinite."""
    x = torch.zeros(n, dtype=torch.float16)
    y = function(x, block).output
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.double(), reference.softmax(x), rtol=1e-3, atol=6e-8)


ONE_HEAD = [torch.randn(8, 4) for _ in range(3)]
LIMITED = {
    "standard_attention": ONE_HEAD,
    **{
        name: [*ONE_HEAD, 2, 2]
        for name in (
            "lite_attention", "online_attention", "flash_v1", "flash_running", "flash_v2", "linear_v1", "linear_v2",
        )
    },
    **{
        name: [*ONE_HEAD, torch.randn(8, 4), torch.randn(8), torch.randn(8, 4), 2, 2]
        for name in ("backward_over_kv", "backward_over_q", "backward_two_passes")
    },
    "standard_matmul": [torch.randn(8, 4), torch.randn(4, 8)],
    "tiled_matmul": [torch.randn(8, 4), torch.randn(4, 8), 2, 2, 2],
    "offline_softmax": [torch.randn(8), 4],
    "online_softmax": [torch.randn(8), 4],
    "softmax_average": [torch.randn(8), torch.randn(8, 3), 4],
    "split_decode": [*ONE_HEAD, 2, 2],
}  # fmt: skip


def test_each_algorithm_is_limited_below() -> None:
    assert set(LIMITED) == set(algorithms.__all__) - {"Gradients", "Run", "blocks"}


@pytest.mark.parametrize("name", LIMITED)
def test_each_algorithm_keeps_to_the_sram_that_it_is_given(name) -> None:
    algorithm, arguments = getattr(algorithms, name), LIMITED[name]
    peak = algorithm(*arguments).memory.peak_bytes
    assert algorithm(*arguments, sram_bytes=peak).memory.peak_bytes == peak
    with pytest.raises(SRAMOverflow, match=r"needs .* B, but SRAM has .* B and holds .* B too many"):
        algorithm(*arguments, sram_bytes=peak - 1)


def test_a_row_that_is_all_masked_is_zeros_in_each_version() -> None:
    x, v = torch.full((5,), -torch.inf), torch.ones(5, 2)
    assert algorithms.offline_softmax(x, 2).output.tolist() == [0] * 5
    assert algorithms.online_softmax(x, 2).output.tolist() == [0] * 5
    assert algorithms.softmax_average(x, v, 2).output.tolist() == [0, 0]


def test_sram_limits_the_blocks_and_not_the_length() -> None:
    q, k, v = (torch.randn(64, 16) for _ in range(3))
    with pytest.raises(SRAMOverflow, match=r"K\[0:64, 0:16\] needs 4,096 B, but SRAM has 6,000 B and holds Q\[0:64"):
        algorithms.standard_attention(q, k, v, sram_bytes=6000)
    run = algorithms.standard_attention(q, k, v, block_m=8, block_n=8, sram_bytes=6000)
    assert run.memory.peak_bytes <= 6000
    small = algorithms.online_softmax(torch.randn(10_000), block=64, sram_bytes=512)
    assert small.memory.peak_bytes == 256


Q, K, V = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5, 2)


@pytest.mark.parametrize(
    ("q", "k", "v", "options", "error", "message"),
    [
        (Q, K[:, :2], V, {}, ValueError, "q has head dimension 3 but k has 2"),
        (Q, K, V[:4], {}, ValueError, "k has 5 rows but v has 4"),
        (Q.half(), K, V, {}, TypeError, "q is torch.float16 but k is torch.float32"),
        (Q * torch.nan, K, V, {}, ValueError, "q contains NaN"),
        (Q, K, V, {"block_m": 0}, ValueError, "block_m is 0; pass a whole number of at least 1"),
    ],
)
def test_bad_attention_input(q, k, v, options, error, message) -> None:
    with pytest.raises(error, match=message):
        algorithms.standard_attention(q, k, v, **options)


def test_bad_matmul_and_softmax_input() -> None:
    with pytest.raises(ValueError, match="a has 3 columns but b has 2 rows"):
        algorithms.standard_matmul(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(TypeError, match=r"a is torch.float32 but b is torch.float64"):
        algorithms.standard_matmul(torch.ones(2, 3), torch.ones(3, 2).double())
    with pytest.raises(ValueError, match=r"x has shape \[1, 2\]"):
        algorithms.offline_softmax(torch.ones(1, 2), 1)
    with pytest.raises(ValueError, match="block is 0"):
        algorithms.online_softmax(torch.ones(2), 0)
    with pytest.raises(ValueError, match="x has 2 scores but v has 3 rows"):
        algorithms.softmax_average(torch.ones(2), torch.ones(3, 1), 1)

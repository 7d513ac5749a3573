"""The algorithms on the simulated memory: right against float64, and counted equal to the closed forms, tensor by tensor."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import algorithms
from course_lib.model import cost, reference

SIZE = st.integers(1, 40)
BLOCK = st.none() | st.integers(1, 45)
DTYPES = [torch.float16, torch.float32, torch.float64]
ORDERS = {"V1": algorithms.flash_v1, "running": algorithms.flash_running, "V2": algorithms.flash_v2}
BACKWARD = {
    "outer loop over K/V": algorithms.backward_over_kv,
    "outer loop over Q": algorithms.backward_over_q,
    "two passes": algorithms.backward_two_passes,
}


@settings(max_examples=30)
@given(SIZE, SIZE, st.integers(1, 20), st.integers(1, 20), BLOCK, BLOCK, st.sampled_from(DTYPES))
def test_standard_attention(nq, nk, d, dv, block_m, block_n, dtype) -> None:
    q, k, v = torch.randn(nq, d).to(dtype), torch.randn(nk, d).to(dtype), torch.randn(nk, dv).to(dtype)
    run = algorithms.standard_attention(q, k, v, block_m=block_m, block_n=block_n)
    tolerance = {torch.float16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(run.output.double(), reference.attention(q, k, v), atol=tolerance, rtol=tolerance)
    assert run.memory.traffic() == cost.standard_attention_traffic(nq, d, dtype, nk, dv, block_m)
    assert run.memory.flops() == cost.attention_flops(nq, d, nk, dv)
    assert run.memory.resident_bytes == 0


@settings(max_examples=30)
@given(
    st.integers(1, 24), st.integers(1, 12), st.integers(1, 28), st.integers(1, 28), st.booleans(), st.sampled_from(DTYPES),
)  # fmt: skip
def test_each_loop_order_is_attention_and_is_counted_as_the_formulas_say(n, d, block_m, block_n, causal, dtype) -> None:
    q, k, v = (torch.randn(n, d).to(dtype) for _ in range(3))
    oracle = reference.attention(q, k, v, causal=causal)
    tolerance = {torch.float16: 5e-3, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    for order, algorithm in ORDERS.items():
        output, memory = algorithm(q, k, v, block_m, block_n, causal)
        torch.testing.assert_close(output.double(), oracle, atol=tolerance, rtol=tolerance)
        assert output.dtype == dtype
        if order == "V1":
            traffic = cost.flash_v1_traffic(n, d, block_n, dtype, block_m=block_m, causal=causal)
        else:
            traffic = cost.flash_v2_traffic(n, d, block_m, dtype, block_n=block_n, causal=causal, lse=order == "V2")
        assert memory.traffic() == traffic
        assert memory.operations() == cost.attention_operations(order, n, d, block_m, block_n, causal)
        assert memory.resident_bytes == 0
    s = q.double() @ k.double().T / d**0.5
    s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf) if causal else s
    torch.testing.assert_close(memory.tensors["L"].data.double(), s.logsumexp(1), atol=tolerance, rtol=tolerance)


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 35), st.integers(1, 35))
def test_the_linear_orders(n, d, block_m, block_n) -> None:
    q, k, v = (torch.randn(n, d, dtype=torch.float64) for _ in range(3))
    v1, v2 = algorithms.linear_v1(q, k, v, block_m, block_n), algorithms.linear_v2(q, k, v, block_m, block_n)
    for run in (v1, v2):
        torch.testing.assert_close(run.output, q @ k.T @ v)
    assert v1.memory.traffic() == cost.flash_v1_traffic(n, d, block_n, "fp64", softmax=False)
    assert v2.memory.traffic() == cost.flash_v2_traffic(n, d, block_m, "fp64")
    for run, times in ((v1, -(-n // block_n)), (v2, 1)):  # how often the output is written, block by block
        assert sum(event.op == "store" for event in run.memory.trace) == times * -(-n // block_m)


@settings(max_examples=20)
@given(
    st.integers(1, 30), st.integers(1, 10), st.integers(1, 35), st.integers(1, 35), st.booleans(), st.sampled_from(DTYPES),
)  # fmt: skip
def test_every_backward_gives_the_gradients_and_moves_what_the_formula_says(
    n, d, block_m, block_n, causal, dtype
) -> None:
    q, k, v, do = (torch.randn(n, d).to(dtype) for _ in range(4))
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    s = exact[0] @ exact[1].T / d**0.5
    s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf) if causal else s
    o, L = s.softmax(1) @ exact[2], s.logsumexp(1).detach()
    right = torch.autograd.grad(o, exact, do.double())
    tolerance = {torch.float16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-11}[dtype]
    for order, algorithm in BACKWARD.items():
        found = algorithm(q, k, v, o.detach().to(dtype), L, do, block_m, block_n, causal)
        for mine, gradient in zip(found, right):
            assert mine.dtype == dtype
            torch.testing.assert_close(mine.double(), gradient, atol=tolerance, rtol=tolerance)
        assert found.memory.traffic() == cost.backward_traffic(order, n, d, block_m, block_n, dtype, causal=causal)
        assert found.memory.resident_bytes == 0


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
def test_halves_are_summed_in_float32_and_a_masked_row_is_zeros(function) -> None:
    """In fp16 the sum would stall at 2048, and beyond 65,504 be infinite."""
    x = torch.zeros(70_000, dtype=torch.float16)
    y = function(x, 1000).output
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.double(), reference.softmax(x), rtol=1e-3, atol=6e-8)
    assert function(torch.full((5,), -torch.inf), 2).output.tolist() == [0] * 5
    assert algorithms.softmax_average(torch.full((5,), -torch.inf), torch.ones(5, 2), 2).output.tolist() == [0, 0]


ONE_HEAD = [torch.randn(8, 4) for _ in range(3)]
LIMITED = {
    "standard_attention": ONE_HEAD,
    **{
        name: [*ONE_HEAD, 2, 2]
        for name in (
            "lite_attention", "online_attention", "flash_v1", "flash_running", "flash_v2", "linear_v1", "linear_v2",
            "split_decode",
        )
    },
    **{
        name: [*ONE_HEAD, torch.randn(8, 4), torch.randn(8), torch.randn(8, 4), 2, 2]
        for name in ("backward_over_kv", "backward_over_q", "backward_two_passes")
    },
    "tiled_matmul": [torch.randn(8, 4), torch.randn(4, 8), 2, 2, 2],
    "online_softmax": [torch.randn(8), 4],
    "softmax_average": [torch.randn(8), torch.randn(8, 3), 4],
}  # fmt: skip


Q, K, V, X, ROW = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5, 2), torch.ones(4, 2), torch.ones(4)


def test_sequences_of_two_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"q has shape \[4, 2\] but k has \[3, 2\]"):
        algorithms.flash_v1(X, X[:3], X[:3], 2, 2)

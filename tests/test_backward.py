"""The backward pass in three loop orders: gradients against float64, bytes by formula, simulated memory and kernels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rule import COUNTS

from course_lib import algorithms, attention, runtime
from course_lib.instruments.traffic import traffic
from course_lib.kernels import portable
from course_lib.model import cost

ORDERS = {
    "outer loop over K/V": algorithms.backward_over_kv,
    "outer loop over Q": algorithms.backward_over_q,
    "two passes": algorithms.backward_two_passes,
}


def oracle(q, k, v, do, causal):
    """(o, L, dq, dk, dv) in float64 by torch's own differentiation."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    s = q @ k.T / q.shape[1] ** 0.5
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
    o = torch.softmax(s, dim=-1) @ v
    gradients = torch.autograd.grad(o, [q, k, v], do.double())
    return (o.detach(), torch.logsumexp(s, dim=-1).detach(), *gradients)


@settings(max_examples=40)
@given(
    st.integers(1, 30), st.integers(1, 10), st.integers(1, 35), st.integers(1, 35), st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)  # fmt: skip
def test_every_order_gives_the_gradients_and_moves_what_the_formula_says(n, d, block_m, block_n, causal, dtype) -> None:
    q, k, v, do = (torch.randn(n, d).to(dtype) for _ in range(4))
    o, L, *right = oracle(q, k, v, do, causal)
    tolerance = {torch.float16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-11}[dtype]
    for order, algorithm in ORDERS.items():
        found = algorithm(q, k, v, o.to(dtype), L, do, block_m, block_n, causal)
        for mine, gradient in zip(found, right):
            assert mine.dtype == dtype
            torch.testing.assert_close(mine.double(), gradient, atol=tolerance, rtol=tolerance)
        assert found.memory.traffic() == cost.backward_traffic(order, n, d, block_m, block_n, dtype, causal=causal)
        assert found.memory.resident_bytes == 0


def test_which_order_moves_less_depends_on_the_blocks() -> None:
    def total(order, m, n):
        return cost.backward_traffic(order, 4096, 64, m, n, "fp16").total_bytes

    assert total("outer loop over K/V", 64, 64) < total("outer loop over Q", 64, 64)
    assert total("outer loop over K/V", 128, 16) > total("outer loop over Q", 128, 16)
    assert total("two passes", 64, 64) < total("outer loop over K/V", 64, 64)


@pytest.mark.kernel
@COUNTS
@pytest.mark.skipif(runtime.mode() == "GPU", reason="counted with the blocks of interpreter mode")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(64, 16), (100, 32), (129, 40)])
def test_attention_moves_what_the_formulas_say(n, d, causal) -> None:
    q, k, v, do = (torch.randn(1, 1, n, d).half() for _ in range(4))
    options = (causal, 0, d**-0.5, 0.0)
    x = portable.blocks_of("forward", q, causal)
    forward = cost.flash_v2_traffic(n, d, x.block_m, "fp16", block_n=x.block_n, causal=causal, lse=True)
    assert traffic(attention._forward, q, k, v, *options) == forward
    o, L = attention._forward(q, k, v, *options)
    x = portable.blocks_of("key value gradient", q, causal)
    assert x == portable.blocks_of("query gradient", q, causal)
    formula = cost.backward_traffic("two passes", n, d, x.block_m, x.block_n, "fp16", causal=causal)
    counted = traffic(attention._backward, q, k, v, o, L, do, torch.zeros_like(L), *options)
    assert counted.reads.pop("dL") == n * 4  # the gradient of L, which only attention() has
    assert counted == formula

"""The backward kernel for Hopper: gradients against float64, launches alike, who takes it, and what the compiler makes of it."""

import math

import pytest
import torch
from rule import DEVICE, definition, hard, held
from rule import heads as inputs

from course_lib import runtime
from course_lib.attention import attention
from course_lib.instruments import compiled
from course_lib.kernels.hopper import BACKWARD_TILINGS, backward_refusal, launch_backward, launch_matmuls, refusal

pytestmark = pytest.mark.kernel
GPU = runtime.mode() == "GPU"
on_hopper = pytest.mark.skipif(not (GPU and runtime.architecture() == 90), reason="a kernel for Hopper")
# Batch, heads of q, heads of k and v, queries, keys.
SHAPES = [
    (1, 1, 1, 1, 1), (1, 2, 1, 1, 130), (1, 2, 2, 130, 1), (2, 4, 2, 339, 203), (1, 4, 1, 128, 1024), (1, 2, 2, 1024, 128),
    (2, 6, 2, 129, 127), (1, 3, 3, 65, 63), (1, 160, 80, 300, 300),
]  # fmt: skip


def gradients(q, k, v, do, dL, dtype, **options):
    """(o, L, [dq, dk, dv]) by torch in ``dtype``; nothing comes back through rows that see no key."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
    o, L = definition(*leaves, **options)
    blind = torch.isneginf(L.detach())
    back = [do.to(dtype), dL.to(dtype).masked_fill(blind, 0)]
    found = torch.autograd.grad([o, L.masked_fill(blind, 0)], leaves, back)
    return o.detach(), L.detach(), [torch.nan_to_num(x) for x in found]


def check(q, k, v, do=None, causal=False, offset=0, scale=None) -> None:
    assert refusal(q, k, v) == ""
    do = torch.randn(q.shape, device=DEVICE).to(q.dtype) if do is None else do
    dL = torch.randn(q.shape[:3], device=DEVICE)
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    options = {"causal": causal, "offset": offset, "scale": scale}
    o, L, right = gradients(q, k, v, do, dL, torch.float64, **options)
    _, _, usual = gradients(q, k, v, do, dL, q.dtype, **options)
    dL = dL.masked_fill(torch.isneginf(L), math.nan)  # what logaddexp(-inf, -inf) sends back
    ours = launch_backward(q, k, v, o.to(q.dtype), L.float(), do, dL, causal, offset, scale)
    for x, mine, other, exact in zip((q, k, v), ours, usual, right):
        assert (mine.dtype, mine.shape) == (x.dtype, x.shape)
        held(mine, other, exact, what=(list(q.shape), list(k.shape), options))


@on_hopper
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradients(dtype, d, causal) -> None:
    for shape in SHAPES:
        n_q, n_k = shape[3:]
        for offset in (0, n_k - n_q, -5, 30, 2**31 - 1, -(2**31)) if causal else (0,):
            check(*inputs(*shape, d, dtype), causal=causal, offset=offset)


@on_hopper
@pytest.mark.parametrize("d", [40, 64, 72, 96, 128])
def test_hard_scores_and_other_head_sizes(d) -> None:
    for q, k, v in hard(*inputs(1, 4, 2, 150, 333, d, torch.float16)):
        check(q, k, v, scale=0.3 if d == 72 else None)
        check(q, k, v, causal=True, offset=70)


@on_hopper
@pytest.mark.parametrize("d", [56, 128])
def test_strides(d) -> None:
    x = torch.randn(2, 333, 3, 4, d, device=DEVICE).bfloat16()
    q, k, v = (part.transpose(1, 2) for part in x.unbind(2))
    wide = torch.randn(2, 4, 333, d + 1, device=DEVICE).bfloat16()
    columns = torch.randn(2, 4, d, 333, device=DEVICE).bfloat16().mT
    for do in (wide[..., 1:], columns, wide[:1, :1, :1, :1].expand(q.shape)):
        check(q, k, v, do, causal=True)


@on_hopper
def test_batches_that_lie_further_apart_than_32_bits_count() -> None:
    far = 2**31 + 64
    memory = torch.zeros(far + 3 * 200 * 64, dtype=torch.bfloat16, device=DEVICE)
    x = memory.as_strided((2, 3, 200, 64), (far, 200 * 64, 64, 1)).copy_(torch.randn(2, 3, 200, 64, device=DEVICE))
    check(x, x, x, x)


@on_hopper
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_launches_are_alike(d, causal) -> None:
    """More tiles than SMs, so that rings and queue go round: dk and dv are the same bits, dq in any order of its sums."""
    q, k, v = inputs(3, 32, 16, 777, 777, d, torch.float16)
    o, L = attention(q, k, v, causal=causal, return_lse=True)
    arguments = q, k, v, o, L, torch.randn_like(o), torch.randn_like(L), causal, 0, d**-0.5
    first = launch_backward(*arguments)
    for _ in range(100):
        dq, dk, dv = launch_backward(*arguments)
        assert torch.equal(dk, first[1])
        assert torch.equal(dv, first[2])
        torch.testing.assert_close(dq, first[0], atol=2e-3, rtol=2e-3)


@on_hopper
def test_attention_takes_it_unless_told_not_to() -> None:
    x = inputs(1, 4, 2, 300, 300, 128, torch.bfloat16)
    assert backward_refusal(*x, 0.1, 0.0, False) == ""
    assert "in any order" in backward_refusal(*x, 0.1, 0.0, True)
    assert "softcap" in backward_refusal(*x, 0.1, 5.0, False)
    assert "positive scale" in backward_refusal(*x, -0.1, 0.0, False)
    few = inputs(1, 4, 2, 100, 300, 64, torch.bfloat16)
    assert "100 queries or keys are few" in backward_refusal(*few, 0.1, 0.0, False)
    assert "float16 or bfloat16" in backward_refusal(*(y.float() for y in x), 0.1, 0.0, False)
    leaves = [y.requires_grad_() for y in x]
    do = torch.randn_like(x[0])

    def found(**options):
        return torch.autograd.grad(attention(*leaves, causal=True, **options), leaves, do)

    exact = found(deterministic=True)
    for mine, other in zip(found(), exact):
        torch.testing.assert_close(mine, other, atol=2e-2, rtol=2e-2)
    for _ in range(3):
        assert all(map(torch.equal, found(deterministic=True), exact))
    torch.use_deterministic_algorithms(True)
    try:
        assert all(map(torch.equal, found(), exact))
    finally:
        torch.use_deterministic_algorithms(False)


def test_without_hopper_the_portable_kernels_serve() -> None:
    if GPU and runtime.architecture() == 90:
        pytest.skip("this GPU is a Hopper")
    q, k, v = inputs(1, 1, 1, 130, 130, 64, torch.float16)
    assert backward_refusal(q, k, v, 0.1, 0.0, False) == "it needs a Hopper GPU (H100, H200)"


@pytest.mark.parametrize("d", [pytest.param(d, marks=[pytest.mark.weekly] * (d < 128)) for d in BACKWARD_TILINGS])
def test_it_compiles_with_its_accumulators_in_registers(d) -> None:
    """What spills are numbers of a tile, kept while its queries stream by; one accumulator alone would be 128 bytes a thread.

    The assembler's remark of a wait injected is about the accumulators that start from L and delta.
    """
    q, L = torch.empty(1, 8, 1024, d, dtype=torch.bfloat16, device="meta"), torch.empty(8 * 1024, device="meta")
    dq_acc, counter = torch.empty(8 * 1024, d, device="meta"), torch.empty(1, dtype=torch.int32, device="meta")
    report = compiled.inspect(launch_matmuls, q, q, q, q, L, L, dq_acc, counter, 0, 0.1)
    assert report.kernel == "backward_kernel"
    assert report.serialised_wgmma
    assert report.spilled_bytes < 700
    assert report.shared_bytes <= 227 * 1024
    # Each consumer: 24 wgmma for S, dP, dV and dK of a block of queries, 8 for dQ of the block before; three copies of the
    # loop's body, of which the first has no dQ; and dQ of the last block.
    assert report.wgmma == 2 * (24 + 2 * (24 + 8) + 8)

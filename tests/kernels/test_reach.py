"""Tensors whose elements lie more than 2^31 from their first: every offset is right, or the call is refused before a launch."""

import pytest
import torch
from rule import DEVICE, definition

from course_lib import runtime
from course_lib.attention import attention
from course_lib.kernels import loop_orders, softmax
from course_lib.kernels.hopper import forward
from course_lib.kernels.launching import LONGEST, launch
from course_lib.kernels.online import flash_online

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.xdist_group("large"),
]  # one after another: each takes up to 60 GB of a GPU
GPU = runtime.mode() == "GPU"


def far(shape: tuple[int, ...], axis: int, gap: int) -> torch.Tensor:
    """Random numbers, in float16, whose stride along ``axis`` is ``gap``; memory between them is never touched."""
    strides = list(torch.empty(shape, device="meta").stride())
    strides[axis] = gap
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
    x = torch.empty(reach, dtype=torch.float16, device=DEVICE).as_strided(shape, strides)
    return x.copy_(torch.randn(shape, device=DEVICE))


def check_gradients(q, k, v, do, **options) -> None:
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    o, right = attention(*leaves, **options), definition(*exact, **options)[0]
    found = (o, *torch.autograd.grad(o, leaves, do))
    for x, y in zip(found, (right, *torch.autograd.grad(right, exact, do.double()))):
        torch.testing.assert_close(x.double(), y, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("which", ["q", "k", "v", "do"])
@pytest.mark.parametrize(("axis", "gap"), [(0, 2**31 + 1), (1, 2**31), (0, 2**30 + 2**29)])
def test_batches_and_heads_may_lie_anywhere(which, axis, gap) -> None:
    shape = (3, 1, 4, 16) if axis == 0 and gap < 2**31 else (2, 1, 4, 16) if axis == 0 else (1, 2, 4, 16)
    tensors = {name: torch.randn(shape, device=DEVICE).half() for name in ("q", "k", "v", "do")}
    tensors[which] = far(shape, axis, gap)
    check_gradients(**tensors, causal=True)


def test_rows_that_lie_too_far_apart_are_refused_and_of_a_gradient_copied() -> None:
    shape = (1, 1, 3, 16)
    x, wide = torch.randn(shape, device=DEVICE).half(), far(shape, 2, 2**24)
    for arguments in ((wide, x, x), (x, wide, x), (x, x, wide)):
        with pytest.raises(ValueError, match=r"has strides \[.*16777216, 1\]"):
            attention(*arguments)
    check_gradients(x, x, x, far(shape, 2, 2**29))
    single = x[:, :, :1].as_strided((1, 1, 1, 16), (48, 48, 2**40, 1))  # the stride of one row means nothing
    torch.testing.assert_close(attention(single, x, x), attention(x, x, x)[:, :, :1])


def test_lengths_that_32_bits_do_not_count_are_refused() -> None:
    one = torch.zeros(1, 1, 1, 16, device=DEVICE, dtype=torch.float16)
    long = one.expand(1, 1, LONGEST + 1, 16)  # takes no memory
    rows, rank3 = torch.empty(1, LONGEST + 1, device="meta"), torch.empty(1, LONGEST + 1, 1, device="meta")
    for call, message in (
        (lambda: attention(one, long, long), "k has length 1,073,740,801; kernels take at most 1,073,740,800"),
        (lambda: attention(long, one, one), "q has length 1,073,740,801"),
        (lambda: forward("TMA", one, long, long), "k has length 1,073,740,801"),
        (lambda: softmax.online_softmax(rows), "a row of x has length 1,073,740,801"),
        (lambda: loop_orders.flash_v2(rank3, rank3, rank3), "q has length 1,073,740,801"),
        (
            lambda: flash_online(one[0, 0], *[one[0, 0].expand(2**31 - 5, 16)] * 2),
            "its last element is number 2,147,483,643",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_grid_that_no_launch_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="this takes 2,147,483,648 programs, and a launch has at most 2,147,483,647"):
        launch(None, (2**31,), torch.zeros(1, device=DEVICE))


def needs(gigabytes: int) -> pytest.MarkDecorator:
    memory = torch.cuda.mem_get_info()[1] if GPU else 0
    return pytest.mark.skipif(memory < gigabytes * 1e9, reason=f"needs a GPU of {gigabytes} GB")


def check_last_head(q, k, v, do, causal: bool) -> None:
    """Forward and backward of everything; the last head of the last batch against float64."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = attention(*leaves, causal=causal)
    found = [x[-1:, -1:].clone() for x in (o, *torch.autograd.grad(o, leaves, do))]
    exact = [x[-1:, -1:].double().requires_grad_() for x in (q, k, v)]
    right = definition(*exact, causal=causal)[0]
    for x, y in zip(found, (right, *torch.autograd.grad(right, exact, do[-1:, -1:].double()))):
        torch.testing.assert_close(x.double(), y, atol=2e-2, rtol=2e-2)


@needs(60)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_projections_beyond_2_to_the_31(causal) -> None:
    """[B, N, 3, H, D], as one projection makes it: the second batch begins at element 2,162,688,000."""
    packed = torch.randn(2, 11_000, 3, 1024, 64, dtype=torch.bfloat16, device=DEVICE)
    q, k, v = (part.transpose(1, 2) for part in packed.unbind(2))
    check_last_head(q, k, v, torch.randn_like(q), causal)

"""Bytes counted by listening to the interpreter: equal to the simulated memory and the closed forms, to the byte."""

import pytest
import torch
from rule import COUNTS, DEVICE

from course_lib import algorithms, attention, runtime
from course_lib.instruments.traffic import OutOfRangeError, traffic
from course_lib.kernels import portable, tl, triton
from course_lib.kernels.lite import flash_lite
from course_lib.kernels.matmul import tiled_matmul
from course_lib.kernels.online import flash_online
from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average
from course_lib.model import cost

pytestmark = [pytest.mark.kernel, COUNTS]
GPU = runtime.mode() == "GPU"
in_this_process = pytest.mark.skipif(GPU, reason="the kernel lives in this file, which a child process cannot import")
# On a GPU each count starts a child process; a few shapes are enough there.
SHAPES = [(65, 65, 32), (33, 127, 16), (1, 1, 16), (100, 100, 40), (128, 50, 128)][: 2 if GPU else None]
BLOCKS = [(16, 16), (32, 128), (128, 32)][: 1 if GPU else None]


@pytest.mark.parametrize(("block_m", "block_n"), BLOCKS)
@pytest.mark.parametrize(("n", "n_k", "d"), SHAPES)
def test_attention_kernels_move_what_the_model_says(n, n_k, d, block_m, block_n) -> None:
    dtype = torch.float16 if block_m < block_n else torch.float32
    q, k, v = (torch.randn(rows, d).to(dtype) for rows in (n, n_k, n_k))
    predicted = cost.flash_v2_traffic(n, d, block_m, dtype, n_k)
    for kernel, algorithm in ((flash_lite, algorithms.lite_attention), (flash_online, algorithms.online_attention)):
        assert traffic(kernel, *(x.to(DEVICE) for x in (q, k, v)), block_m, block_n) == predicted
        assert algorithm(q, k, v, block_m, block_n).memory.traffic() == predicted


@pytest.mark.skipif(GPU, reason="counted with the blocks of interpreter mode")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(64, 16), (100, 32), (129, 40)])
def test_attention_moves_what_the_formulas_say(n, d, causal) -> None:
    q, k, v, do = (torch.randn(1, 1, n, d).half() for _ in range(4))
    options = (causal, 0, d**-0.5, 0.0)
    x = portable.blocks_of("forward", q, causal)
    forward = cost.flash_v2_traffic(n, d, x.block_m, "fp16", block_n=x.block_n, causal=causal, lse=True)
    assert traffic(attention.launch_forward, q, k, v, *options) == forward
    o, L = attention.launch_forward(q, k, v, *options)
    x = portable.blocks_of("key value gradient", q, causal)
    assert x == portable.blocks_of("query gradient", q, causal)
    formula = cost.backward_traffic("two passes", n, d, x.block_m, x.block_n, "fp16", causal=causal)
    backward = torch.ops.course.attention_backward.default
    counted = traffic(backward, q, k, v, o, L, do, torch.zeros_like(L), *options)
    assert counted.reads.pop("dL") == n * 4  # the gradient of L, which only attention() has
    assert counted == formula


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 64, 64), (70, 33, 50)])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (32, 64, 16)][: 1 if GPU else None], ids=str)
def test_tiled_matmul_moves_what_the_model_says(m, n, k, blocks) -> None:
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    predicted = cost.tiled_matmul_traffic(m, n, k, *blocks[:2], "fp16")
    assert traffic(tiled_matmul, a.to(DEVICE), b.to(DEVICE), *blocks) == predicted
    assert algorithms.tiled_matmul(a, b, *blocks).memory.traffic() == predicted


def test_softmax_kernels_move_the_row_three_two_and_one_times() -> None:
    x, v = torch.randn(3, 100, device=DEVICE), torch.randn(100, device=DEVICE)
    row = 3 * 100 * 4
    for kernel, passes in ((offline_softmax, 3), (online_softmax, 2)):
        counted = traffic(kernel, x, 32)
        assert (counted.reads, counted.writes) == ({"x": passes * row}, {"y": row})
    counted = traffic(softmax_average, x, v, 32)
    assert (counted.reads, counted.writes) == ({"x": row, "V": row}, {"O": 3 * 4})


def test_errors_of_the_launcher_pass_through_and_the_next_call_counts() -> None:
    x = torch.randn(16, 16, device=DEVICE)
    for _ in range(2):
        with pytest.raises(ValueError, match="block_m is 5; pass a power of two of at least 16"):
            traffic(flash_online, x, x, x, block_m=5)
        with pytest.raises(ValueError, match="which launched no kernel"):
            traffic(torch.add, x, x)
        assert traffic(flash_online, x, x, x, 16, 16) == cost.flash_v2_traffic(16, 16, 16)


@triton.jit
def _careless_kernel(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at + shift), mask=at < n)


def careless(x: torch.Tensor, shift: int) -> torch.Tensor:
    y = torch.empty_like(x)
    _careless_kernel[(1,)](x, y, x.numel(), shift, BLOCK=16)
    return y


@in_this_process
@pytest.mark.parametrize(
    ("n", "shift", "where"),
    [
        (16, 4, "4 elements beyond its end"),
        (10, 0, "6 elements beyond its end"),
        (16, -3, "3 elements before its beginning"),
    ],
)
def test_an_access_outside_of_a_tensor_names_it(n, shift, where) -> None:
    assert traffic(careless, torch.ones(16), 0).reads == {"x": 64}
    with pytest.raises(OutOfRangeError, match=f"reads outside of x: up to {where}; check the mask and the strides"):
        traffic(careless, torch.ones(n), shift)


# --- arguments that share memory ---


def test_parts_of_a_packed_projection_and_tensors_of_one_address_are_told_apart() -> None:
    q, k, v = torch.randn(100, 3 * 16, dtype=torch.float16, device=DEVICE).split(16, dim=1)
    assert traffic(flash_online, q, k, v, 32, 16) == cost.flash_v2_traffic(100, 16, 32, "fp16")
    for n, n_k in ((16, 8), (8, 16), (48, 48)):
        x = torch.randn(max(n, n_k), 16, device=DEVICE)
        assert traffic(flash_online, x[:n], x[:n_k], x[:n_k], 16, 16) == cost.flash_v2_traffic(n, 16, 16, "fp32", n_k)


@triton.jit
def _load(ptr, at, mask):
    return tl.load(ptr + at, mask=mask)


@triton.jit
def _many_ways_kernel(x_ptr, y_ptr, keep_ptr, sum_ptr, n, first, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = _load(x_ptr, at + first, at < n)  # a function of its own
    either = tl.where(at % 2 == 0, x_ptr + at, y_ptr + at)
    x += tl.load(either, mask=at < n)  # pointers of two arguments in one load
    keep = tl.load(keep_ptr + at, mask=at < n, other=0)
    tl.atomic_add(sum_ptr, tl.sum(x))
    tl.store(y_ptr + at, tl.where(keep, x, 0.0), mask=at < n)


def many_ways(x: torch.Tensor, y: torch.Tensor, first: int = 0) -> torch.Tensor:
    total, keep = torch.zeros(1), torch.ones(len(x), dtype=torch.bool)
    _many_ways_kernel[(1,)](x, y, keep, total, len(x), first, BLOCK=16)
    return total


@in_this_process
def test_every_access_is_booked_on_the_argument_that_it_came_through_also_in_place() -> None:
    n = 12
    expected = {"x": 4 * (n + n // 2), "y": 4 * n // 2, "keep": n, "sum": 4}, {"y": 4 * n, "sum": 4}
    x, y = torch.arange(12.0), torch.zeros(12)
    for arguments in ((x.clone(), y), (x, x)):
        counted = traffic(many_ways, *arguments)
        assert (counted.reads, counted.writes) == expected
    assert x.tolist() == [2.0 * i for i in range(12)]  # done in place, and seen
    with pytest.raises(OutOfRangeError, match="the kernel reads outside of x: up to 3 elements beyond its end"):
        traffic(many_ways, torch.ones(12), y, 3)


@triton.jit
def _described_kernel(x_desc, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at[:, None] * BLOCK + at[None, :], x_desc.load([0, BLOCK]))


@in_this_process
def test_accesses_through_a_descriptor_are_counted_without_what_lies_outside() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, y = torch.arange(16 * 24.0).reshape(16, 24), torch.zeros(16, 16)
    described = TensorDescriptor.from_tensor(x, [16, 16])
    counted = traffic(lambda: _described_kernel[(1,)](described, y, BLOCK=16))
    assert (counted.reads, counted.writes) == ({"x_desc": 16 * 8 * 4}, {"y": 16 * 16 * 4})
    assert torch.equal(y[:, :8], x[:, 16:])


@pytest.mark.skipif(GPU, reason="there a child process is the normal way")
def test_the_child_process_of_gpu_mode_counts_the_same(monkeypatch) -> None:
    q, k, v = (torch.randn(65, 16) for _ in range(3))
    here = traffic(flash_online, q, k, v, block_m=32, block_n=16)
    monkeypatch.setattr(runtime, "mode", lambda: "GPU")
    assert traffic(flash_online, q, k, v, block_m=32, block_n=16) == here
    with pytest.raises(ValueError, match="which a child process cannot import"):
        traffic(lambda: flash_online(q, k, v))

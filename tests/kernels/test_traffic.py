"""Bytes counted by listening to the interpreter: equal to the simulated memory and the closed forms, to the byte."""

import pytest
import torch
from rule import COUNTS

from course_lib import algorithms, runtime
from course_lib.instruments.traffic import OutOfRangeError, traffic
from course_lib.kernels import tl, triton
from course_lib.kernels.lite import flash_lite
from course_lib.kernels.matmul import tiled_matmul
from course_lib.kernels.online import flash_online
from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average
from course_lib.model import cost

pytestmark = [pytest.mark.kernel, COUNTS]
DEVICE, GPU = runtime.device(), runtime.mode() == "GPU"
# On a GPU each count starts a child process; a few shapes are enough there.
SHAPES = [(1, 1, 16), (64, 64, 64), (65, 65, 32), (100, 100, 40), (33, 127, 16), (128, 50, 128)][: 2 if GPU else None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("block_m", "block_n"), [(16, 16), (64, 64), (32, 128), (128, 32)][: 2 if GPU else None])
@pytest.mark.parametrize(("n", "n_k", "d"), SHAPES)
def test_attention_kernels_move_what_the_model_says(n, n_k, d, block_m, block_n, dtype) -> None:
    q, k, v = (torch.randn(rows, d).to(dtype) for rows in (n, n_k, n_k))
    predicted = cost.flash_v2_traffic(n, d, block_m, dtype, n_k)
    for kernel, algorithm in ((flash_lite, algorithms.lite_attention), (flash_online, algorithms.online_attention)):
        assert traffic(kernel, *(x.to(DEVICE) for x in (q, k, v)), block_m, block_n) == predicted
        assert algorithm(q, k, v, block_m, block_n).memory.traffic() == predicted


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 64, 64), (70, 33, 50), (16, 129, 100)])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (32, 64, 16), (64, 32, 64)][: 1 if GPU else None], ids=str)
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


def test_errors_of_the_launcher_pass_through_and_the_listener_is_gone() -> None:
    from triton.runtime import interpreter

    def watched() -> list[object]:
        builder = vars(interpreter.InterpreterBuilder)
        return [*builder.values(), interpreter.GridExecutor._init_args_hst, interpreter._implicit_cvt]

    x, before = torch.randn(4, 16, device=DEVICE), watched()
    with pytest.raises(ValueError, match="block_m is 5; pass a power of two of at least 16"):
        traffic(flash_online, x, x, x, block_m=5)
    with pytest.raises(ValueError, match="which launched no kernel"):
        traffic(torch.add, x, x)
    assert watched() == before
    traffic(flash_online, x, x, x, 16, 16)
    assert watched() == before


@triton.jit
def _careless_kernel(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at + shift), mask=at < n)


def careless(x: torch.Tensor, shift: int) -> torch.Tensor:
    y = torch.empty_like(x)
    _careless_kernel[(1,)](x, y, x.numel(), shift, BLOCK=16)
    return y


@pytest.mark.skipif(GPU, reason="the careless kernel lives in this file, which a child process cannot import")
def test_an_access_outside_of_a_tensor_names_it() -> None:
    assert traffic(careless, torch.ones(16), 0).reads == {"x": 64}
    with pytest.raises(OutOfRangeError, match="the kernel reads outside of x: up to 4 elements beyond its end"):
        traffic(careless, torch.ones(16), 4)
    for n, shift, where in (
        (16, 4, "4 elements beyond its end"),
        (10, 0, "6 elements beyond its end"),
        (16, -3, "3 elements before its beginning"),
    ):
        message = f"the kernel reads outside of x: up to {where}; check the mask and the strides"
        with pytest.raises(OutOfRangeError, match=message):
            traffic(careless, torch.ones(n), shift)


# --- arguments that share memory ---


def test_parts_of_a_packed_projection_are_told_apart() -> None:
    packed = torch.randn(100, 3 * 16, dtype=torch.float16, device=DEVICE)
    q, k, v = packed.split(16, dim=1)
    assert traffic(flash_online, q, k, v, 32, 16) == cost.flash_v2_traffic(100, 16, 32, "fp16")


@pytest.mark.parametrize(("n", "n_k"), [(16, 8), (8, 16), (48, 48)])
def test_tensors_that_begin_at_one_address_are_told_apart(n, n_k) -> None:
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


@pytest.mark.skipif(GPU, reason="the kernel lives in this file, which a child process cannot import")
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
def _hidden_kernel(addresses_ptr, y_ptr):
    x_ptr = tl.load(addresses_ptr).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr, tl.load(x_ptr))


@pytest.mark.skipif(GPU, reason="the kernel lives in this file, which a child process cannot import")
def test_an_address_that_no_argument_leads_to_is_refused() -> None:
    x, y = torch.ones(1), torch.zeros(1)
    with pytest.raises(OutOfRangeError, match="at an address that none of its arguments leads to"):
        traffic(lambda: _hidden_kernel[(1,)](torch.tensor([x.data_ptr()]), y))


@triton.jit
def _described_kernel(x_desc, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at[:, None] * BLOCK + at[None, :], x_desc.load([0, BLOCK]))


@pytest.mark.skipif(GPU, reason="the kernel lives in this file, which a child process cannot import")
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
    with pytest.raises(ValueError, match="block_n is 7"):
        traffic(flash_online, q, k, v, block_n=7)
    with pytest.raises(ValueError, match="which a child process cannot import"):
        traffic(lambda: flash_online(q, k, v))

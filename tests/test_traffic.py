"""Bytes counted by listening to the interpreter: equal to the simulated memory and the closed forms, to the byte."""

import pytest
import torch
from rule import COUNTS

from course_lib import algorithms, cost, runtime
from course_lib.kernels import tl, triton
from course_lib.kernels.exponential import softmax_weights
from course_lib.kernels.lite import flash_lite
from course_lib.kernels.matmul import tiled_matmul
from course_lib.kernels.online import flash_online
from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average
from course_lib.traffic import OutOfRangeError, operations, traffic

pytestmark = [pytest.mark.kernel, COUNTS]
DEVICE, GPU = runtime.device(), runtime.lane() == "GPU"
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


@pytest.mark.parametrize("folded", [False, True])
def test_powers_of_two_are_counted_as_exponentials(folded) -> None:
    assert operations(softmax_weights, torch.randn(3, 32, device=DEVICE), 0.5, folded)["exp"] == 3 * 32


def test_errors_of_the_launcher_pass_through_and_the_listener_is_gone() -> None:
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    def watched() -> list[object]:
        names = ("create_masked_load", "create_masked_store", "create_exp", "create_fdiv", "create_fmul")
        return [*(getattr(InterpreterBuilder, name) for name in names), GridExecutor._init_args_hst]

    x, before = torch.randn(4, 16, device=DEVICE), watched()
    with pytest.raises(ValueError, match="block_m is 5; pass a power of two of at least 16, for example 64"):
        traffic(flash_online, x, x, x, block_m=5)
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
    with pytest.raises(
        OutOfRangeError,
        match="the kernel reads outside of x: up to 4 elements beyond its end; check the mask and the strides",
    ):
        traffic(careless, torch.ones(16), 4)
    for n, shift, where in (
        (16, 4, "4 elements beyond its end"),
        (10, 0, "6 elements beyond its end"),
        (16, -3, "3 elements before its beginning"),
    ):
        message = f"the kernel reads outside of x: up to {where}; check the mask and the strides"
        with pytest.raises(OutOfRangeError, match=message):
            traffic(careless, torch.ones(n), shift)


@pytest.mark.skipif(GPU, reason="there a child process is the normal way")
def test_the_child_process_of_the_gpu_lane_counts_the_same(monkeypatch) -> None:
    q, k, v = (torch.randn(65, 16) for _ in range(3))
    here = traffic(flash_online, q, k, v, block_m=32, block_n=16)
    monkeypatch.setattr(runtime, "lane", lambda: "GPU")
    assert traffic(flash_online, q, k, v, block_m=32, block_n=16) == here
    with pytest.raises(ValueError, match="block_n is 7"):
        traffic(flash_online, q, k, v, block_n=7)
    with pytest.raises(ValueError, match="which a child process cannot import"):
        traffic(lambda: flash_online(q, k, v))

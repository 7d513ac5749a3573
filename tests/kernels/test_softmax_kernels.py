"""The softmax kernels against the float64 oracle, in whichever mode this machine is."""

import pytest
import torch

from course_lib import runtime
from course_lib.kernels import softmax as library
from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average
from course_lib.model import reference

pytestmark = pytest.mark.kernel
DEVICE = runtime.device()
DTYPES = [torch.float32, torch.float16] + ([torch.bfloat16] if runtime.mode() == "GPU" else [])
# Half a unit in the last place of a probability near 1, and room for float32 sums.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}


def hard_rows(n: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows that wrong kernels do not survive: N(0, 1), ×10, all far below 0, a late spike, equal, partly and fully masked."""
    x = torch.randn(7, n)
    x[1] *= 10
    x[2] -= 1000
    x[3, -1] = 60
    x[4] = 7
    x[5, : n // 2] = -torch.inf
    x[6] = -torch.inf
    return x.to(dtype).to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("n", "block"), [(1, 1), (2, 16), (63, 16), (64, 64), (65, 64), (200, 32), (1000, 128), (1024, 1024)]
)
def test_equal_to_the_oracle(n: int, block: int, dtype: torch.dtype) -> None:
    x, v = hard_rows(n, dtype), torch.randn(n).to(dtype).to(DEVICE)
    oracle = reference.softmax(x)
    for kernel in (offline_softmax, online_softmax):
        torch.testing.assert_close(kernel(x, block).double(), oracle, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    average = softmax_average(x, v, block)
    torch.testing.assert_close(
        average.double(), oracle @ v.double(), atol=4 * TOLERANCE[dtype], rtol=4 * TOLERANCE[dtype]
    )


def test_nan_stays_in_its_row() -> None:
    x = torch.randn(3, 100, device=DEVICE)
    x[1, 50] = torch.nan
    y = online_softmax(x, 32)
    assert bool(y[1].isnan().all())
    assert not bool(y[[0, 2]].isnan().any())


def test_rows_with_a_stride() -> None:
    x = torch.randn(6, 300, device=DEVICE)[::2, 10:110]
    torch.testing.assert_close(online_softmax(x, 32).double(), reference.softmax(x), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: x[0], ValueError, r"x has shape \[8\]; pass a tensor with 2 dimensions"),
        (lambda x: x.T, ValueError, "last dimension must be contiguous"),
    ],
)
def test_bad_input_is_refused_before_a_launch(change, error, message) -> None:
    with pytest.raises(error, match=message):
        online_softmax(change(torch.randn(4, 8, device=DEVICE)), 8)


def test_a_block_that_triton_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="block is 2097152; pass a power of two of at most 1,048,576"):
        online_softmax(torch.randn(2, 8, device=DEVICE), 2**21)


class OutOfResources(Exception):  # noqa: N818 - Triton's name, by which it is known
    pass


class Full:
    """A kernel that does not fit."""

    def __getitem__(self, grid):
        def refuse(*args, **options):
            raise OutOfResources("shared memory")

        return refuse


@pytest.mark.parametrize(("kernel", "call"), [("_online_kernel", online_softmax), ("_average_kernel", softmax_average)])
def test_a_block_that_does_not_fit_is_said_so(kernel, call, monkeypatch) -> None:
    monkeypatch.setattr(library, kernel, Full())
    x = torch.randn(2, 8, device=DEVICE)
    with pytest.raises(ValueError, match="the tiles do not fit this GPU: shared memory"):
        call(x, *[x[0]] * (call is softmax_average), 16)


def test_bf16_is_refused_on_the_interpreter() -> None:
    if runtime.mode() == "GPU":
        online_softmax(torch.ones(2, 8, device=DEVICE, dtype=torch.bfloat16))
    else:
        with pytest.raises(TypeError, match="x is bfloat16, whose arithmetic Triton's interpreter gets wrong"):
            online_softmax(torch.ones(2, 8, dtype=torch.bfloat16))


def test_values_must_match_the_scores() -> None:
    x, v = torch.randn(2, 8, device=DEVICE), torch.randn(7, device=DEVICE)
    with pytest.raises(ValueError, match="rows of 8 scores but v has 7 values"):
        softmax_average(x, v)
    with pytest.raises(TypeError, match=r"x is torch.float32 but v is torch.float16"):
        softmax_average(x, torch.randn(8, device=DEVICE).half())

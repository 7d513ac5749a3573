"""The first kernel of lecture 02: doubled numbers, and nothing written outside."""

import pytest
import torch

from course_lib import runtime
from course_lib.kernels.first import double_kernel

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(("n", "block"), [(10, 4), (8, 4), (1, 16), (100, 1)])
def test_each_number_is_doubled_and_none_beyond_the_last(n: int, block: int) -> None:
    x = torch.randn(n + block, device=runtime.device())
    y = torch.full_like(x, -1)
    double_kernel[(-(-n // block),)](x, y, n, BLOCK=block)
    assert torch.equal(y[:n], 2 * x[:n])
    assert torch.equal(y[n:], torch.full_like(y[n:], -1))

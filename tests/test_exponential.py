"""Softmax weights by e^x and by 2^x against float64, and what the launcher refuses."""

import pytest
import torch

from course_lib import runtime
from course_lib.kernels.exponential import softmax_weights

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("scale", [0.125, 3.0, -1.0])
def test_weights(folded, scale) -> None:
    s = 20 * torch.randn(5, 64, device=runtime.device())
    x = s.double() * scale
    right = torch.exp(x - x.amax(1, keepdim=True))
    torch.testing.assert_close(softmax_weights(s, scale, folded).double(), right, atol=1e-6, rtol=3e-5)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="the number of columns of s is 48"):
        softmax_weights(torch.ones(2, 48, device=runtime.device()), 1.0, True)
    s = torch.ones(2, 64, device=runtime.device())
    with pytest.raises(TypeError, match=r"s has dtype torch.int64"):
        softmax_weights(s.long(), 1.0, True)
    with pytest.raises(TypeError, match=r"s is torch.float16"):
        softmax_weights(s.half(), 1.0, True)
    with pytest.raises(ValueError, match=r"scale is nan; pass a finite number"):
        softmax_weights(s, float("nan"), True)

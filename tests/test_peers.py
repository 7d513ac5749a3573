"""What the kernels are compared with: plain torch against the oracle, and names of torch's own kernels."""

import pytest
import torch

from course_lib.instruments.peers import fused, plain_attention
from course_lib.model import reference


@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_is_the_oracles(causal) -> None:
    q, k, v = (torch.randn(9, 4, dtype=torch.float64) for _ in range(3))
    right = reference.attention(q, k, v, causal=causal)
    torch.testing.assert_close(plain_attention(q, k, v, causal), right)
    torch.testing.assert_close(plain_attention(q[None, None], k[None, None], v[None, None], causal)[0, 0], right)


def test_an_unknown_kernel_is_refused() -> None:
    x = torch.ones(1, 1, 2, 8)
    with pytest.raises(ValueError, match="name is 'FA9'; choose one of 'FA2', 'cuDNN'"):
        fused("FA9", x, x, x, causal=False)
    with pytest.raises(TypeError, match=r"q has dtype torch.float32; pass 16-bit numbers, for example q.half()"):
        fused("FA2", x, x, x, causal=False)
    x = x.half()
    with pytest.raises(
        ValueError, match=r"name is 'cuDNN', which takes no q, k, v of .* torch.float16, on cpu; pass another"
    ):
        fused("cuDNN", x, x, x, causal=False)

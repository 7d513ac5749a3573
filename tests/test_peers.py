"""What the kernels are compared with: plain torch against the oracle."""

import pytest
import torch

from course_lib.instruments.peers import plain_attention
from course_lib.model import reference


@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_is_the_oracles(causal) -> None:
    q, k, v = (torch.randn(9, 4, dtype=torch.float64) for _ in range(3))
    right = reference.attention(q, k, v, causal=causal)
    torch.testing.assert_close(plain_attention(q, k, v, causal), right)
    torch.testing.assert_close(plain_attention(q[None, None], k[None, None], v[None, None], causal)[0, 0], right)

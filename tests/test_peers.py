"""What the kernels are compared with: plain torch against the oracle, and torch's own kernels by name."""

import pytest
import torch
from torch.nn.attention import SDPBackend

from course_lib import runtime
from course_lib.instruments.peers import fused, plain_attention, sdpa_backend
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


@pytest.mark.kernel
def test_torchs_choice_has_a_name() -> None:
    x = torch.ones(1, 1, 64, 16, device=runtime.device(), dtype=torch.float16)
    found = sdpa_backend(x, x, x)
    assert hasattr(SDPBackend, found["backend"])
    assert bool(found["kernel"]) == x.is_cuda

"""What the course's kernels are compared with in speed: plain torch, and the attention that torch brings, with torch's errors."""

import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

FUSED = {"FA2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Attention by torch's own operators, [..., N, d]: S and P go through memory, and S is freed before P V.

    ``causal`` aligns the first query with the first key.
    """
    return torch.softmax(_scores(q, k, causal), dim=-1) @ v


def _scores(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -torch.inf)
    return s


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's own fused attention without a mask, [N, d] or [H, N, d]; which kernel it takes is torch's choice."""
    heads = q.dim() == 3
    q, k, v = (x[None] if heads else x[None, None] for x in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return o[0] if heads else o[0, 0]


def fused(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """One of the fused attentions that torch brings for GPUs, by its name in FUSED; [B, H, N, d], 16-bit.

    ``causal`` aligns the first query with the first key. Raises RuntimeError where torch has no such kernel, as cuDNN's on a CPU.
    """
    with sdpa_kernel(FUSED[name]):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

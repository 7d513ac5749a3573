"""What the course's kernels are compared with in speed: plain torch, and the attention that torch brings."""

import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib import checks

FUSED = {"FA2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
_NO_KERNEL = ("No available kernel", "No viable backend")  # what torch says on a GPU, and on a CPU


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, ndim: int | None = None) -> None:
    """Raise for what is no attention: torch would broadcast it, and read what is on no device. Reads no values."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.readable(name, checks.float_tensor(name, x, ndim=ndim, look_inside=False))
        if x.dim() < 2 or x.shape[:-2] != q.shape[:-2]:
            raise ValueError(
                f"{name} has shape {list(x.shape)} and q {list(q.shape)}; pass [..., N, d], all before N equal"
            )
    checks.same_dtype_and_device(q=q, k=k, v=v)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"q, k and v have shapes {[list(x.shape) for x in (q, k, v)]}; pass q [..., Nq, d], k [..., Nk, d], v [..., Nk, dv]"
        )
    checks.causal_mask(causal)


def _scores(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return (
        s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -torch.inf) if causal else s
    )


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Attention by torch's own operators, [..., N, d]: S and P go through memory, and S is freed before P V.

    ``causal`` aligns the first query with the first key. Raises TypeError or ValueError for shapes that do not match.
    """
    _check(q, k, v, causal)
    return torch.softmax(_scores(q, k, causal), dim=-1) @ v


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's own fused attention without a mask, [N, d] or [H, N, d]; which kernel it takes is torch's choice."""
    _check(q, k, v)
    if q.dim() > 3:
        raise ValueError(f"q has shape {list(q.shape)}; pass [N, d] or [H, N, d], and four dimensions to fused")
    heads = q.dim() == 3
    q, k, v = (x[None] if heads else x[None, None] for x in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return o[0] if heads else o[0, 0]


def fused(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """One of the fused attentions that torch brings for GPUs, by its name in FUSED; [B, H, N, d], 16-bit.

    ``causal`` aligns the first query with the first key. Raises TypeError for other dtypes, ValueError for an unknown name and
    where torch has no such kernel, as cuDNN's on a CPU.
    """
    checks.one_of("name", name, list(FUSED))
    _check(q, k, v, causal, ndim=4)
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise TypeError(f"q has dtype {q.dtype}; pass 16-bit numbers, for example q.half(), and k and v alike")
    try:
        with sdpa_kernel(FUSED[name]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    except RuntimeError as error:
        if not any(words in str(error) for words in _NO_KERNEL):
            raise
        shapes = ", ".join(f"{list(x.shape)}" for x in (q, k, v))
        raise ValueError(
            f"name is {name!r}, which takes no q, k, v of {shapes}, {q.dtype}, on {q.device}; pass another"
        ) from None

"""Lecture 13: what ring_backward is checked by."""

from collections.abc import Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants


def cases() -> Iterable[Case]:
    torch.manual_seed(0)

    def tensors(heads: int, tokens: int, d: int) -> list[torch.Tensor]:
        return [torch.randn(heads, tokens, d).bfloat16() for _ in range(4)]

    yield Case("one rank, one token", (1, *tensors(1, 1, 2)))
    yield Case("one rank, three tokens", (1, *tensors(1, 3, 4)))
    yield Case("two ranks of two tokens", (2, *tensors(1, 4, 4)))
    yield Case("three ranks, two heads", (3, *tensors(2, 6, 4)))
    q, *others = tensors(1, 16, 16)
    yield Case("eight ranks, scores times four", (8, q * 4, *others))


def expected(
    ranks: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor
) -> tuple[str, Any, list[int]]:
    """Autograd's gradients of the whole, in float64."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    s = leaves[0] @ leaves[1].mT / q.shape[2] ** 0.5
    found = torch.autograd.grad(s.softmax(-1) @ leaves[2], leaves, do.double())
    return "", list(zip(*(x.float().chunk(ranks, dim=1) for x in found), strict=True)), [ranks] * ranks


def _backward(rank, ranks, q, k, v, o, L, do, bug):
    kept = k.dtype if bug == "sums" else torch.float32
    q, do, root = q.float(), do.float(), q.shape[-1] ** 0.5
    D = (do * o).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(q, dtype=kept), torch.zeros_like(q, dtype=kept)
    for step in range(ranks):
        s = q @ k.float().mT / root
        local = s.logsumexp(-1) if bug == "local L" else L
        p = (s - local[..., None]).exp()
        ds = p * (do @ v.float().mT - (0 if bug == "no D" else D))
        part = ds @ k.float() / root
        dq = part if bug == "last" else dq + part
        dk = (dk.float() + ds.mT @ q / (1 if bug == "scale" else root)).to(kept)
        dv = (dv.float() + (ds if bug == "ds for p" else p).mT @ do).to(kept)
        if bug == "short" and step == ranks - 1:
            break
        if bug == "stay":
            coming = yield ("post", k, v)
            yield ("wait",)
            k, v = coming
            continue
        coming = yield ("post", k, v, dk, dv)
        if bug != "no wait":
            yield ("wait",)
        k, v, dk, dv = coming
    return dq, dk.float(), dv.float()


WRONG = variants(
    _backward,
    {
        "if each block's weights are divided by that block's own sum: L is that of all keys": "local L",
        "if the ring stops one hop short: dK and dV end with the rank before their own": "short",
        "if dK and dV are rounded to bf16 at each rank: they are sums of many parts": "sums",
        "if D is left out of dS": "no D",
        "if dQ is that of the last block: all blocks add to it": "last",
        "if dK and dV stay while their keys travel: they collect what belongs to other keys": "stay",
        "if dK is not divided by √d": "scale",
        "if dV is made of dS: it is Pᵀ dO": "ds for p",
        "if nobody waits for what has been posted": "no wait",
    },
)

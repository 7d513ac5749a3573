"""Lecture 13: what ring_backward is checked by."""

from collections.abc import Iterable
from typing import Any

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.exercises.tasks.ring_backward import told


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


def expected(ranks: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> dict[str, Any]:
    """Autograd's gradients of the whole, in float64."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    s = leaves[0] @ leaves[1].mT / q.shape[2] ** 0.5
    found = torch.autograd.grad(s.softmax(-1) @ leaves[2], leaves, do.double())
    return told("", list(zip(*(x.float().chunk(ranks, dim=1) for x in found), strict=True)), [ranks] * ranks)


def _backward(rank, ranks, q, k, v, o, L, do, bug):
    kept = k.dtype if bug == "sums" else torch.float32
    q, do, root = q.float(), do.float(), q.shape[-1] ** 0.5
    D = ((do * o.bfloat16()).bfloat16() if bug == "D in bf16" else do * o).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(q, dtype=kept), torch.zeros_like(q, dtype=kept)
    for step in range(ranks):
        if bug == "posts first":
            coming = yield ("post", k, v, dk, dv)
        s = (q.bfloat16() @ k.mT).float() if bug == "S in bf16" else q @ k.float().mT
        s = s / (1 if bug == "scores" else root)
        local = s.logsumexp(-1) if bug == "local L" else L
        p = (s - local[..., None]).exp()
        p = p.bfloat16().float() if bug == "P in bf16" else p
        dp = do @ v.float().mT
        taken = {"no D": 0, "block D": (p * dp).sum(-1, keepdim=True)}.get(bug, D)
        ds = dp - taken if bug == "no P" else p * (dp - taken)
        part = ds @ k.float() / root
        dq = part if bug == "last" else dq + part
        if bug in ("replaced", "dK replaced"):
            dk, dv = torch.zeros_like(dk), dv if bug == "dK replaced" else torch.zeros_like(dv)
        dk = (dk.float() + (ds if bug == "dS not transposed" else ds.mT) @ q / root).to(kept)
        dv = (dv.float() + (p if bug == "not transposed" else ds.mT if bug == "ds for p" else p.mT) @ do).to(kept)
        if bug == "short" and step == ranks - 1:
            break
        if bug == "stay":
            coming = yield ("post", k, v)
            yield ("wait",)
            k, v = coming
            continue
        if bug != "posts first":
            coming = yield ("post", k, v, dk, dv)
        if bug != "no wait":
            yield ("wait",)
        k, v, dk, dv = coming
        if bug == "exchanged":
            dk, dv = dv, dk
    return dq, dk.float(), dv.float()


def _added_to_what_came(rank, ranks, q, k, v, o, L, do):
    """Posts what has come, and adds its part to what comes then."""
    q, do, root = q.float(), do.float(), q.shape[-1] ** 0.5
    D = (do * o).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(q), torch.zeros_like(q)
    for _ in range(ranks):
        coming = yield ("post", k, v, dk, dv)
        p = (q @ k.float().mT / root - L[..., None]).exp()
        ds = p * (do @ v.float().mT - D)
        dq, parts = dq + ds @ k.float() / root, (ds.mT @ q / root, p.mT @ do)
        yield ("wait",)
        k, v, dk, dv = coming
        dk, dv = dk + parts[0], dv + parts[1]
    return dq, dk, dv


WRONG = variants(
    _backward,
    {
        "if each block's weights are divided by that block's own sum: L is that of all keys": "local L",
        "if the ring stops one hop short: dK and dV end with the rank before their own": "short",
        "if dK and dV are rounded to bf16 at each rank: they are sums of many parts": "sums",
        "if a rank's part replaces the dK and dV that came: it adds to them": "replaced",
        "if a rank's part replaces the dK that came, while dV is added to: both are sums": "dK replaced",
        "if D is left out of dS": "no D",
        "if dQ is that of the last block: all blocks add to it": "last",
        "if dK and dV stay while their keys travel: they collect what belongs to other keys": "stay",
        "if dV is made of dS: it is Pᵀ dO": "ds for p",
        "if nobody waits for what has been posted": "no wait",
        "if dK and dV are posted before this rank has added its part: with sums that travel the post comes last": "posts first",
        "if D is summed over the keys that are there: they are a part of the row, and rowsum(dO ∘ O) is all of it": "block D",
        "if the scores are not divided by √d": "scores",
        "if P is not transposed in dV: with as many keys as queries the shapes fit all the same": "not transposed",
        "if dS is not transposed in dK: with as many keys as queries the shapes fit all the same": "dS not transposed",
        "if dK and dV change places on their way": "exchanged",
        "if the scores are products in bf16: Q and K are turned into fp32 before": "S in bf16",
        "if D is computed in bf16: it is a sum of fp32 numbers": "D in bf16",
        "if P is rounded to bf16: all is computed in fp32": "P in bf16",
        "if dS lacks the factor P": "no P",
    },
) | {
    "if this rank's part is added to the dK and dV that come next: these are of other keys": _added_to_what_came,
}

"""Ulysses: heads for tokens. One all-to-all gives each rank all tokens of some heads, another one gives them back.

Source: DeepSpeed-Ulysses (arXiv 2309.14509).
"""

import math
from typing import Any

import torch
import torch.distributed as dist

from course_lib.model.parallel import owned
from course_lib.parallel import blocks
from course_lib.parallel.ring import check_tensors, members, whole_length


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    causal: bool = False,
    length: int | None = None,
) -> torch.Tensor:
    """This rank's rows of softmax(q kᵀ / √D) v over the tokens of all ranks of ``group`` (None: all there are), with gradients.

    q [B, H, c, D], k and v [B, Hk, c, D], of the tokens that the rank owns in contiguous order -> [B, H, c, D]; all ranks call it alike.
    H is a multiple of the number of ranks P; heads of k and v are repeated up to the next common multiple of Hk and P, and sent so.
    ``length`` and dtypes as for ``ring_attention``. Raises TypeError or ValueError before any head travels, and as ``ring_attention`` does.
    """
    ranks, _ = members(group)
    check_tensors(q, k, v, causal)
    length = whole_length(q, k, group, "contiguous", length)
    tokens = [owned("contiguous", ranks, other, length) for other in range(ranks)]
    (b, heads, c, d), kv_heads = q.shape, k.shape[1]
    if heads % ranks:
        raise ValueError(f"q has {heads} heads for {ranks} ranks; pass a multiple, or call ring_attention")
    k, v = (x.repeat_interleave(math.lcm(kv_heads, ranks) // kv_heads, dim=1) for x in (k, v))
    mine = [x.shape[1] // ranks for x in (q, k, v)]  # heads of a rank
    shares = [torch.cat(heads_of, dim=1) for heads_of in zip(*(x.chunk(ranks, dim=1) for x in (q, k, v)), strict=True)]
    found = _exchange(shares, [(b, sum(mine), there, d) for there in tokens], group)
    q, k, v = torch.cat(found, dim=2).split(mine, dim=1)  # all tokens of this rank's heads
    o = blocks.attend(q, k, v, causal)
    found = _exchange(list(o.split(tokens, dim=2)), [(b, mine[0], c, d)] * ranks, group)
    return torch.cat(found, dim=1)


def _exchange(shares: list[torch.Tensor], shapes: list[tuple[int, ...]], group: Any) -> list[torch.Tensor]:
    """Send a share to each rank, get one from each, of these shapes."""
    give, receive = [x.numel() for x in shares], [math.prod(shape) for shape in shapes]
    found = _AllToAll.apply(torch.cat([x.reshape(-1) for x in shares]), give, receive, group)
    return [x.view(shape) for x, shape in zip(found.split(receive), shapes, strict=True)]


class _AllToAll(torch.autograd.Function):
    """Numbers change places; their gradients go back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, give: list[int], receive: list[int], group: Any) -> torch.Tensor:
        ctx.sizes, ctx.group = (give, receive), group
        found = x.new_empty(sum(receive))
        dist.all_to_all_single(found, x, receive, give, group=group)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        give, receive = ctx.sizes
        found = gradient.new_empty(sum(give))
        dist.all_to_all_single(found, gradient.contiguous(), give, receive, group=ctx.group)
        return found, None, None, None

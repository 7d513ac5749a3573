"""Ring attention: queries stay, keys and values travel from rank to rank, partial results are merged.

Sources: Ring Attention (arXiv 2310.01889); the merge is that of lecture 02. The backward pass is FlashAttention-2's, block by block, with
the L of all keys. Which rank sees which keys, and how far these travel: ``course_lib.model.parallel``.
"""

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from course_lib import checks
from course_lib.kernels.arguments import attention_options
from course_lib.model import parallel as model
from course_lib.parallel import blocks
from course_lib.parallel.messages import Mail, Message


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    causal: bool = False,
    order: str = "zigzag",
    length: int | None = None,
) -> torch.Tensor:
    """This rank's rows of softmax(q kᵀ / √D) v over the tokens of all ranks of ``group`` (None: all there are), with gradients.

    q [B, H, c, D], k and v [B, Hk, c, D], of the tokens that ``positions(order, ranks, rank, length)`` names -> [B, H, c, D] in q's
    dtype; all ranks call it alike. ``order`` is 'contiguous', 'zigzag' or 'striped'; under a ``causal`` mask the last two share the work
    evenly. Some ranks may hold fewer tokens, and nothing is padded. ``length`` is that of the whole sequence; without it the ranks first
    tell each other how many tokens they hold, for which a GPU's process waits. While a rank computes, the next keys arrive; dK and dV are
    added up and travel in fp32. Dtypes as for ``attention``; there are no gradients of gradients. Raises TypeError or ValueError before
    any key travels, on all ranks where one of them holds other tokens than it owns and ``length`` is left out.
    """
    ranks, rank = members(group)
    checks.one_of("order", order, model.ORDERS)
    check_tensors(q, k, v, causal)
    length = whole_length(q, k, group, order, length)
    return _Ring.apply(q, k, v, group, _plan(order, ranks, rank, length, causal))  # type: ignore[no-any-return]


def members(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """How many ranks ``group`` has and which this is; ValueError where there is no group."""
    if not dist.is_initialized():
        raise ValueError("there is no process group; call this inside parallel.run, or after init_process_group")
    if group is not None:
        checks.instance("group", group, dist.ProcessGroup, "torch.distributed.group.WORLD")
    return dist.get_world_size(group), dist.get_rank(group)


def whole_length(q: torch.Tensor, k: torch.Tensor, group: Any, order: str, length: int | None) -> int:
    """``length``, or, where it is None, that of what all ranks hold; ValueError where a rank does not hold what it owns of it."""
    ranks, rank = members(group)
    held = {rank: [q.shape[2], k.shape[2]]}
    if length is None:
        mine = torch.tensor(held[rank], device=q.device)
        all_of_them = [torch.empty_like(mine) for _ in range(ranks)]
        dist.all_gather(all_of_them, mine, group=group)
        held = dict(enumerate(torch.stack(all_of_them).tolist()))
        length = sum(queries for queries, _ in held.values())
    for other, (queries, keys) in held.items():
        own = model.owned(order, ranks, other, length)
        if queries != own or keys != own:
            raise ValueError(
                f"rank {other} has {queries} tokens of q and {keys} of k, but of {length} it owns {own} in {order} order; "
                f"pass shard(x, {ranks}, {other}, {order!r})"
            )
    return length


def check_tensors(q: Any, k: Any, v: Any, causal: Any) -> None:
    """TypeError or ValueError for what ``attention`` would not take."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.dense(name, x)
        if x.dim() != 4:
            raise ValueError(f"{name} has shape {list(x.shape)}; pass [batch, heads, length, head size]")
    checks.grouped_heads(q, k, v)
    checks.causal_mask(causal)
    if not blocks.in_plain_torch(q):
        attention_options(q, k, v, causal, None, None, 0)


class _Plan:
    """What one rank computes at each step; how many tokens' keys are with it then, from which rank, and how far they travel."""

    def __init__(self, order: str, ranks: int, rank: int, length: int, causal: bool) -> None:
        self.ranks, self.next, self.previous = ranks, (rank + 1) % ranks, (rank - 1) % ranks
        self.source = [(rank - step) % ranks for step in range(ranks)]
        self.work = [model.work(order, ranks, rank, source, length, causal) for source in self.source]
        self.tokens = [model.owned(order, ranks, source, length) for source in self.source]
        self.hops = [model.hops(order, ranks, source, length, causal) for source in self.source]
        self.last = (rank + self.hops[0]) % ranks  # sees this rank's keys last, and sends their gradients home

    def come(self, step: int) -> bool:
        """Whether keys arrive for this step."""
        return 1 <= step < self.ranks and self.hops[step] >= step

    def go_on(self, step: int) -> bool:
        """Whether the keys of this step are sent on."""
        return step < self.ranks and self.hops[step] > step


@functools.lru_cache(maxsize=256)
def _plan(order: str, ranks: int, rank: int, length: int, causal: bool) -> _Plan:
    return _Plan(order, ranks, rank, length, causal)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: Any, plan: _Plan) -> torch.Tensor:
        mail, here = Mail(group), [k.contiguous(), v.contiguous()]
        o, L = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=wide(q))
        merges = sum(work is not None for work in plan.work) - 1
        for step, work in enumerate(plan.work):
            coming = _pair(k, plan.tokens[step + 1]) if plan.come(step + 1) else []
            mail.post(_to(plan.next, here if plan.go_on(step) else []), _to(plan.previous, coming))
            if work:
                seen, values = (x[:, :, : work.keys] for x in here)
                part, part_L = blocks.forward(q[:, :, work.first :], seen, values, work.causal, work.offset)
                if step == 0:
                    o, L = part.to(wide(q)) if merges > 1 else part, part_L  # a single merge rounds once, as it ends
                else:
                    blocks.merge(o[:, :, work.first :], L[:, :, work.first :], part, part_L)
            mail.wait()
            here = coming
        o = o.to(q.dtype)
        ctx.save_for_backward(q, k, v, o, L)
        ctx.group, ctx.plan = group, plan
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, do: torch.Tensor) -> tuple[Any, ...]:
        q, k, v, o, L = ctx.saved_tensors
        plan, mail, here = ctx.plan, Mail(ctx.group), [k.contiguous(), v.contiguous()]
        dq = q.new_zeros(q.shape, dtype=wide(q))
        # Half of the heads meet this rank's own keys while the first keys come, the others while the last sums go home.
        halves, own = _halves(q.shape[1], k.shape[1], plan.ranks), []
        # Of dK and dV of this rank's keys: what all others have added.
        home = _pair(k, k.shape[2], wide(k)) if plan.hops[0] else []
        done: list[torch.Tensor] = []  # those of the keys that were here a step ago, as far as ranks have added to them
        for step in range(plan.ranks + 1):  # sums follow their keys a step behind, so there is one step more
            coming = _pair(k, plan.tokens[step + 1]) if plan.come(step + 1) else []
            total = _pair(k, plan.tokens[step], wide(k)) if plan.come(step) else []
            further = plan.next if plan.go_on(step - 1) else plan.source[step - 1]
            mail.post(
                _to(plan.next, here if plan.go_on(step) else []) + _to(further, done),
                _to(plan.previous, coming + (total if step > 1 else []))
                + _to(plan.last, home if step == plan.hops[0] + 1 else []),
            )
            work = plan.work[step % plan.ranks]
            parts: list[torch.Tensor] = []
            if work and step % plan.ranks == 0:
                for heads, kv_heads in halves[step // plan.ranks]:
                    mine, seen = [x[:, heads] for x in (q, o, L, do)], [x[:, kv_heads] for x in (k, v)]
                    part, *sums = blocks.backward((*mine, *seen), work.causal, work.offset)
                    dq[:, heads] += part
                    own.append((kv_heads, sums))
            elif work:
                mine, seen = [x[:, :, work.first :] for x in (q, o, L, do)], [x[:, :, : work.keys] for x in here]
                part, *parts = blocks.backward((*mine, *seen), work.causal, work.offset)
                dq[:, :, work.first :] += part
            mail.wait()
            for i, x in enumerate(total):
                if step == 1:  # the first to add to them
                    x[:, :, parts[i].shape[2] if parts else 0 :] = 0
                if parts:
                    x = x[:, :, : parts[i].shape[2]]
                    x.copy_(parts[i]) if step == 1 else x.add_(parts[i])
            here, done = coming, total
        gradients = home or _pair(k, k.shape[2])
        for kv_heads, sums in own:
            for x, part in zip(gradients, sums, strict=True):
                x[:, kv_heads].add_(part) if home else x[:, kv_heads].copy_(part)
        dk, dv = (x.to(k.dtype) for x in gradients)
        return dq.to(q.dtype), dk, dv, None, None


def _halves(heads: int, kv_heads: int, ranks: int) -> list[list[tuple[slice, slice]]]:
    """Heads of q, and those of k and v that they share: for the first step and for the one after the last, which may be none."""
    if kv_heads == 1 or ranks == 1:
        return [[(slice(None), slice(None))], []]
    kv_middle = kv_heads // 2
    middle = kv_middle * heads // kv_heads
    return [[(slice(middle), slice(kv_middle))], [(slice(middle, heads), slice(kv_middle, kv_heads))]]


def wide(x: torch.Tensor) -> torch.dtype:
    """In which sums are kept."""
    return torch.promote_types(x.dtype, torch.float32)


def _pair(like: torch.Tensor, tokens: int, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
    """Memory for K and V of so many tokens, or for their gradients."""
    (b, h, _, d) = like.shape
    return [like.new_empty((b, h, tokens, d), dtype=dtype) for _ in range(2)]


def _to(rank: int, tensors: list[torch.Tensor]) -> list[Message]:
    return [(rank, x) for x in tensors]

"""Decoding over a cache of keys and values that is cut among ranks by sequence: keys stay, partial results travel.

Each rank attends to its own part of the cache, and the states (o, L) are merged as those of splits on one GPU are (lecture 08): the
same merge, with a link between the two halves.
"""

import torch
import torch.distributed as dist

from course_lib.parallel import blocks
from course_lib.parallel.messages import Mail
from course_lib.parallel.ring import check_tensors, members, wide


def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """softmax(q kᵀ / √D) v over the cached keys of all ranks of ``group`` (None: all there are), on each rank; without gradients.

    q [B, H, 1, D] of the new token, the same on all ranks; k and v [B, Hk, c, D], the part of the cache that this rank keeps, which may
    be empty and of any length -> [B, H, 1, D] in q's dtype, to the bit the same on all ranks. The token sees all keys; several new ones
    would need a mask among themselves, as in lecture 08, and are refused. A rank sends o in q's dtype and L in fp32 to each other one:
    ``model.parallel.decode_bytes``. Dtypes as for ``attention``. Raises TypeError or ValueError before any message.
    """
    ranks, rank = members(group)
    check_tensors(q, k, v, False)
    if q.shape[2] != 1:
        raise ValueError(f"q has {q.shape[2]} new tokens, and nothing masks them among themselves; pass one at a time")
    if k.shape[2]:
        o, L = blocks.forward(q.detach(), k.detach(), v.detach(), False, 0)
    else:
        o, L = torch.zeros_like(q), q.new_full(q.shape[:3], -torch.inf, dtype=wide(q))
    states = [(o, L) if other == rank else (torch.empty_like(o), torch.empty_like(L)) for other in range(ranks)]
    others, mail = [other for other in range(ranks) if other != rank], Mail(group)
    mail.post([(other, x) for other in others for x in (o, L)], [(other, x) for other in others for x in states[other]])
    mail.wait()
    whole, whole_L = states[0][0].to(wide(q), copy=True), states[0][1].clone()
    for part, part_L in states[1:]:  # in the order of ranks, so that all round alike
        blocks.merge(whole, whole_L, part, part_L)
    return whole.to(q.dtype)

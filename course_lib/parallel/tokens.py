"""Who holds which tokens: a rank's share of a tensor, and the whole from the shares."""

from collections.abc import Sequence

import torch

from course_lib import checks
from course_lib.model.parallel import ORDERS, owned, positions


def shard(x: torch.Tensor, ranks: int, rank: int, order: str, dim: int = 2) -> torch.Tensor:
    """The tokens of x that ``rank`` owns, along ``dim``: a copy. Labels and positions of tokens are sharded in the same way."""
    dim = _dimension("x", x, dim)
    return x.index_select(dim, positions(order, ranks, rank, x.shape[dim]).to(x.device))


def unshard(parts: Sequence[torch.Tensor], order: str, dim: int = 2) -> torch.Tensor:
    """The whole, of the shares of all ranks by rank: the inverse of ``shard``."""
    checks.several("parts", parts)
    for rank, x in enumerate(parts):
        _dimension(f"parts[{rank}]", x, dim)
    length = sum(x.shape[dim] for x in parts)
    checks.one_of("order", order, ORDERS)
    for rank, x in enumerate(parts):
        if x.shape[dim] != owned(order, len(parts), rank, length):
            raise ValueError(
                f"parts[{rank}] has {x.shape[dim]} tokens of {length}, and in {order} order rank {rank} of {len(parts)} owns "
                f"{owned(order, len(parts), rank, length)}; pass the shares in the order of ranks"
            )
    at = torch.cat([positions(order, len(parts), rank, length) for rank in range(len(parts))])
    return torch.cat(list(parts), dim).index_select(dim, torch.argsort(at).to(parts[0].device))


def _dimension(name: str, x: torch.Tensor, dim: int) -> int:
    """``dim``, counted from the first; TypeError or ValueError if x has no such dimension."""
    checks.dense(name, x)
    return checks.whole("dim", dim, -x.dim(), x.dim() - 1) % max(1, x.dim())

"""One rank's share of a step: attention over a block of keys, its backward pass, and the merge of two results.

By this course's kernels where these run on the tensors' device; by plain torch for tensors of a CPU where they do not, which is a
machine with a GPU, or without Triton, and in float64 and bfloat16: a ring of processes there shows messages and numbers, and no speed.
"""

import functools
import math

import torch

from course_lib import runtime
from course_lib.attention import attention, launch_gradients
from course_lib.kernels import fast_launch
from course_lib.kernels.merging import merge as merge_in_place


def in_plain_torch(x: torch.Tensor) -> bool:
    """Whether plain torch serves a tensor like this."""
    return x.device.type == "cpu" and (runtime.mode() != "interpreter" or x.dtype in (torch.float64, torch.bfloat16))


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """o like ``attention``'s, with gradients."""
    if in_plain_torch(q):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return attention(q, k, v, causal=causal)  # type: ignore[return-value]


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, offset: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, L) like ``attention``'s, without gradients."""
    if not in_plain_torch(q):
        with torch.autocast(q.device.type, enabled=False):  # ranks exchange o, and one without keys makes it like q
            return attention(q, k, v, causal=causal, causal_offset=offset, return_lse=True)  # type: ignore[return-value]
    s = _scores(q, k, causal, offset)
    L = torch.logsumexp(s, dim=-1)
    return (_weights(s, L) @ _repeated(v, q)).to(q.dtype), L


def backward(
    tensors: tuple[torch.Tensor, ...], causal: bool, offset: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What these keys add to dq, dk and dv; ``tensors``: q, o, L, do, k, v. o and L are those of all keys: P = e^(S - L) are final."""
    q, o, L, do, k, v = tensors
    if not in_plain_torch(q):
        launch = _launcher(causal, offset, 1 / math.sqrt(q.shape[3]), torch.are_deterministic_algorithms_enabled())
        found = q, k, v, o, L.contiguous(), do
        return launch(fast_launch.kinds(*found), (*found, None))  # type: ignore[return-value]
    p = _weights(_scores(q, k, causal, offset), L)
    do = do.to(p.dtype)
    ds = p * (do @ _repeated(v, q).mT - (do * o).sum(-1, keepdim=True)) / math.sqrt(q.shape[3])
    dq, dk, dv = ds @ _repeated(k, q), ds.mT @ q.to(p.dtype), p.mT @ do
    groups = (*k.shape[:2], -1, *k.shape[2:])
    return dq.to(q.dtype), *(x.view(groups).sum(2).to(k.dtype) for x in (dk, dv))  # type: ignore[return-value]


def merge(o: torch.Tensor, L: torch.Tensor, part: torch.Tensor, part_L: torch.Tensor) -> None:
    """Add a part's result to o and L, in place; in float64 and where kernels do not run by torch."""
    if not in_plain_torch(part):
        merge_in_place(o, L, part, part_L)
        return
    both = torch.logaddexp(L, part_L)
    weight, part_weight = (torch.exp(x - _shift(both))[..., None] for x in (L, part_L))
    o.copy_(o * weight + part * part_weight)
    L.copy_(both)


@functools.lru_cache(maxsize=64)
def _launcher(causal: bool, offset: int, scale: float, deterministic: bool) -> fast_launch.Replayed:
    return fast_launch.Replayed(launch_gradients, (causal, offset, scale, 0.0, deterministic))


def _repeated(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32)).repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def _scores(q: torch.Tensor, k: torch.Tensor, causal: bool, offset: int) -> torch.Tensor:
    k = _repeated(k, q)
    s = q.to(k.dtype) @ k.mT / math.sqrt(q.shape[3])
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1 + offset), -torch.inf)
    return s


def _weights(s: torch.Tensor, L: torch.Tensor) -> torch.Tensor:
    return torch.exp(s - _shift(L)[..., None])


def _shift(L: torch.Tensor) -> torch.Tensor:
    """L, and 0 for a row that has seen no key: its scores are -inf, and -inf - -inf would be NaN. A NaN stays one."""
    return L.masked_fill(L.isneginf(), 0)

"""The arguments of ``decode``: what is refused before any launch, and what the rest mean to the kernels."""

from typing import Any

import torch

from course_lib import checks
from course_lib.kernels import fast_launch
from course_lib.kernels.arguments import check_heads, scale_of_scores
from course_lib.kernels.launching import LONGEST

MOST_QUERIES = 8
SMALLEST_PAGE = 16


def refuse_gradients(**tensors: torch.Tensor) -> None:
    """Raise ValueError for the first of these that requires gradients, which ``decode`` has not."""
    name = next(name for name, x in tensors.items() if x.requires_grad)
    raise ValueError(f"{name} requires gradients, and decode has none; call it inside torch.no_grad(), or attention()")


def decode_options(
    q: Any, k: Any, v: Any, lengths: Any, table: Any, scale: Any, check: bool
) -> tuple[bool, float, list[int] | None]:
    """(causal, scale, the lengths or None where they were not read) of good arguments; TypeError or ValueError for others."""
    check_heads(paged=table is not None, q=q, k_cache=k, v_cache=v)
    (b, _, n_q, d), rows = q.shape, k.shape[2]
    if not 1 <= n_q <= MOST_QUERIES:
        others = f"; of {n_q} the first are q[:, :, :{MOST_QUERIES}] with lengths - {n_q - MOST_QUERIES}, and so on"
        if lengths is None and table is None:
            others = ", and more to attention(…, causal=True, causal_offset=k.shape[2] - q.shape[2])"
        raise ValueError(f"q has {n_q} queries a sequence; pass 1 to {MOST_QUERIES} at a time{others * (n_q > 0)}")
    scale = scale_of_scores(scale, d)
    if lengths is not None:
        _check_whole_numbers("lengths", lengths, (b,), q)
    room = rows
    if table is not None:
        if rows < SMALLEST_PAGE or rows & (rows - 1):
            raise ValueError(
                f"k_cache has shape {list(k.shape)}, pages of {rows} tokens; pass pages of {SMALLEST_PAGE} tokens or a larger power of two"
            )
        slots = table.shape[1] if isinstance(table, torch.Tensor) and table.dim() == 2 else 1
        _check_whole_numbers("block_table", table, (b, slots), q)
        room = rows * slots
        if room > LONGEST:
            raise ValueError(
                f"block_table has room for {room:,} tokens a sequence; kernels take at most {LONGEST:,}: pass fewer columns"
            )
    if torch.compiler.is_compiling() or not (check or q.device.type == "cpu"):
        return n_q > 1, scale, None
    readable = fast_launch.kinds(q, lengths, table) is not None
    return n_q > 1, scale, _check_numbers(lengths, table, b, room, rows, k.shape[0]) if readable else None


def _check_whole_numbers(name: str, x: Any, shape: tuple[int, ...], q: torch.Tensor) -> None:
    """Raise unless x is a contiguous int32 tensor of this shape on q's device. Reads no values."""
    checks.dense(name, x)
    if x.dtype != torch.int32:
        raise TypeError(f"{name} has dtype {x.dtype}; pass int32, for example {name}.int()")
    if x.shape != shape:
        wanted = (
            f"[{shape[0]}], a length for each sequence"
            if len(shape) == 1
            else f"[{shape[0]}, slots], a row for each sequence"
        )
        raise ValueError(f"{name} has shape {list(x.shape)}; pass {wanted}")
    if x.device != q.device:
        raise ValueError(f"{name} is on {x.device} but q is on {q.device}; pass {name}.to({str(q.device)!r})")
    if not x.is_contiguous():
        raise ValueError(f"{name} has strides {list(x.stride())}; pass {name}.contiguous()")


def _check_numbers(
    lengths: torch.Tensor | None, table: torch.Tensor | None, batch: int, room: int, page: int, pages: int
) -> list[int]:
    """ValueError for a length beyond the room, or a page that a sequence uses and that is none; the lengths."""
    found = [room] * batch if lengths is None else lengths.tolist()
    for b, length in enumerate(found):
        if not 0 <= length <= room:
            raise ValueError(f"lengths[{b}] is {length:,}; the cache has room for {room:,}: pass 0 to {room:,}")
    if table is not None:
        ends = torch.full((len(table),), room, device=table.device) if lengths is None else lengths
        used = torch.arange(table.shape[1], device=table.device) * page < ends[:, None]
        wrong = used & ((table < 0) | (table >= pages))
        if bool(wrong.any()):
            b, slot = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"block_table[{b}, {slot}] is {int(table[b, slot])}; the cache has {pages} pages: pass 0 to {pages - 1}"
            )
    return found

"""A KV cache: the keys and values of one layer, for a batch of sequences that grow token by token.

    cache = KVCache(batch=2, heads_k=8, d=128, room=4096, page=16, dtype=torch.float16)
    cache.append(k, v)        # [2, 8, n, 128] each: n new tokens of every sequence
    o = cache.attend(q)       # [2, 32, n, 128]: the attention of the last n tokens over all so far

Lengths and pages are kept on the host as well, so that no call reads them back from a GPU. ``append`` lists the places of all new
tokens in Python and waits until the GPU has them, which a long prompt and each layer of a model pay for, and which a CUDA graph
cannot capture. A captured ``attend`` keeps the number of splits that it was captured with.
"""

from collections.abc import Sequence

import torch

from course_lib import checks
from course_lib.kernels.arguments import autocast_dtype
from course_lib.kernels.decoding import decode
from course_lib.kernels.decoding_arguments import SMALLEST_PAGE

_FORMATS = (torch.float32, torch.float16, torch.bfloat16)


class KVCache:
    """Keys and values of ``batch`` sequences with room for ``room`` tokens each, in ``heads_k`` heads of ``d`` numbers.

    Without ``page`` each sequence has its room from the start: k and v are [batch, heads_k, room, d]. With it, k and v are a pool
    [pages, heads_k, page, d], and a sequence takes a page from it when it grows into one; ``pages`` is how many there are, by default
    enough for all. ``lengths`` [batch] and ``block_table`` [batch, slots], -1 where there is no page, are int32 and fit ``decode``.
    Raises TypeError or ValueError for what is no such number.
    """

    def __init__(
        self,
        batch: int,
        heads_k: int,
        d: int,
        room: int,
        *,
        page: int | None = None,
        pages: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, value in (("batch", batch), ("heads_k", heads_k), ("d", d), ("room", room)):
            checks.positive_int(name, value)
        checks.one_of("dtype", dtype, _FORMATS)
        self.room, self.page, rows = room, page, (batch, room)
        self.block_table: torch.Tensor | None = None
        self._free: list[int] = []
        if page is not None:
            if checks.whole("page", page, SMALLEST_PAGE) & (page - 1):
                raise ValueError(f"page is {page}; pass a power of two, {SMALLEST_PAGE} or larger")
            slots = -(-room // page)
            count = batch * slots if pages is None else checks.positive_int("pages", pages)
            rows, self._free = (count, page), list(range(count))
        elif pages is not None:
            raise ValueError(f"pages is {checks.shown(pages)}, but page is None; pass a page's size, or no pages")
        with torch.inference_mode(False):  # what is made in it could not be written to outside
            self.k, self.v = (torch.empty(rows[0], heads_k, rows[1], d, dtype=dtype, device=device) for _ in "kv")
            self.lengths = torch.zeros(batch, dtype=torch.int32, device=device)
            if page is not None:
                self.block_table = torch.full((batch, slots), -1, dtype=torch.int32, device=device)
        self._lengths = [0] * batch
        self._pages: list[list[int]] = [[] for _ in range(batch)]

    def append(self, k: torch.Tensor, v: torch.Tensor, counts: Sequence[int] | None = None) -> None:
        """Add new tokens to the sequences: k and v [batch, heads_k, n, d], of which sequence b takes the first counts[b], or all.

        The cache keeps their numbers and no way back to them: it has no gradients. They have its dtype, or under autocast any. Raises
        TypeError or ValueError, and changes nothing, for tensors that do not fit, and where room or pages do not suffice.
        """
        batch, n = self._check(k=k, v=v)
        # Without their graphs: else each write would keep those of all writes before it.
        k, v = k.detach().to(self.k.dtype), v.detach().to(self.k.dtype)
        if counts is None:
            counts = [n] * batch
        elif len(checks.several("counts", counts)) != batch:
            raise ValueError(f"counts has {len(counts)} numbers; pass {batch}, one for each sequence")
        for b, count in enumerate(counts):
            if self._lengths[b] + checks.whole(f"counts[{b}]", count, 0, n) > self.room:
                held = f"sequence {b} has {self._lengths[b]:,} tokens and {count:,} are to come"
                raise ValueError(f"{held}; the cache has room for {self.room:,}")
        self._take_pages([length + count for length, count in zip(self._lengths, counts, strict=True)])
        new = [(b, i) for b, count in enumerate(counts) for i in range(count)]
        places = [self._place(b, self._lengths[b] + i) for b, i in new]
        if new:
            (b_at, i_at), (block, row) = (torch.tensor(x, device=self.k.device).T for x in (new, places))
            self.k[block, :, row], self.v[block, :, row] = k[b_at, :, i_at], v[b_at, :, i_at]
        self._set_lengths([length + count for length, count in zip(self._lengths, counts, strict=True)])

    def attend(self, q: torch.Tensor, *, splits: int | None = None, scale: float | None = None) -> torch.Tensor:
        """The attention of the last tokens: q [batch, heads, n, d], n from 1 to 8, over all tokens so far, their own among them."""
        return decode(  # type: ignore[return-value]
            q, self.k, self.v, self.lengths, block_table=self.block_table, splits=splits, scale=scale,
            longest=max(self._lengths), total=sum(self._lengths),
        )  # fmt: skip

    def clear(self, b: int) -> None:
        """End sequence b: it has no token any more, and its pages are free for others. Raises ValueError for one that is not there."""
        checks.whole("b", b, 0, len(self._lengths) - 1)
        self._free += self._pages[b]
        self._pages[b] = []
        if self.block_table is not None:
            self.block_table[b] = -1
        self._set_lengths([0 if i == b else length for i, length in enumerate(self._lengths)])

    def _place(self, b: int, token: int) -> tuple[int, int]:
        """Where a token of sequence b stands in k and v: [first, :, second]."""
        return (b, token) if self.page is None else (self._pages[b][token // self.page], token % self.page)

    def _take_pages(self, lengths: list[int]) -> None:
        if self.page is None or self.block_table is None:
            return
        wanted = [-(-length // self.page) - len(held) for length, held in zip(lengths, self._pages, strict=True)]
        if sum(wanted) > len(self._free):
            raise ValueError(
                f"{sum(wanted)} new pages are needed and {len(self._free)} are free; clear a sequence first"
            )
        for b, count in enumerate(wanted):
            if count:
                at, taken = len(self._pages[b]), [self._free.pop(0) for _ in range(count)]
                self._pages[b] += taken
                self.block_table[b, at : at + count] = torch.tensor(taken, dtype=torch.int32)

    def _set_lengths(self, lengths: list[int]) -> None:
        self._lengths = lengths
        self.lengths.copy_(torch.tensor(lengths, dtype=torch.int32), non_blocking=True)

    def _check(self, **tensors: torch.Tensor) -> tuple[int, int]:
        """(sequences, new tokens) of k and v that fit."""
        (heads_k, d), batch = (self.k.shape[1], self.k.shape[3]), len(self._lengths)
        for name, x in tensors.items():
            checks.dense(name, x)
            if x.dim() != 4 or (x.shape[0], x.shape[1], x.shape[3]) != (batch, heads_k, d):
                raise ValueError(f"{name} has shape {list(x.shape)}; pass [{batch}, {heads_k}, new tokens, {d}]")
            if x.dtype != self.k.dtype and autocast_dtype(x) is None:
                raise TypeError(f"{name} is {x.dtype} but the cache is {self.k.dtype}; pass {name}.to({self.k.dtype})")
            if x.device != self.k.device:
                raise ValueError(f"{name} is on {x.device} but the cache is on {self.k.device}; they must be equal")
        checks.same_shape(**tensors)
        return batch, tensors["k"].shape[2]

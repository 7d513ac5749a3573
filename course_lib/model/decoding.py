"""Closed forms of decoding: what a cache of keys and values takes, and the bytes that one step moves.

H query heads on H_k heads of K and V, group = H / H_k, n_q new tokens a sequence. Bytes are exact for ``kernels.decoding`` and
``algorithms.decoding``: tests hold them equal.
"""

from collections.abc import Sequence

import torch

from course_lib.model.cost import Traffic, element_bytes

MOST_SPLITS, MOST_EVEN = 128, 32  # of one sequence: given, and where each sequence has its own number

_WIDE = 4  # bytes of a number in partial results, L, lengths and table


def cache_bytes(tokens: int, layers: int, heads_k: int, d: int, dtype: str | torch.dtype = "bf16") -> int:
    """Bytes of K and V of so many tokens in all layers: 2 · layers · heads_k · d · element bytes for each token."""
    return 2 * layers * heads_k * d * element_bytes(dtype) * tokens


def keys_per_split(length: int, splits: int, block_n: int) -> int:
    """Keys of each split but the last one: whole blocks of block_n, dealt out evenly. Splits that come too late have none."""
    blocks = -(-length // block_n)
    return -(-blocks // splits) * block_n


def even_splits(lengths: Sequence[int], splits: int, block_n: int) -> tuple[int, list[int]]:
    """(Keys of each split but the last of a sequence, splits of each sequence) where all sequences share len(lengths) · splits of them.

    Whole blocks of block_n, as many for each split in the whole batch; a sequence has 1 to MOST_EVEN.
    """
    blocks = [-(-length // block_n) for length in lengths]
    each = max(1, -(-sum(blocks) // (len(blocks) * splits)), -(-max(blocks) // MOST_EVEN))
    return each * block_n, [max(1, -(-count // each)) for count in blocks]


def decode_traffic(
    lengths: Sequence[int],
    heads: int,
    heads_k: int,
    d: int,
    dtype: str | torch.dtype = "bf16",
    *,
    block_m: int,
    block_n: int,
    splits: int = 1,
    n_q: int = 1,
    page: int | None = None,
    even: bool = False,
) -> Traffic:
    """One call of ``decode`` on sequences of these ``lengths``, its merge included.

    K and V are read once for each tile of block_m of the group · n_q rows that share them, Q by each split. The partial results
    O_s [B, H, n_q, splits, d] and L_s in float32 are written and read; of O_s only the rows that saw a key, of which a query's
    split may have none. A program reads its sequence's length, and with a ``page`` size the number of each page that it goes through,
    for each block of keys if a page holds several. ``even``: as ``decode`` without ``splits`` cuts a batch whose
    lengths differ much (``even_splits``); each program and each row of the merge then read all lengths.
    """
    e, tiles = element_bytes(dtype), -(-heads // heads_k * n_q // block_m)
    rows, walks = len(lengths) * heads * n_q, heads_k * tiles
    if even:
        each, counts = even_splits(lengths, splits, block_n)
        keys = [each] * len(lengths)
    else:
        keys, counts = [keys_per_split(length, splits, block_n) for length in lengths], [splits] * len(lengths)
    pieces = 0  # rows of O_s that are written
    for length, each in zip(lengths, keys, strict=True):
        pieces += heads * sum(-(-(length - i) // each) for i in range(min(n_q, length)))
    reads = {"Q": sum(counts) * heads * n_q * d * e, "lengths": walks * sum(counts) * _WIDE}
    if even:
        reads["lengths"] += len(lengths) * _WIDE * (walks * len(lengths) * (splits + 1) + rows)
    reads |= dict.fromkeys(("K", "V"), walks * sum(lengths) * d * e)
    if page is not None:
        step = min(page, block_n)
        reads["table"] = walks * sum(-(-length // step) for length in lengths) * _WIDE
    writes = {"O": rows * d * e, "L": rows * _WIDE}
    if even or splits > 1:
        partial = {"O_s": pieces * d * _WIDE, "L_s": heads * n_q * sum(counts) * _WIDE}
        reads, writes = reads | partial, writes | partial
    return Traffic(reads, writes)

"""Attention on several GPUs, worked out: which rank owns which token, what a step computes, and the bytes that it sends.

In a ring of P ranks queries stay and blocks of keys and values travel: at step t rank r works on those of rank r - t, while
they are on their way to rank r + 1. ``course_lib.parallel`` does it; tests hold its messages equal to these counts, byte for byte.

Sources: Ring Attention (arXiv 2310.01889), Striped Attention (arXiv 2311.09431); zigzag is the order of Megatron and torch's
``context_parallel``; DeepSpeed-Ulysses (arXiv 2309.14509). Shapes are of one sequence: H heads of queries, Hk of keys, D numbers each.
"""

import functools
import math
from typing import NamedTuple

import torch

from course_lib import checks
from course_lib.model.cost import element_bytes

ORDERS = ("contiguous", "zigzag", "striped")


def _cut(length: int, parts: int, part: int) -> range:
    size = -(-length // parts)
    return range(min(length, part * size), min(length, (part + 1) * size))


def positions(order: str, ranks: int, rank: int, length: int) -> torch.Tensor:
    """The tokens of a sequence that ``rank`` owns, in the order in which it keeps them: int64, ascending.

    'contiguous': the rank-th of P pieces. 'zigzag': of 2P pieces the rank-th and the (2P - 1 - rank)-th, one early and one late.
    'striped': rank, rank + P, rank + 2P … Pieces have ⌈length / P⌉ (or 2P) tokens; where that does not divide, the last ones have
    fewer, or none.
    """
    return torch.tensor([token for piece in _pieces(order, ranks, rank, length) for token in piece], dtype=torch.int64)


def owned(order: str, ranks: int, rank: int, length: int) -> int:
    """How many tokens ``rank`` owns."""
    return sum(map(len, _pieces(order, ranks, rank, length)))


def _pieces(order: str, ranks: int, rank: int, length: int) -> list[range]:
    checks.one_of("order", order, ORDERS)
    if order == "contiguous":
        return [_cut(length, ranks, rank)]
    if order == "zigzag":
        return [_cut(length, 2 * ranks, rank), _cut(length, 2 * ranks, 2 * ranks - 1 - rank)]
    return [range(rank, length, ranks)]


def owners(order: str, ranks: int, length: int) -> torch.Tensor:
    """The rank that owns each token: int64 [length], the inverse of ``positions``."""
    found = torch.empty(length, dtype=torch.int64)
    for rank in range(ranks):
        found[positions(order, ranks, rank, length)] = rank
    return found


class Work(NamedTuple):
    """What a rank computes of a block of keys: its queries from ``first`` on, ``queries`` of them, with the first ``keys`` of the block.

    ``causal``: query i of these sees the keys j <= i + offset; otherwise each sees all of them.
    """

    first: int
    queries: int
    keys: int
    causal: bool
    offset: int

    @property
    def pairs(self) -> int:
        """How many pairs of a query and a key the mask leaves."""
        if not self.causal:
            return self.queries * self.keys
        # queries that see a part of the keys
        begin, end = max(0, -self.offset), min(self.queries, self.keys - self.offset)
        some = range(begin + 1 + self.offset, end + 1 + self.offset)
        return (len(some) * (some[0] + some[-1]) // 2 if some else 0) + (self.queries - max(begin, end)) * self.keys


def work(order: str, ranks: int, rank: int, source: int, length: int, causal: bool) -> Work | None:
    """What ``rank`` computes of the keys that ``source`` owns; None where the mask hides all of them.

    Under a causal mask a contiguous rank sees all of an earlier rank's keys and none of a later one's. In zigzag order it sees the
    early half of an earlier rank's, and only its own late half sees a later rank's: always half a block, and without a mask. A
    striped rank sees of each block what lies below the diagonal, or, of a later rank's, strictly below it.
    """
    mine, theirs = (_sizes(order, ranks, x, length) for x in (rank, source))
    return _work(order, causal, (source > rank) - (source < rank), mine, theirs)


def _sizes(order: str, ranks: int, rank: int, length: int) -> tuple[int, ...]:
    return tuple(map(len, _pieces(order, ranks, rank, length)))


@functools.lru_cache(maxsize=4096)
def _work(order: str, causal: bool, later: int, mine: tuple[int, ...], theirs: tuple[int, ...]) -> Work | None:
    """By the sizes of both ranks' pieces; ``later``: the keys are those of a later rank (1), one's own (0), an earlier one's (-1)."""
    keys, first, diagonal, offset = sum(theirs), 0, False, 0
    if causal and (order == "striped" or later == 0):
        diagonal, offset = True, -1 if later == 1 else 0
    elif causal and order == "contiguous" and later == 1:
        return None
    elif causal and order == "zigzag":
        keys, first = (theirs[0], 0) if later == -1 else (keys, mine[0])
    found = Work(first, sum(mine) - first, keys, diagonal, offset)
    return found if found.pairs else None


@functools.lru_cache(maxsize=64)
def _pairs(order: str, ranks: int, length: int, causal: bool) -> torch.Tensor:
    """``step_pairs`` as int64 [steps, ranks]. Ranks that own pieces of the same sizes are of one kind, and there are few kinds."""
    sizes = [_sizes(order, ranks, rank, length) for rank in range(ranks)]
    kinds = list(dict.fromkeys(sizes))
    work = [[[_work(order, causal, later, mine, theirs) for later in (-1, 0, 1)] for theirs in kinds] for mine in kinds]
    pairs = torch.tensor([[[part.pairs if part else 0 for part in row] for row in rows] for rows in work])
    kind, rank = torch.tensor([kinds.index(x) for x in sizes]), torch.arange(ranks)
    source = (rank - rank[:, None]) % ranks  # [steps, ranks]
    return pairs[kind[rank], kind[source], torch.sign(source - rank) + 1]


def hops(order: str, ranks: int, source: int, length: int, causal: bool) -> int:
    """How many ranks further the keys of ``source`` travel: to the last one that sees any of them."""
    return _all_hops(order, ranks, length, causal)[source]


@functools.lru_cache(maxsize=64)
def _all_hops(order: str, ranks: int, length: int, causal: bool) -> list[int]:
    step = torch.arange(ranks)
    seen = _pairs(order, ranks, length, causal)[step, (step[:, None] + step) % ranks] > 0  # [source, steps]
    return [int(x) for x in (seen * step).amax(1)]


# --- bytes ---


class Sent(NamedTuple):
    """Bytes that a rank sends at a step: K and V while it computes, and what it has then added to dK and dV."""

    keys_values: int
    gradients: int


def ring_bytes(
    order: str, ranks: int, rank: int, length: int, kv_heads: int, d: int, dtype: str | torch.dtype = "bf16",
    causal: bool = False, backward: bool = False,
) -> list[Sent]:  # fmt: skip
    """The bytes that ``rank`` sends at each of the P steps of a pass over one sequence.

    Forward K and V of c tokens, 2 c Hk D e bytes a step, at all steps but the last: (P - 1) · 2 c Hk D e. Backward they travel again,
    and dK and dV go with them in fp32, at last home: (P - 1) · 2 c Hk D (e + 4). What a rank adds to dK and dV of its own keys stays
    with it, so that these travel P - 1 times, and not P as in torch's ``context_parallel``. A block that no further rank sees goes no
    further: in contiguous order under a causal mask rank r sends at its first r + 1 steps, and the last rank no keys at all.
    """
    size, sent = element_bytes(dtype), []
    for step in range(ranks):
        source = (rank - step) % ranks
        numbers = 2 * owned(order, ranks, source, length) * kv_heads * d
        far = hops(order, ranks, source, length, causal)
        sent.append(Sent(numbers * size * (far > step), numbers * 4 * (backward and 1 <= step <= far)))
    return sent


def ulysses_bytes(
    ranks: int,
    rank: int,
    length: int,
    heads: int,
    kv_heads: int,
    d: int,
    dtype: str | torch.dtype = "bf16",
    backward: bool = False,
) -> list[int]:
    """The bytes that ``rank`` sends in each of the two all-to-alls of a pass over one sequence.

    Forward its tokens of the other ranks' heads of Q, K and V, (P - 1)/P · c D e (H + 2 Hk), then the other ranks' tokens of its heads of
    O, (P - 1)/P · c D e H; backward dO goes out and dQ, dK and dV come back. Hk is rounded up to a common multiple with P, by repeats.
    """
    mine, size = owned("contiguous", ranks, rank, length), element_bytes(dtype) * d
    all_three = heads + 2 * math.lcm(kv_heads, ranks)
    out, back = (heads, all_three) if backward else (all_three, heads)
    return [(ranks - 1) * mine * out // ranks * size, (length - mine) * back // ranks * size]


def decode_bytes(ranks: int, heads: int, d: int, dtype: str | torch.dtype = "bf16", sums: int = 4) -> int:
    """The bytes that a rank sends to decode over a cache that is cut by sequence: o and L to each other rank, whatever the cache holds.

    (P - 1) · H (D e + 4) for the new token of a sequence; ``sums`` bytes for a number of L.
    """
    return (ranks - 1) * heads * (d * element_bytes(dtype) + sums)


# --- time ---


def hiding_tokens(
    flops_per_s: float, link_bytes_per_s: float, group: float = 1, dtype: str | torch.dtype = "bf16", visible: float = 1,
    latency: float = 0,
) -> float:  # fmt: skip
    """The tokens c that a GPU must hold for the link to hide behind the kernel: c >= (e/2) (F/B) / g, without latency.

    A step multiplies 4 c² H D numbers, ``visible`` of them (zigzag under a causal mask: half), and sends 2 c Hk D e bytes; g = H/Hk
    is ``group``. ``latency`` a step, in seconds · link_bytes_per_s / (2 Hk D e), is in tokens whose sending would take as long.
    """
    bound = element_bytes(dtype) / 2 * flops_per_s / link_bytes_per_s / group / visible
    return (bound + math.sqrt(bound * bound + 4 * bound * latency)) / 2


def step_pairs(order: str, ranks: int, length: int, causal: bool) -> list[list[int]]:
    """Pairs of a query and a key that each rank computes at each step: [step][rank]."""
    return _pairs(order, ranks, length, causal).tolist()  # type: ignore[no-any-return]


def efficiency(order: str, ranks: int, length: int | None = None, causal: bool = True) -> float:
    """The share of their time in which ranks compute, if each step takes as long as its busiest rank and sending is free.

    Without a ``length`` the limit of long sequences: P / (2P - 1) for contiguous order under a causal mask, otherwise 1.
    """
    if length is None:
        return ranks / (2 * ranks - 1) if causal and order == "contiguous" else 1.0
    steps = step_pairs(order, ranks, length, causal)
    return sum(map(sum, steps)) / (ranks * sum(map(max, steps)))

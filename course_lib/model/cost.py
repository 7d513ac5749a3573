"""Closed forms: floating-point operations and HBM bytes. What they come to in seconds on a GPU: ``course_lib.model.roofline``.

Bytes are exact for the loop nests of ``course_lib.algorithms``, per tensor and to the byte: tests hold them equal to
what the simulated memory counts. Shapes: Q [n, d], K [n_k, d], V [n_k, d_v], O [n, d_v], one head; n_k = n and
d_v = d unless given. Block sizes: block_m rows of Q (the papers' Br), block_n rows of K and V (the papers' Bc).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from course_lib import checks

ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def element_bytes(dtype: str | torch.dtype) -> int:
    """Bytes of one element of 'fp32', 'fp16', 'bf16', 'fp8' ... or of a torch dtype. tf32 is stored as fp32: 4 bytes."""
    if isinstance(dtype, torch.dtype):
        return dtype.itemsize
    return ELEMENT_BYTES[dtype]


class Flops(NamedTuple):
    """Floating-point operations: those of the two matmuls, and those of the softmax."""

    matmul: int
    softmax: int

    @property
    def total(self) -> int:
        """Of matmuls and softmax together."""
        return self.matmul + self.softmax


class Operations(NamedTuple):
    """Scalar operations beside the matmuls: exponentials, divisions, multiplications that correct or normalise."""

    exp: int
    divide: int
    rescale: int


@dataclass(frozen=True)
class Traffic:
    """Bytes moved between HBM and SRAM by the tensor's name: read from HBM, and written to it."""

    reads: dict[str, int]
    writes: dict[str, int]

    @property
    def read_bytes(self) -> int:
        """Bytes read from HBM, of all tensors together."""
        return sum(self.reads.values())

    @property
    def write_bytes(self) -> int:
        """Bytes written to HBM, of all tensors together."""
        return sum(self.writes.values())

    @property
    def total_bytes(self) -> int:
        """Bytes in both directions."""
        return self.read_bytes + self.write_bytes

    def times(self, count: int) -> "Traffic":
        """The traffic of ``count`` heads, or repetitions; none for 0."""
        reads = {name: size * count for name, size in self.reads.items()}
        return Traffic(reads, {name: size * count for name, size in self.writes.items()})


def _blocks(length: int, block: int | None) -> int:
    """How many blocks cover ``length``: ⌈length / block⌉; None means one block."""
    return 1 if block is None else -(-length // block)


def attention_flops(n: int, d: int, n_k: int | None = None, d_v: int | None = None) -> Flops:
    """2·n·n_k·d + 2·n·n_k·d_v for the matmuls, and 5 for each score: max, subtract, exp, add, divide.

    The same for standard and flash attention: they differ in bytes, not in arithmetic.
    """
    n_k, d_v = n_k or n, d_v or d
    return Flops(matmul=2 * n * n_k * (d + d_v), softmax=5 * n * n_k)


def tiled_matmul_traffic(
    m: int, n: int, k: int, block_m: int, block_n: int, dtype: str | torch.dtype = "fp32"
) -> Traffic:
    """C [m, n] = A [m, k] B [k, n] by tiles [block_m, block_n] of C, whatever the step along k.

    A is read once for each column of tiles, ⌈n / block_n⌉ times; B once for each row of them, ⌈m / block_m⌉ times.
    """
    e = element_bytes(dtype)
    across, down = _blocks(n, block_n), _blocks(m, block_m)
    return Traffic(reads={"A": across * m * k * e, "B": down * k * n * e}, writes={"C": m * n * e})


def standard_attention_traffic(
    n: int,
    d: int,
    dtype: str | torch.dtype = "fp32",
    n_k: int | None = None,
    d_v: int | None = None,
    block_m: int | None = None,
) -> Traffic:
    """Three passes with S and P [n, n_k] in HBM (FlashAttention paper, Algorithm 0).

    block_m rows of Q are in SRAM at a time, so K and V are read ⌈n / block_m⌉ times. block_m = None is the best case,
    each operand of a matmul read once: 4nd + 4n² elements for a square head, the paper's Θ(nd + n²).
    """
    n_k, d_v = n_k or n, d_v or d
    e, t = element_bytes(dtype), _blocks(n, block_m)
    reads = {"Q": n * d * e, "K": t * n_k * d * e, "S": n * n_k * e, "P": n * n_k * e, "V": t * n_k * d_v * e}
    return Traffic(reads, writes={"S": n * n_k * e, "P": n * n_k * e, "O": n * d_v * e})


def compulsory_traffic(n: int, d: int, dtype: str | torch.dtype = "fp32") -> Traffic:
    """What no algorithm can avoid: Q, K and V read once, O written once."""
    size = n * d * element_bytes(dtype)
    return Traffic(reads={"Q": size, "K": size, "V": size}, writes={"O": size})


class _Visits(NamedTuple):
    """Of all pairs of blocks that a loop over blocks of queries visits, summed: keys, rows, and scores (rows × keys)."""

    key_rows: int
    rows: int
    scores: int


def _visits(n: int, block_m: int, block_n: int, causal: bool) -> _Visits:
    """Each of the T = ⌈n / block_m⌉ blocks of queries meets all keys or, if causal, those blocks of keys that its last row sees.

    In O(log n), so that no length is too long.
    """
    blocks, per_row = _blocks(n, block_m), _blocks(n, block_n)
    if not causal:
        return _Visits(key_rows=blocks * n, rows=n * per_row, scores=n * n)
    # The j-th block but the last one meets ⌈j · block_m / block_n⌉ blocks of keys; the last one meets all.
    whole, last = blocks - 1, n - (blocks - 1) * block_m
    pairs = _sum_of_floors(whole, block_m, block_n, block_m + block_n - 1)
    with_the_last_keys = whole - min(whole, (per_row - 1) * block_n // block_m)
    keys = pairs * block_n - with_the_last_keys * (per_row * block_n - n)
    return _Visits(key_rows=keys + n, rows=pairs * block_m + per_row * last, scores=keys * block_m + n * last)


def _sum_of_floors(terms: int, step: int, over: int, start: int) -> int:
    """Σ ⌊(start + i · step) / over⌋ for i = 0 … terms - 1, as Euclid's algorithm goes; all numbers at least 0, over above 0."""
    total = 0
    while terms:
        total += terms * (start // over) + terms * (terms - 1) // 2 * (step // over)
        start, step = start % over, step % over
        last = start + step * terms
        terms, start, step, over = last // over, last % over, over, step
    return total


def flash_v1_traffic(
    n: int,
    d: int,
    block_n: int,
    dtype: str | torch.dtype = "fp32",
    *,
    block_m: int | None = None,
    causal: bool = False,
    split: int = 1,
    softmax: bool = True,
) -> Traffic:
    """FlashAttention's Algorithm 1 as printed: the outer loop holds a block of K and V.

    Every inner step reads Q_i, O_i, l_i, m_i and writes O_i, l_i, m_i (lines 8, 12, 13), so each crosses
    ⌈n / block_n⌉ times. O accumulates in HBM in at least fp32, l and m are fp32 vectors [n]; setting them to 0, 0 and
    -inf first (line 2) is not counted. ``causal`` skips the pairs above the diagonal; ``split`` cuts the queries among
    that many programs, each of which reads K and V; both need block_m. softmax=False: the linear version, no l and m.
    """
    e, wide = element_bytes(dtype), max(4, element_bytes(dtype))
    block_m = block_m or n
    rows = _visits(n, block_m, block_n, causal).rows
    per_program = _blocks(_blocks(n, block_m), split)
    # A program reads what the last of its blocks of queries sees.
    key_rows = _visits(n, per_program * block_m, block_n, causal).key_rows
    state = {"O": rows * d * wide}
    if softmax:
        state |= {"l": rows * wide, "m": rows * wide}
    return Traffic(reads={"Q": rows * d * e, "K": key_rows * d * e, "V": key_rows * d * e} | state, writes=dict(state))


def flash_v2_traffic(
    n: int,
    d: int,
    block_m: int,
    dtype: str | torch.dtype = "fp32",
    n_k: int | None = None,
    *,
    block_n: int | None = None,
    causal: bool = False,
    lse: bool = False,
) -> Traffic:
    """FlashAttention-2's Algorithm 1: the outer loop holds a block of Q, its O, m and l stay in SRAM.

    K and V stream past each of the ⌈n / block_m⌉ blocks of Q; O is written once. The Lite and Online kernels, too.
    ``causal`` skips the blocks of keys above the diagonal and needs block_n; ``lse`` adds the writing of L (line 15).
    """
    n_k = n_k or n
    e = element_bytes(dtype)
    key_rows = _visits(n, block_m, block_n or n, causal).key_rows if causal else _blocks(n, block_m) * n_k
    writes = {"O": n * d * e} | ({"L": n * max(4, e)} if lse else {})
    return Traffic(reads={"Q": n * d * e, "K": key_rows * d * e, "V": key_rows * d * e}, writes=writes)


ORDERS = ("V1", "running", "V2")


def attention_operations(order: str, n: int, d_v: int, block_m: int, block_n: int, causal: bool = False) -> Operations:
    """Exponentials, divisions and rescalings of 'V1', 'V2' or the 'running' form that normalises at every block.

    A pair of blocks has one exponential for each score. Per row of a pair: 'V1' (Algorithm 1 of FlashAttention, lines 10
    to 12) has two corrections, each applied to l and to a row of O, and normalises the row of O; 'running' has one
    correction, and normalises the old and the new part; 'V2' (Algorithm 1 of FlashAttention-2, lines 9, 10) has one
    correction for l and O, and normalises each row of O once, at the end (line 12). To normalise a row is one division,
    1 / l, and a multiplication for each element.
    """
    checks.one_of("order", order, ORDERS)
    _, rows, scores = _visits(n, block_m, block_n, causal)
    if order == "V1":
        return Operations(exp=scores + 2 * rows, divide=rows, rescale=rows * (2 + 3 * d_v))
    if order == "running":
        return Operations(exp=scores + rows, divide=rows, rescale=rows * (3 + 2 * d_v))
    return Operations(exp=scores + rows, divide=n, rescale=rows * (1 + d_v) + n * d_v)


BACKWARD_ORDERS = ("outer loop over K/V", "outer loop over Q", "two passes")


def backward_traffic(
    order: str,
    n: int,
    d: int,
    block_m: int,
    block_n: int,
    dtype: str | torch.dtype = "fp32",
    *,
    causal: bool = False,
) -> Traffic:
    """The backward pass of flash attention, with D = rowsum(dO ∘ O) computed first, from O and dO (FA2's Algorithm 2, without
    the O_i that its inner loop loads and does not use).

    'outer loop over K/V': dK and dV are written once, dQ is read and written in at least fp32 for each pair of blocks, and Q, dO,
    L and D are read for each pair. 'outer loop over Q': dQ is written once, dK and dV are read and written for each pair.
    'two passes': each gradient is written once, and what a pass streams is read for its own loop.
    """
    checks.one_of("order", order, BACKWARD_ORDERS)
    e, wide = element_bytes(dtype), max(4, element_bytes(dtype))
    key_rows, rows, _ = _visits(n, block_m, block_n, causal)
    reads = dict.fromkeys(("Q", "K", "V", "O", "dO", "L", "D"), 0) | {"O": n * d * e, "dO": n * d * e}
    writes = {"D": n * wide} | dict.fromkeys(("dQ", "dK", "dV"), n * d * e)
    if order != "outer loop over Q":
        for name, size in (("K", n * d * e), ("V", n * d * e), ("Q", rows * d * e), ("dO", rows * d * e)):
            reads[name] += size
        reads["L"], reads["D"] = rows * wide, rows * wide
    if order != "outer loop over K/V":
        for name, size in (("Q", n * d * e), ("dO", n * d * e), ("K", key_rows * d * e), ("V", key_rows * d * e)):
            reads[name] += size
        reads["L"], reads["D"] = reads["L"] + n * wide, reads["D"] + n * wide
    if order == "outer loop over K/V":
        reads["dQ"] = writes["dQ"] = rows * d * wide
    if order == "outer loop over Q":
        reads |= {"dK": key_rows * d * wide, "dV": key_rows * d * wide}
        writes |= {"dK": key_rows * d * wide, "dV": key_rows * d * wide}
    return Traffic(reads, writes)


def flash_v1_blocks(sram_elements: int, d: int) -> tuple[int, int]:
    """(Br, Bc) of FlashAttention's Algorithm 1, line 1: Bc = ⌈M / 4d⌉, Br = min(⌈M / 4d⌉, d), M in elements."""
    block_n = _blocks(sram_elements, 4 * d)
    return min(block_n, d), block_n


def attention_memory(n: int, d: int, dtype: str | torch.dtype = "fp32", algorithm: str = "standard") -> int:
    """Bytes of HBM that one head must allocate besides its inputs.

    'standard': the scores S and the probabilities P, [n, n] each; 'flash': the output O [n, d] alone. It is the source's
    count (data/reported/attention_gpu.csv), which leaves O out of 'standard'.
    """
    return (2 * n * n if algorithm == "standard" else n * d) * element_bytes(dtype)

"""Lecture 03: a tiled matmul that keeps a strip of A in SRAM, and moves no more bytes than that needs."""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness.guarded_memory import GuardedMemory
from course_lib.model.cost import Traffic
from course_lib.model.memory import Memory

ASKED = r"""
A is [64, 8], B is [8, 64], tiles of C are 16 × 16, float32. The loop of this lecture loads A four times, 8,192 bytes: once for each
block column of C. But k = 8 is short, as the head dimension of attention is. So one more dimension may stay in SRAM: a **strip** of
`bm` rows of A, with all k columns, while the block columns of C pass.

Write this loop. A [m, k], B [k, n] and C [m, n] lie in the HBM of `memory`, C is full of NaN. Load A once in all (2,048 bytes above),
and B once for each strip of A, ⌈m / bm⌉ times; store C once and load nothing of it. The SRAM has room for a strip [bm, k] of A, a strip
[k, bn] of B and a tile [bm, bn] of C; a copy of one would need room, too. `bm` and `bn` need not divide m and n; a slice
ends with its matrix. Return nothing.

Here is one tile of C, of two rows and three columns; `C.data.shape` is (m, n):

```python
with memory.scope("tile"):  # what comes to SRAM in this block leaves it at its end
    a, b = memory.load(A[0:2, :]), memory.load(B[:, 0:3])
    c = memory.tile("C_ij", memory.matmul(a, b))  # a computed tile needs a place, too
    memory.store(C[0:2, 0:3], c)
```

Numbers that are not in SRAM are NaN in the check. It reads off `memory` the bytes, the place of each tile of C, and the operations.
"""

STUB = '''
from course_lib.model.memory import HBMTensor, Memory


def tile_traffic(memory: Memory, A: HBMTensor, B: HBMTensor, C: HBMTensor, bm: int, bn: int) -> None:
    """C [m, n] = A [m, k] B [k, n] in tiles of bm × bn, each strip of A loaded once."""
    ...
'''


def run(function: Callable[..., object], case: Case) -> tuple[str, torch.Tensor, dict[str, Any]]:
    """What never moved, C, and what crossed between HBM and SRAM: {'reads', 'writes', 'past': what was done past the memory}."""
    a, b, bm, bn = case.args
    (m, k), n = a.shape, b.shape[1]
    memory = GuardedMemory(4 * (bm * k + k * bn + bm * bn))
    C = memory.hbm_empty("C", (m, n))
    function(memory, memory.hbm("A", a), memory.hbm("B", b), C, bm, bn)
    traffic = memory.traffic()
    past = "" if _wrong_bytes(case, traffic) else _past_the_memory(memory, 2 * m * n * k)
    moved = {"reads": traffic.reads, "writes": traffic.writes, "past": past}
    return memory.never_moved(), memory.stored("C"), moved


def remark(case: Case, result: tuple[str, torch.Tensor, dict[str, Any]]) -> str:
    """Wrong bytes, or right ones with work that the memory was not told of."""
    moved = result[2]
    return _wrong_bytes(case, Traffic(moved["reads"], moved["writes"])) or moved["past"]


def _past_the_memory(memory: Memory, operations: int) -> str:
    """Tiles of C that were stored without a place in SRAM, and operations that were not counted."""
    placed: dict[str, int] = {}
    words = ""
    for event in memory.trace:
        if event.op == "tile":
            placed[event.tensor] = event.bytes
        elif event.op == "free":
            placed.pop(event.tensor, None)
        elif event.op == "store" and sum(placed.values()) < event.bytes:
            words = 'product and bytes are right, but a tile of C is stored that has no place in SRAM: memory.tile("C_ij", c)'
    if (counted := memory.flops().matmul) < operations:
        words += "; " if words else "product and bytes are right, but "
        words += f"only {counted:,} of {operations:,} operations are counted: memory.matmul counts them, @ does not"
    return words


def _wrong_bytes(case: Case, traffic: Traffic) -> str:
    """Too many bytes, or fewer than there are."""
    a, b, bm, bn = case.args
    strips, needed = len(a.split(bm)), a.element_size() * len(a) * b.shape[1]
    for name, matrix, times in (("A", a, 1), ("B", b, strips)):
        found = traffic.reads.get(name, 0)
        if found < matrix.nbytes:
            return f"the product is right, but only {found:,} of the {matrix.nbytes:,} bytes of {name} were loaded from HBM"
        if found > matrix.nbytes * times:
            often = f"{_times(found / (matrix.nbytes * times))} as often as needed"
            return f"right, but you read {name} {often}: {found:,} bytes, where {matrix.nbytes * times:,} are enough"
    least = b.nbytes + (strips - 1) * (b.nbytes - b[:, :bn].nbytes)  # one strip of B may stay for the next strip of A
    if traffic.reads["B"] < least:
        return f"the product is right, but only {traffic.reads['B']:,} bytes of B were loaded: what has left the SRAM is gone"
    if back := traffic.reads.get("C", 0):
        return f"right, but {back:,} bytes of C are read back; its tile can stay in SRAM until it is finished"
    stored = traffic.writes.get("C", 0)
    if stored < needed:
        return f"the product is right, but only {stored:,} of the {needed:,} bytes of C were stored to HBM"
    if stored > needed:
        return f"right, but you write C {_times(stored / needed)} as often as needed: {stored:,} bytes, where {needed:,} are enough"
    return ""


def _times(ratio: float) -> str:
    return "twice" if ratio == 2 else f"{ratio:.3g} times"


EXERCISE = Exercise(
    name="tile_traffic",
    lecture="03",
    title="a tiled matmul that reads A once",
    level=2,
    minutes=13,
    asked=ASKED,
    stub=STUB,
    run=run,
    apart=True,
    remark=remark,
    parts=("never loaded, nor stored to", "C", "bytes moved"),
    answers=("course_lib.algorithms.matmul.tiled_matmul",),
    hints=(
        "Two loops, no third: with a strip [bm, k] of A and a strip [k, bn] of B in SRAM, a tile of C is one matmul.",
        "The outer loop walks the strips of A, range(0, m, bm), and loads each before the inner loop over the strips of B begins.",
        "A scope that is open while another one opens and ends keeps what it has loaded. So which of the two holds the strip of "
        "A, and in which loop do b and c come and go? A tile of C needs its place before the store.",
    ),
)

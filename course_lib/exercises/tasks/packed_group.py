"""Lecture 06: V2 on the simulated memory, with the queries of a group of heads packed into one block."""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness.guarded_memory import GuardedMemory

ASKED = r"""
With few queries V2's blocks are nearly empty. In *grouped-query attention* `G` heads of queries share one head of keys and values, so
their queries can be *packed* into one block: with 2 tokens, 4 heads and blocks of 8 queries $K$ and $V$ pass once instead of 4 times.
Write V2's loops for such rows. Row $t G + h$ of `Q` and of `O`, [N G, d], is head $h$ of token $t$. `K` and `V` [n, d] have a row for each
of $n \ge N$ tokens, of which ours are the last N: token $t$ sees the keys 0 to $n - N + t$. A block of queries is `block_m` rows of Q,
whatever their tokens. It stores its rows of O once, and loads a block of `block_n` keys, once, only if one of its rows sees one of them.
The scale is $1/\sqrt d$.

All lie in the HBM of `memory`, float32. The SRAM takes a block each of Q, K and V, two of O, two of scores, and $\ell$ and $m$. What you
load, and each copy of it, stays until its scope ends; what you compute needs no `memory.tile` here. Numbers that are not in the SRAM
are NaN, and so is O until you store to it. Nothing need be a multiple of anything; a slice may reach past the end, and scores may be as
low as $-10^{38}$. Return nothing: O and the bytes are read off `memory`.

```python
with memory.scope("keys"):  # what is loaded in this block leaves the SRAM at its end
    k, v = memory.load(K[0:2]), memory.load(V[0:2])
memory.store(O[0:4], o)  # o: a tensor of 4 rows; Q.data.shape is the shape of Q
```
"""

STUB = '''
def packed_group(memory, Q, K, V, O, G: int, block_m: int, block_n: int) -> None:
    """Causal attention of the last tokens into O, on the simulated memory: V2's loops, with G heads packed into the rows of Q."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> tuple[str, torch.Tensor, str]:
    q, k, v, group, block_m, block_n = case.args
    d = q.shape[1]
    memory = GuardedMemory(4 * (3 * block_m * d + 2 * block_n * d + 2 * block_m * block_n + 8 * block_m))
    inputs = [memory.hbm(name, x) for name, x in (("Q", q), ("K", k), ("V", v))]
    function(memory, *inputs, memory.hbm_empty("O", q.shape), group, block_m, block_n)
    return memory.never_moved(), memory.stored("O"), _crossings(memory, case)


def _crossings(memory: GuardedMemory, case: Case) -> str:
    """In words what crossed more often, or less, than it has to; '' if nothing did."""
    q, k, _, group, block_m, block_n = case.args
    moved = memory.traffic()
    row = 4 * q.shape[1]  # bytes
    seen = [
        len(k) - len(q) // group + (min(first + block_m, len(q)) - 1) // group + 1
        for first in range(0, len(q), block_m)
    ]
    least = row * sum(seen)
    most = row * sum(min(len(k), -(-keys // block_n) * block_n) for keys in seen)
    bounds = {"Q": (q.nbytes, q.nbytes), "K": (least, most), "V": (least, most)}
    for name, (low, high) in bounds.items():
        found = moved.reads.pop(name, 0)
        if found > high:
            return f"{found:,} bytes of {name} are loaded, {high:,} are enough"
        if found < low:
            return f"{found:,} bytes of {name} are loaded, and {low:,} are needed"
    if moved.reads:
        return f"{', '.join(moved.reads)} is loaded, too"
    written = moved.writes.pop("O", 0)
    if moved.writes or written != q.nbytes:
        return f"{written:,} bytes of O are stored, of {q.nbytes:,}" + "".join(f", and {x}" for x in moved.writes)
    return ""


EXERCISE = Exercise(
    name="packed_group",
    lecture="06",
    title="the heads of a group in one block",
    level=3,
    minutes=30,
    asked=ASKED,
    stub=STUB,
    run=run,
    apart=True,
    tolerance=1e-4,
    parts=("never loaded, nor stored to", "O", "bytes"),
    hints=(
        "Packing costs nothing where rows of Q lie so that a block of them is a slice. Which token does row 5 belong to, if G = 4? Which "
        "keys does it see?",
        "V2: for each block of rows load q, and let o and l start at 0 and m at −∞, plain tensors of len(q) rows; then walk over the keys. "
        "Only the last row of the block decides where the walk may end; the mask belongs to each row.",
        "token = (first + torch.arange(len(q))) // G. A score is −∞ where its key's number exceeds n − N + token, and that before the "
        "maximum is taken. Every row sees key 0, so m is finite after the first block.",
    ),
)

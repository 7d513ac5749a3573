"""Lecture 06: from V1's loops to V2's on the simulated memory, checked by the output and by the bytes."""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.guarded_memory import GuardedMemory

ASKED = r"""
Turn V1 into V2. With 8 queries and 8 keys in blocks of 2, V1 reads and writes $O$, $\ell$ and $m$ 4 times, once for
each block of keys. V2 stores each block of $O$ once and never reads it.

```python
for start in range(0, K.data.shape[0], block_n):  # V1; at first O = 0, l = 0, m = -inf in HBM
    cols = slice(start, start + block_n)
    with memory.scope("keys"):
        k, v = memory.load(K[cols]), memory.load(V[cols])
        for first in range(0, Q.data.shape[0], block_m):
            rows = slice(first, first + block_m)
            with memory.scope("queries"):
                q, o, l_i, m_i = (memory.load(x[rows]) for x in (Q, O, l, m))
                s = q @ k.T / math.sqrt(q.shape[1])
                m_new = torch.maximum(m_i, s.amax(dim=1))  # the paper takes p from s.amax alone, and corrects p @ v, too
                p, factor = torch.exp(s - m_new[:, None]), torch.exp(m_i - m_new)
                l_new = l_i * factor + p.sum(dim=1)
                memory.store(O[rows], (o * (l_i * factor)[:, None] + p @ v) / l_new[:, None])
                memory.store(l[rows], l_new)
                memory.store(m[rows], m_new)
```

`Q` [N, d], `K` [n, d], `V` [n, d] and `O` [N, d] lie in the HBM of `memory`, float32; `O` holds NaN until you store
to it. In V2 $\ell$ and $m$ are plain tensors on the chip. The SRAM takes a block each of Q, K and V, two of O and two
of scores, and $\ell$ and $m$; what you load stays until its scope ends. Numbers that are not in the SRAM, those of `Q.data`
too, are NaN in the check. N and n need not be multiples of the blocks; a slice may reach past the end. Return nothing:
`O` and the bytes are read off `memory`, so load and store all with it.
(V2 also divides by $\ell$ only once, at the end; that is not checked.)
"""

STUB = '''
def v2_from_v1(memory, Q, K, V, O, block_m: int, block_n: int) -> None:
    """softmax(Q Kᵀ / √d) V into O, on the simulated memory: outer loop over Q, each block of O stored once."""
    ...
'''


def run(function: Callable[..., Any], case: Case) -> tuple[str, torch.Tensor, dict[str, float]]:
    q, k, v, block_m, block_n = case.args
    d = q.shape[1]
    memory = GuardedMemory(4 * (3 * block_m * d + 2 * block_n * d + 2 * block_m * block_n + 8 * block_m))
    inputs = [memory.hbm(name, x) for name, x in (("Q", q), ("K", k), ("V", v))]
    O = memory.hbm_empty("O", q.shape)
    function(memory, *inputs, O, block_m, block_n)
    moved = memory.traffic()
    crossings = {f"{x.name} read": moved.reads.pop(x.name, 0) / (4 * x.data.numel()) for x in (*inputs, O)}
    crossings["O written"] = moved.writes.pop("O", 0) / (4 * O.data.numel())
    crossings["bytes of any other tensor"] = float(moved.total_bytes)
    for x in inputs[1:]:
        loads = sum(event.op == "load" and event.tensor == x.name for event in memory.trace)
        crossings[f"loads of {x.name}, each of a block"] = float(loads)
    return memory.never_moved(), memory.stored("O"), crossings


EXERCISE = Exercise(
    name="v2_from_v1",
    lecture="06",
    title="V2 from V1",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    run=run,
    tolerance=1e-4,
    parts=("never loaded, nor stored to", "O", "how often each crosses"),
    hints=(
        "With the outer loop over Q, which of V1's loads move to the outer loop? Which do you no longer need, because "
        "it is still there?",
        "For each block of queries: load q, and let o and l start at 0 and m at −∞, plain tensors of len(q) rows. "
        "The inner loop loads k and v and has V1's lines, without a store.",
        "Inside: o = o * factor[:, None] + p @ v and l = l * factor + p.sum(dim=1), then m = m_new. After the inner "
        "loop, in the scope of the queries: memory.store(O[rows], o / l[:, None]).",
    ),
)

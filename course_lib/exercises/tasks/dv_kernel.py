"""Lecture 07: dV = Pᵀ dO under a causal mask, as a Triton kernel that recomputes P."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import accesses
from course_lib.kernels import triton

ASKED = r"""
Write a kernel for $dV = P^\top dO$ under a causal mask: query $i$ sees the keys $j \le i$, so $P_{ij} = e^{S_{ij} - L_i}$ with
$S = QK^\top \cdot$ `scale` for these, and 0 for the others. $L$, a natural logarithm over the keys that are seen, is given. A score that
the mask hides may be far above all others.

A program owns `BLOCK` keys and stores its rows of $dV$ once; the grid is (⌈n / BLOCK⌉,). It loads no block of queries of which none sees
any of its keys: with 40 tokens and `BLOCK` = 16 three programs walk over 3, 2 and 1 blocks.

Q, K, dO and dV are [n, D], L is [n]: float32, contiguous, in row order. Here `D` is $d$, the length of a row, a power of two; n need not
be a multiple of `BLOCK`; `scale` is $1/\sqrt D$. Pass `input_precision="ieee"` to `tl.dot`. The check runs in Triton's interpreter,
counts the queries that are loaded, and watches that nothing beside the tensors is read or written.
"""

STUB = '''
@triton.jit
def dv_kernel(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """dV [n, D] = Pᵀ dO, float32, with causal P = exp(scale · Q Kᵀ − L) recomputed; one block of keys per program."""
    ...
'''

HIDDEN = "also blocks of queries that see none of the keys"
AGAIN = "a block of queries more often than once in a program"


def run(kernel: Any, case: Case) -> tuple[torch.Tensor, str]:
    """dV, and in words which queries were loaded without need; '' for none."""
    q, k, L, do = case.args
    n, d = q.shape
    dv = torch.full(k.shape, float("nan"))
    block = case.options.get("BLOCK", 16)
    with (
        accesses.stored() as counts,
        accesses.loaded() as numbers,
        accesses.loads_of_at_most(block * d, "BLOCK rows of D numbers"),
    ):
        kernel[(triton.cdiv(n, block),)](q, k, L, do, dv, n, d**-0.5, D=d, BLOCK=block)
    if sum(counts) > dv.numel() and not dv.isnan().any():
        raise RuntimeError(
            f"dV has {dv.numel():,} numbers, {sum(counts):,} were stored: keep the sum on the chip, store it once"
        )
    needed = d * sum(n - first for first in range(0, n, block))
    times = [numbers[x] for x in ("q_ptr", "do_ptr") if x in numbers]
    if any(x.max() > triton.cdiv(n, block) for x in times):
        return dv, AGAIN
    return dv, HIDDEN if any(x.sum() > needed for x in times) else ""


EXERCISE = Exercise(
    name="dv_kernel",
    lecture="07",
    title="dV under a causal mask",
    level=3,
    minutes=30,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("dV", "loads"),
    arguments=("Q", "K", "L", "dO"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "L_ptr", "do_ptr", "dv_ptr"), "*fp32")
    | {"n": "i32", "scale": "fp32", "D": 16, "BLOCK": 16},
    tolerance=2e-4,
    hints=(
        "What is stationary in a program, what is streamed? A block of K and one accumulator, dV, both [BLOCK, D], stay. Q, dO and L "
        "stream past, BLOCK queries at a time. Which is the first query that sees the program's first key?",
        "Along a row of S lie keys, down a column queries; for dV the keys have to be the rows. So P is transposed, or made as "
        "[keys, queries] from the beginning. Two masks: the triangle on the diagonal, and the end of the sequence.",
        "What is P where a query does not exist, for the number that you load in place of its L? And where a key is hidden: "
        "e^(S − L) may be ∞ there, so choose 0 in its place, for ∞ times 0 is NaN.",
    ),
)

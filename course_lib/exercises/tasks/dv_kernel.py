"""Lecture 07: dV = Pᵀ dO as a Triton kernel that recomputes P."""

from typing import Any

import torch

from course_lib.exercises import accesses
from course_lib.exercises.base import Case, Exercise
from course_lib.kernels import triton

ASKED = r"""
Write a kernel for $dV = P^\top dO$ that recomputes $P_{ij} = e^{S_{ij} - L_i}$ with $S = QK^\top \cdot$ `scale`. With
40 queries, 20 keys and `BLOCK` = 16, two programs each walk over three blocks of queries. A program owns `BLOCK` keys
and stores its rows of $dV$ once; the grid is (⌈n_k / BLOCK⌉,). Q and dO are [n_q, D], K and dV are [n_k, D], L is
[n_q]: float32, contiguous, in row order. $L$ is a natural logarithm. Here `D` is $d$, the length of a row, a power of two; n_q
and n_k need not be multiples of `BLOCK`; `scale` is $1/\sqrt D$. Pass `input_precision="ieee"` to `tl.dot`. The check
runs in Triton's interpreter, and watches that nothing beside the tensors is read or written.
"""

STUB = '''
@triton.jit
def dv_kernel(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """dV [n_k, D] = Pᵀ dO, float32, with P = exp(scale · Q Kᵀ − L) recomputed; one block of keys per program."""
    ...
'''


def run(kernel: Any, case: Case) -> torch.Tensor:
    q, k, L, do = case.args
    (n_q, d), n_k = q.shape, len(k)
    dv = torch.full(k.shape, float("nan"))
    block = case.options.get("BLOCK", 16)
    with accesses.stored() as counts, accesses.loads_of_at_most(block * d, "BLOCK rows of D numbers"):
        kernel[(triton.cdiv(n_k, block),)](q, k, L, do, dv, n_q, n_k, d**-0.5, D=d, BLOCK=block)
    if sum(counts) > dv.numel() and not dv.isnan().any():
        raise RuntimeError(
            f"dV has {dv.numel():,} numbers, {sum(counts):,} were stored: keep the sum on the chip, store it once"
        )
    return dv


EXERCISE = Exercise(
    name="dv_kernel",
    lecture="07",
    title="dV from a recomputed P",
    level=3,
    minutes=30,
    asked=ASKED,
    stub=STUB,
    run=run,
    arguments=("Q", "K", "L", "dO"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "L_ptr", "do_ptr", "dv_ptr"), "*fp32")
    | {"n_q": "i32", "n_k": "i32", "scale": "fp32", "D": 16, "BLOCK": 16},
    tolerance=1e-4,
    hints=(
        "What is stationary in a program, what is streamed? Stationary: a block of K and one accumulator, dV, both [BLOCK, D]. Q, dO and "
        "L stream past, BLOCK queries at a time. Which side of S do the queries have, and which has dV?",
        "keys = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK); the loop is over start in range(0, n_q, BLOCK). "
        "s = tl.dot(q, tl.trans(k), input_precision='ieee') * scale is [queries, keys]; p = tl.exp(s - L[:, None]). "
        "For dV the keys have to be the rows: transpose p, and add to one sum [BLOCK, D].",
        "dv = tl.dot(tl.trans(p), do, dv, input_precision='ieee'). Load q and do with mask rows[:, None] < n_q and "
        "other=0.0, and L with other=float('inf'): p is then 0 beyond the last query. The mask of k and of the "
        "store is keys[:, None] < n_k.",
    ),
)

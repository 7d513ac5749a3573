"""Lecture 03: a tiled matmul with a transposed matrix, as a Triton kernel."""

from typing import Any

import torch

from course_lib import runtime
from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness.accesses import loads_of_at_most
from course_lib.kernels import triton

ASKED = r"""
The scores of attention are $QK^\top$, and $K$ lies in memory as $Q$ does, row by row. Write a kernel for $C = AB^\top$: A is [M, K], B is
[N, K], so that $C_{ij} = \sum_k A_{ik} B_{jk}$, and C is [M, N], all float32, contiguous, in row order. Nobody transposes B beforehand. A
program makes one tile of `BLOCK` × `BLOCK` of C; the grid is (⌈M / BLOCK⌉, ⌈N / BLOCK⌉). `BLOCK` is 16 or 32, and M, N and K need not be
multiples of it. Pass `input_precision="ieee"` to `tl.dot`, as our kernel does: without it a GPU cuts the inputs short. The check runs in
Triton's interpreter, and watches that nothing beside the matrices is read or written.
"""

STUB = '''
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """C [M, N] = A [M, K] Bᵀ with B [N, K], float32; one tile of C per program."""
    ...
'''


def run(kernel: Any, case: Case) -> torch.Tensor:
    a, b = (x.to(runtime.device()) for x in case.args)
    (m, k), n = a.shape, len(b)
    c = torch.full((m, n), float("nan"), device=a.device)
    block = case.options.get("BLOCK", 16)
    with loads_of_at_most(block**2, "BLOCK × BLOCK numbers"):
        kernel[(triton.cdiv(m, block), triton.cdiv(n, block))](a, b, c, m, n, k, BLOCK=block)
    return c.cpu()


EXERCISE = Exercise(
    name="matmul_kernel",
    lecture="03",
    title="a matmul with a transposed matrix",
    level=2,
    minutes=15,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    arguments=("A", "B"),
    compiles=dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32") | {"M": "i32", "N": "i32", "K": "i32", "BLOCK": 16},
    hints=(
        "Program (i, j) makes tile (i, j) of C. It needs block i of A's rows, and of B what: rows or columns? In which pieces along K?",
        "Row j of B is column j of Bᵀ: element (k, j) of Bᵀ lies at j · K + k. Either build the table of addresses so that the tile comes "
        "as [inner, cols], or load it as it lies, [cols, inner], and hand its tl.trans to tl.dot.",
        "Every tile has two dimensions, and each of them may be ragged: which two does a tile of B have? Zeros beyond the end of K add "
        "nothing to the sum, so load with other=0.0; only the store decides what becomes of rows and columns beyond C.",
    ),
)

"""Lecture 03: a tiled matmul as a Triton kernel."""

from typing import Any

import torch

from course_lib import runtime
from course_lib.exercises.accesses import loads_of_at_most
from course_lib.exercises.base import Case, Exercise
from course_lib.kernels import triton

ASKED = r"""
Write a kernel for $C = AB$ with tiles of `BLOCK` × `BLOCK`: A is [M, K], B is [K, N], C is [M, N], all float32 and contiguous, all in row
order. A program makes one tile of C; the grid is (⌈M / BLOCK⌉, ⌈N / BLOCK⌉). `BLOCK` is 16 or 32, and
the sizes need not be multiples of it. Pass
`input_precision="ieee"` to `tl.dot`, as our kernel does: without it a GPU cuts the inputs short. The check runs in Triton's interpreter,
and watches that nothing beside the matrices is read or written.
"""

STUB = '''
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """C [M, N] = A [M, K] B [K, N], float32; one tile of C per program."""
    ...
'''


def run(kernel: Any, case: Case) -> torch.Tensor:
    a, b = (x.to(runtime.device()) for x in case.args)
    (m, k), n = a.shape, b.shape[1]
    c = torch.full((m, n), float("nan"), device=a.device)
    block = case.options.get("BLOCK", 16)
    with loads_of_at_most(block**2, "BLOCK × BLOCK numbers"):
        kernel[(triton.cdiv(m, block), triton.cdiv(n, block))](a, b, c, m, n, k, BLOCK=block)
    return c.cpu()


EXERCISE = Exercise(
    name="matmul_kernel",
    lecture="03",
    title="a tiled matmul kernel",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    run=run,
    arguments=("A", "B"),
    compiles=dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32") | {"M": "i32", "N": "i32", "K": "i32", "BLOCK": 16},
    hints=(
        "Program (i, j) makes tile (i, j) of C. Which rows of A and which columns of B does it need? In which pieces do they come along K?",
        "rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), and the same for columns. Element (i, j) of a row-ordered [R, S] "
        "matrix lies at i · S + j. Loop over start in range(0, K, BLOCK) and add up tl.dot(a, b, acc, input_precision='ieee').",
        "Three masks: of A (rows < M and inner < K), of B (inner < K and columns < N), of C. Load with other=0.0: zeros add nothing.",
    ),
)

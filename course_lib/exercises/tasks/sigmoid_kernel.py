"""Lecture 04: an attention whose blocks may be added, as a Triton kernel."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness.accesses import loads_of_at_most
from course_lib.kernels import triton

ASKED = r"""
There are attentions that need no sum over a row. In *sigmoid attention* a weight depends on its own score alone: $O = PV$ with
$P_{ij} = \frac{1}{1 + e^{-x_{ij}}}$ and $x_{ij} = \text{scale} \cdot q_i k_j^\top + \text{bias}$. So blocks may simply be added, and
Lite's loop, which is wrong for the softmax, is right here. Write this kernel, with values that are wider or narrower than the keys:
Q [n_q, D], K [n_k, D], V [n_k, DV] and O [n_q, DV], all float32, contiguous, in row order. A program makes `BLOCK_M` rows of O and walks
over the keys in blocks of `BLOCK_N`; the grid is (⌈n_q / BLOCK_M⌉,). D and DV are 16, 32 or 64, the blocks 16 or 32, and n_q and n_k
need not be multiples of them. Scores may be in the thousands. Pass `input_precision="ieee"` to `tl.dot`. The check runs in Triton's
interpreter, and watches that nothing beside the matrices is read or written.
"""

STUB = '''
@triton.jit
def sigmoid_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """O [n_q, DV] = sigmoid(scale · Q Kᵀ + bias) V, float32; BLOCK_M rows of O per program."""
    ...
'''


def run(kernel: Any, case: Case) -> torch.Tensor:
    q, k, v, scale, bias = case.args
    (n_q, d), (n_k, dv) = q.shape, v.shape
    o = torch.full((n_q, dv), float("nan"))
    sizes = {"D": d, "DV": dv, "BLOCK_M": 16, "BLOCK_N": 32, **case.options}
    rows = max(sizes["BLOCK_M"], sizes["BLOCK_N"])
    with loads_of_at_most(rows * max(d, dv), "BLOCK_M or BLOCK_N rows of a matrix"):
        kernel[(triton.cdiv(n_q, sizes["BLOCK_M"]),)](q, k, v, o, n_q, n_k, scale, bias, **sizes)
    return o


EXERCISE = Exercise(
    name="sigmoid_kernel",
    lecture="04",
    title="an attention that may be added block by block",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    run=run,
    arguments=("Q", "K", "V", "scale", "bias"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp32")
    | {"n_q": "i32", "n_k": "i32", "scale": "fp32", "bias": "fp32", "D": 16, "DV": 32, "BLOCK_M": 16, "BLOCK_N": 32},
    tolerance=2e-5,
    hints=(
        "Which lines of the Lite kernel make weights of scores? They are replaced; the loop and the accumulator stay.",
        "Two widths: tl.arange(0, D) for the columns of Q and K, tl.arange(0, DV) for those of V, of O and of the accumulator. A row of V "
        "begins at key · DV.",
        "A key beyond the end has the score 0 + bias, and so a weight. What does it add if its row of V is loaded as zeros? And try "
        "both ways to write a sigmoid, e^x / (1 + e^x) and 1 / (1 + e^(−x)), for x = 1000.",
    ),
)

"""Lecture 05: Lite turned into Online, as a Triton kernel."""

from typing import Any

import torch

from course_lib import runtime
from course_lib.exercises.accesses import loads_of_at_most
from course_lib.exercises.base import Case, Exercise
from course_lib.kernels import triton

ASKED = r"""
For the scores 3, 2, 5, 1 and the values 10, 20, 30, 40 in blocks of two, Lite returns 42.87; attention is 27.49. Turn the Lite kernel of
lecture 04 into one that is exact, for one head: $O = \mathrm{softmax}(\text{scale} \cdot QK^\top)\,V$. Q and O are [n_q, D], K and V are
[n_k, D], all float32, contiguous, in row order. D is 16 or 32, so nothing has to be masked along it. A program makes
`BLOCK_M` rows of O and walks over the keys once, in blocks of `BLOCK_N`; both are 16 or 32, the grid is (⌈n_q / BLOCK_M⌉,), and n_q and
n_k need not be multiples. So a program reads K and V once, and holds one block of each. Pass `input_precision="ieee"` to `tl.dot`. In
Triton's interpreter the check watches that nothing beside the matrices is read or written, and no more at once than a block.
"""

STUB = '''
@triton.jit
def online_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """O [n_q, D] = softmax(scale · Q Kᵀ) V, float32; BLOCK_M rows of O per program."""
    ...
'''


def run(kernel: Any, case: Case) -> torch.Tensor:
    q, k, v = (x.to(runtime.device()) for x in case.args[:3])
    scale = case.args[3]
    o = torch.full_like(q, float("nan"))
    n_q, d = q.shape
    sizes = {"D": d, "BLOCK_M": 16, "BLOCK_N": 32, **case.options}
    with loads_of_at_most(max(sizes["BLOCK_M"], sizes["BLOCK_N"]) * d, "BLOCK_M or BLOCK_N rows of D numbers"):
        kernel[(triton.cdiv(n_q, sizes["BLOCK_M"]),)](q, k, v, o, n_q, len(k), scale, **sizes)
    return o.cpu()


EXERCISE = Exercise(
    name="online_kernel",
    lecture="05",
    title="from Lite to Online",
    level=3,
    minutes=30,
    asked=ASKED,
    stub=STUB,
    run=run,
    arguments=("Q", "K", "V", "scale"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp32")
    | {"n_q": "i32", "n_k": "i32", "scale": "fp32", "D": 16, "BLOCK_M": 16, "BLOCK_N": 32},
    tolerance=2e-5,
    hints=(
        "Keep Lite's loads, matmul and mask of the tail. Before the loop a program needs two vectors of BLOCK_M numbers more: m from −∞ "
        "and l from 0.",
        "In the loop: m_new is the maximum of m and the block's; p = exp(s − m_new); correction = exp(m − m_new). Rescale l and acc, then "
        "add, then m = m_new. Divide by l once, after the loop.",
        "l = l * correction + tl.sum(p, 1); acc = acc * correction[:, None]; acc += tl.dot(p, v, input_precision='ieee'); m = m_new. "
        "Where keys >= n_k the score is −∞ before the maximum is taken. Store acc / l[:, None] with mask rows < n_q.",
    ),
)

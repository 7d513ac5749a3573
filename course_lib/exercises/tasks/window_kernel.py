"""Lecture 05: attention with a sliding window as a Triton kernel."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.harness import accesses
from course_lib.kernels import triton

ASKED = r"""
In many models some layers let a token see only tokens that are near: query $i$ sees key $j$ if $i - w < j \le i$. With a `window` of
$w = 3$ query 5 sees the keys 3, 4 and 5, and query 1 the keys 0 and 1. Write a kernel for one head: $O$ is the softmax of
$\text{scale} \cdot QK^\top$ over the keys that a query sees, times $V$. Q, K, V and O are [n, D], float32, contiguous, in row order. A
program makes `BLOCK_M` rows of O, the grid is (⌈n / BLOCK_M⌉,). It holds one block of K and one of V at a time, and its time
grows as $n \cdot w$: cut the keys at multiples of `BLOCK_N` and count the blocks in which one of its queries sees a key: a program
loads no more keys than these hold, wherever its own blocks begin. D and blocks are 16 or 32, n is any number, and scores may be as low as
$-10^{38}$. Pass `input_precision="ieee"` to `tl.dot`. The check runs in Triton's interpreter, counts the keys that are loaded, and
watches that nothing beside the tensors is read or written.
"""

STUB = '''
@triton.jit
def window_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """O [n, D] of attention in which query i sees the keys i - window + 1 to i, float32; BLOCK_M rows per program."""
    ...
'''

HIDDEN = "also a block of which no query of the program sees a key"


def run(kernel: Any, case: Case) -> tuple[torch.Tensor, str]:
    """O, and in words which blocks of keys were loaded without need; '' for none."""
    q, k, v, scale, window = case.args
    n, d = q.shape
    sizes = {"D": d, "BLOCK_M": 16, "BLOCK_N": 16, **case.options}
    block_m, block_n = sizes["BLOCK_M"], sizes["BLOCK_N"]
    o = torch.full_like(q, float("nan"))
    with (
        accesses.loads_of_at_most(max(block_m, block_n) * d, "BLOCK_M or BLOCK_N rows of D numbers"),
        accesses.loaded() as numbers,
    ):
        kernel[(triton.cdiv(n, block_m),)](q, k, v, o, n, scale, window, **sizes)
    needed = d * sum(keys_needed(first, n, window, block_m, block_n) for first in range(0, n, block_m))
    return o, HIDDEN if any(numbers[x].sum() > needed for x in ("k_ptr", "v_ptr") if x in numbers) else ""


def keys_needed(first: int, n: int, window: int, block_m: int, block_n: int) -> int:
    """How many keys the blocks hold of which the queries from ``first`` on see one or more; by trying all, as this file is handed out."""
    queries = range(first, min(first + block_m, n))
    blocks = (range(start, min(start + block_n, n)) for start in range(0, n, block_n))
    return sum(len(keys) for keys in blocks if any(i - window < j <= i for i in queries for j in keys))


EXERCISE = Exercise(
    name="window_kernel",
    lecture="05",
    title="a sliding window",
    level=3,
    minutes=26,
    core=True,
    asked=ASKED,
    stub=STUB,
    run=run,
    parts=("O", "loads"),
    arguments=("Q", "K", "V", "scale", "window"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp32")
    | {"n": "i32", "scale": "fp32", "window": "i32", "D": 16, "BLOCK_M": 16, "BLOCK_N": 16},
    tolerance=1e-4,
    hints=(
        "Draw the mask for 8 tokens, a window of 3 and blocks of 4: a band. Which key is the first that any query of a program sees, "
        "and which is the last? The loop runs from the block of the one to the block of the other.",
        "The loop starts at tl.maximum(first − window + 1, 0), rounded down to a block. Within a block the mask has two sides. Now look "
        "at the first block of your drawing: not every query of the program sees a key there.",
        "Such a row has m = −∞ after its first block, and −∞ − (−∞) is NaN, in p and in the correction. Measure from something else as "
        "long as m is −∞, as lecture 02's kernel does. A large negative number instead of −∞ will not do: scores may lie below it.",
    ),
)

"""Lecture 01: from bytes and operations to a time."""

from course_lib.exercises.base import Exercise

ASKED = r"""
How long does a kernel take at least, on a GPU that you name? Each of these three moves its inputs and its output once:

- `"add"`: $c = a + b$, vectors of `n` numbers;
- `"matmul"`: $C = AB$, A [m, k] and B [k, n];
- `"attention"`: flash attention. Q and O have `heads` heads of `queries` rows, K and V have `kv_heads` heads of `keys` rows, and a row
  has `d` numbers. Several heads of Q may share one of K and V: each computes its own scores. With `causal` = 1 queries and keys are
  equally many, and the kernel skips all scores above the diagonal.

`sizes` holds what the line names: {"m": 4096, "n": 4096, "k": 4096}. That matmul in fp16 on an A100 (1.555 TB/s, 312 TFLOP/s) moves 101 MB
in 65 µs and computes 137 GFLOP in 441 µs, so it takes 441 µs. `dtype` is "fp32" (4 bytes per number), "fp16", "bf16" (2) or
"fp8" (1), of all tensors; `tflops` is the GPU's peak for it. Return µs. An answer may be a quarter too small or a third too large, so
count what matters and leave out the rest.
"""

STUB = '''
def how_long(kernel: str, sizes: dict[str, int], dtype: str, tb_per_s: float, tflops: float) -> float:
    """The least time of a kernel, in µs, on a GPU of so many TB/s and TFLOP/s."""
    ...
'''


EXERCISE = Exercise(
    name="how_long",
    lecture="01",
    title="how long does it take?",
    level=2,
    minutes=17,
    core=True,
    asked=ASKED,
    stub=STUB,
    tolerance=0.25,
    hints=(
        "For each kernel write down two numbers: the bytes of all tensors that it reads or writes, and its operations. Which of the two "
        "decides for one query over 100,000 keys, and which for 4,096 queries over as many keys?",
        "A matmul has 2 · m · n · k operations. Attention has two matmuls for each head of Q; O is as large as Q. What does a causal mask "
        "halve, and what not?",
        "1 TB/s is 10⁶ bytes per µs, 1 TFLOP/s 10⁶ operations per µs. Divide the bytes by the one and the operations by the other; copies "
        "and arithmetic overlap, as the page assumes.",
    ),
)

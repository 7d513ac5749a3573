"""Lecture 05: a kernel with two mistakes."""

from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.kernels import triton

ASKED = r"""
The kernel below is to compute attention for many heads at once: one head per `tl.program_id(1)`, so the grid is (⌈n_q / BLOCK⌉, heads).
`group` heads of $Q$, one after another, share a head of $K$ and $V$: with `group` = 2, heads 0 and 1 of $Q$ use head 0, heads 2 and 3 use
head 1. Q and O are [heads, n_q, D], K and V [heads / group, n_k, D], all float32, contiguous, in row order.

It was right once. Then somebody made two mistakes in it, and the author's test, one head of random numbers, still passes. Run the check,
find them, and mend them: two short changes are enough. Before you change a line, say on which inputs it is wrong.
"""

STUB = '''
@triton.jit
def debug_it(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """O [heads, n_q, D] of the heads of Q over those of K and V, which ``group`` heads of Q share."""
    head, rows, dims = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q_at = (head * n_q + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < n_q, other=0.0)
    acc, l = tl.zeros([BLOCK, D], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n_k, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        kv_at = (head % group * n_k + keys[:, None]) * D + dims[None, :]
        k = tl.load(k_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.max(s, 1)
        p, correction = tl.exp(s - m_new[:, None]), tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + q_at, acc / l[:, None], mask=rows[:, None] < n_q)
'''


def run(kernel: Any, case: Case) -> torch.Tensor:
    q, k, v, scale = case.args
    (heads, n_q, d), (kv_heads, n_k, _) = q.shape, k.shape
    o = torch.full_like(q, float("nan"))
    kernel[(triton.cdiv(n_q, 16), heads)](q, k, v, o, n_q, n_k, heads // kv_heads, scale, D=d, BLOCK=16)
    return o


EXERCISE = Exercise(
    name="debug_it",
    lecture="05",
    title="debug it",
    level=2,
    minutes=15,
    asked=ASKED,
    stub=STUB,
    todo="Mend the kernel",
    run=run,
    arguments=("Q", "K", "V", "scale"),
    compiles=dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp32")
    | {"n_q": "i32", "n_k": "i32", "group": "i32", "scale": "fp32", "D": 16, "BLOCK": 16},
    tolerance=1e-4,
    hints=(
        "The check tells the first case that fails. Which line treats the second head otherwise than the first? Work it out for four heads "
        "with group = 2, and write down which head of K each of them reads.",
        "The other mistake is correct on paper: in exact arithmetic this kernel would be right. Follow m through three blocks whose "
        "largest scores are 100, 0 and 0. What is the correction after the second?",
        "exp never overflows if its argument is never positive. Of exp(m − m_new) that holds only if m_new is at least m.",
    ),
)

"""Lecture 05: what debug_it is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def cases() -> Iterable[Case]:
    generator = torch.Generator().manual_seed(0)

    def case(words: str, heads: int, kv_heads: int, n_q: int, n_k: int, scale: float = 0.25, spike: int = -1) -> Case:
        q = torch.randn(heads, n_q, 16, generator=generator)
        k, v = (torch.randn(kv_heads, n_k, 16, generator=generator) for _ in range(2))
        if spike >= 0:
            q[:, :, 0], k[:, spike, 0] = 4, 150
        return Case(words, (q, k, v, scale))

    yield case("the author's test: one head of random numbers", 1, 1, 20, 40)
    yield case("four heads share two of K and V", 4, 2, 16, 20)
    yield case("two heads, each with its own K and V", 2, 2, 17, 16)
    yield case("two heads share one", 2, 1, 16, 16)
    yield case("more keys than queries", 3, 1, 5, 35, scale=0.5)
    yield case("a late spike", 1, 1, 16, 40, spike=38)
    yield case("an early spike", 1, 1, 16, 40, spike=3)
    q, k, v, scale = case("", 1, 1, 16, 40).args
    q[0, 3] *= 200
    yield Case("one query 200 times as large as the others", (q, k, v, scale))
    q, k, v, scale = case("", 2, 1, 16, 33).args
    q[:, :, 0], k[:, :, 0] = 16, -50
    yield Case("all scores near −200", (q, k, v, scale))


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """In float64, with K and V copied for each head of Q."""
    k, v = (x.double().repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    return (torch.softmax(q.double() @ k.mT * scale, -1) @ v).float()


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr, BUG: tl.constexpr
):
    head, rows, dims = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q_at = (head * n_q + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < n_q, other=0.0)
    acc, l = tl.zeros([BLOCK, D], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], -float("inf") if BUG != "m from 0" else 0.0, tl.float32)
    kv_head = head // group
    if BUG == "modulo" or BUG == "both":
        kv_head = head % group
    elif BUG == "head":
        kv_head = head
    elif BUG == "in turns":
        kv_head = head % (tl.num_programs(1) // group)
    for start in range(0, n_k, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        kv_at = (kv_head * (n_q if BUG == "n_q" else n_k) + keys[:, None]) * D + dims[None, :]
        k = tl.load(k_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.max(s, 1)
        if BUG == "no maximum":
            m_new = tl.zeros([BLOCK], tl.float32)
        elif BUG == "one for all rows":
            m_new = tl.maximum(m, tl.max(s))
        elif BUG != "block maximum" and BUG != "both" and BUG != "clipped":
            m_new = tl.maximum(m, m_new)
        p, correction = tl.exp(s - m_new[:, None]), tl.exp(m - m_new)
        if BUG == "clipped":
            correction = tl.minimum(correction, 1.0)
        if BUG == "upside down":
            correction = tl.exp(m_new - m)
        if BUG == "never down":
            correction = tl.zeros([BLOCK], tl.float32) + 1.0
        as_it_was = tl.full([BLOCK], 1.0, tl.float32)
        l = l * (as_it_was if BUG == "only acc" else correction) + tl.sum(p, 1)
        acc = acc * (as_it_was if BUG == "only l" else correction)[:, None]
        acc += tl.dot(p, v, input_precision="ieee")
        if BUG != "not kept":
            m = tl.max(s, 1) if BUG == "m of the block" else m_new
    tl.store(o_ptr + q_at, acc / l[:, None], mask=rows[:, None] < n_q)


WRONG = variants(
    _attention,
    {
        "if one mistake is mended: heads still read keys and values that belong to others": "modulo",
        "if one mistake is mended: the other still shows once a spike has passed": "block maximum",
        "if both mistakes are left": "both",
        "if each head of Q reads the head of K and V with its own number: there are fewer of those": "head",
        "if heads take K and V in turns, 0, 1, 0, 1: neighbours share, 0, 0, 1, 1": "in turns",
        "if the heads of K and V lie n_q rows apart: they have n_k rows": "n_q",
        "if the correction is cut off at 1: it does not overflow then, but what came before is too small": "clipped",
        "if the correction is taken for 1: what came before stays as it was": "never down",
        "if only acc is corrected, and l is not: both were measured from the same number": "only acc",
        "if only l is corrected, and acc is not: both were measured from the same number": "only l",
        "if no maximum is subtracted: large scores overflow, and those far below 0 vanish": "no maximum",
        "if all rows have one maximum: in a row whose scores lie far below it all weights vanish": "one for all rows",
        "if m starts at 0: where all scores lie far below, the row is 0/0": "m from 0",
        "if m stays as it was at the start: the next block is corrected from the maximum so far": "not kept",
        "from the first block on, where m is −∞, if the correction is not 0 there: upside down, it is ∞": "upside down",
        "if the next block is corrected from another number than this one was measured from": "m of the block",
    },
)

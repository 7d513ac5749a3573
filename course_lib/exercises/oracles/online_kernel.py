"""Lecture 05: what online_kernel is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def cases() -> Iterable[Case]:
    generator = torch.Generator().manual_seed(0)

    def matrices(n_q: int, n_k: int, d: int = 16) -> Inputs:
        q, k, v = (torch.randn(n, d, generator=generator) for n in (n_q, n_k, n_k))
        return q, k, v

    def case(words: str, inputs: Inputs, scale: float = 0.25, **sizes: int) -> Case:
        return Case(words, (*inputs, scale), sizes)

    yield case("one block of queries, one of keys", matrices(16, 32))
    yield case("two blocks of keys", matrices(16, 64))
    yield case("ragged queries", matrices(21, 32))
    yield case("ragged keys", matrices(16, 41))
    yield case("one query, one key", matrices(1, 1))
    yield case("another scale", matrices(5, 40), 0.7)
    other = {"D": 32, "BLOCK_M": 32, "BLOCK_N": 16}
    yield case("D = 32, blocks of 32 queries and 16 keys, all ragged", matrices(75, 37, 32), 0.2, **other)
    yield case("blocks of 16 queries and 16 keys, 300 keys", matrices(3, 300), 0.5, BLOCK_N=16)
    q, k, v = matrices(16, 64)
    yield case("scores in the hundreds", (q * 10, k * 10, v))
    for score, n_k in ((-32768.0, 64), (-32768.0, 37), (-5e37, 37)):
        q, k, v = torch.zeros(5, 16), torch.zeros(n_k, 16), torch.randn(n_k, 16, generator=generator)
        q[:, 0] = 512 if score > -1e9 else 1e19
        k[:, 0] = 4 * score / q[0, 0]
        shown = "−5 · 10³⁷" if score < -1e9 else "−32,768"
        yield case(f"all scores {shown}" + (", ragged keys" if n_k % 32 else ""), (q, k, v))
    for words, place in (("a late spike", -1), ("an early spike", 0)):
        q, k, v = matrices(5, 40)
        q[:, 0] = 4
        k[place, 0] = 150
        yield case(words, (q, k, v))


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """From the definition, in float64."""
    return (torch.softmax(q.double() @ k.double().T * scale, 1) @ v.double()).float()


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BUG: tl.constexpr
):  # fmt: skip
    WIDTH: tl.constexpr = 16 if BUG == "D is 16" else D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, WIDTH)
    at = rows[:, None] * WIDTH + dims[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    m = tl.full([BLOCK_M], 0.0 if BUG == "m from 0" else -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, n_q if BUG == "to n_q" else n_k, BLOCK_M if BUG == "by BLOCK_M" else BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * WIDTH + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * WIDTH + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if BUG != "no tail mask" and BUG != "tail in m":
            s = tl.where(keys[None, :] < n_k, s, -10000.0 if BUG == "finite mask" else -float("inf"))
        m_new = tl.max(s, 1)
        if BUG != "block maximum" and BUG != "lite":
            m_new = tl.maximum(m, m_new)
        if BUG == "m overwritten":
            m = m_new
        p = tl.exp(s - m_new[:, None])
        if BUG == "tail in m":
            p = tl.where(keys[None, :] < n_k, p, 0.0)
        correction = tl.exp(m - m_new)
        if BUG == "lite":
            p = p / tl.sum(p, 1)[:, None]
            correction = tl.full([BLOCK_M], 1.0, tl.float32)
        l = tl.sum(p, 1) + l * correction
        acc = acc * (1.0 if BUG == "acc kept" else correction[:, None]) + tl.dot(p, v, input_precision="ieee")
        m = m_new
    if BUG != "lite":
        acc = acc / l[:, None]
    if BUG == "store unmasked":
        tl.store(o_ptr + at, acc)
    else:
        tl.store(o_ptr + at, acc, mask=rows[:, None] < n_q)


WRONG = variants(
    _attention,
    {
        "if m starts at a number such as 0 instead of −∞: where all scores lie far below, the row is 0/0": "m from 0",
        "if the tail of the keys is not masked: padded keys have the score 0, and so a weight": "no tail mask",
        "if padded keys get a large negative score instead of −∞: real scores may lie below it": "finite mask",
        "if padded keys get no weight but enter the maximum: their score of 0 is too large where all others are far below": "tail in m",
        "if acc is not rescaled when the maximum grows": "acc kept",
        "if m is overwritten before the correction is taken: exp(m − m_new) is then always 1": "m overwritten",
        "if the maximum is that of the block alone: after an early spike the correction overflows": "block maximum",
        "if each block is divided by its own sum: that is still Lite": "lite",
        "if the loop over the keys ends at n_q: with as many queries as keys nobody notices": "to n_q",
        "if the loop over the keys steps by BLOCK_M: with equal blocks nobody notices": "by BLOCK_M",
        "if 16 stands where D belongs: it may be 32 as well": "D is 16",
        "if the store is not masked: a ragged block of queries writes beyond O": "store unmasked",
    },
)

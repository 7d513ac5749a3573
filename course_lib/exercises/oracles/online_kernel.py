"""Lecture 05: what online_kernel is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variant
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
    HEIGHT: tl.constexpr = 16 if BUG == "BLOCK_M is 16" else BLOCK_M
    rows = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    dims = tl.arange(0, WIDTH)
    at = rows[:, None] * WIDTH + dims[None, :]
    in_q, in_o = rows[:, None] < n_q, rows[:, None] < n_q
    if BUG == "Q unmasked":
        in_q = rows[:, None] >= 0
    if BUG == "store unmasked":
        in_o = rows[:, None] >= 0
    q = tl.load(q_ptr + at, mask=in_q, other=0.0)
    acc = tl.zeros([HEIGHT, WIDTH], tl.float32)
    m = tl.full([HEIGHT], 0.0 if BUG == "m from 0" else -float("inf"), tl.float32)
    l = tl.zeros([HEIGHT], tl.float32)
    m = m if BUG != "finite m" else tl.full([HEIGHT], -1e9, tl.float32)
    end = n_q if BUG == "to n_q" else n_k // BLOCK_N * BLOCK_N if BUG == "steps rounded down" else n_k
    for start in range(0, end, HEIGHT if BUG == "by BLOCK_M" else BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        seen = keys < (n_k + BLOCK_N if BUG == "K and V unmasked" else n_k)
        k = tl.load(k_ptr + keys[:, None] * WIDTH + dims[None, :], mask=seen[:, None], other=0.0)
        v = tl.load(v_ptr + keys[:, None] * WIDTH + dims[None, :], mask=seen[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        if BUG != "no scale":
            s = s / tl.sqrt(WIDTH * 1.0) if BUG == "own scale" else s * scale
        if BUG != "no tail mask" and BUG != "tail in m":
            masked = -10000.0 if BUG == "finite mask" else -1e9 if BUG == "mask of a billion" else -float("inf")
            s = tl.where(keys[None, :] < n_k + (BUG == "one key more"), s, masked)
        m_new = tl.max(s) if BUG == "one maximum" else tl.max(s, 1)
        if BUG == "no maximum":
            m_new = tl.zeros([HEIGHT], tl.float32)
        elif BUG != "block maximum" and BUG != "lite":
            m_new = tl.maximum(m, m_new)
        if BUG == "m overwritten":
            m = m_new
        p = tl.exp2(s - m_new[:, None]) if BUG == "exp2" else tl.exp(s - m_new[:, None])
        if BUG == "tail in m":
            p = tl.where(keys[None, :] < n_k, p, 0.0)
        correction = tl.exp(m_new - m) if BUG == "upside down" else tl.exp(m - m_new)
        if BUG == "upside down later":
            correction = tl.exp(m_new - tl.where(start == 0, m_new, m))
        if BUG == "exp2":
            correction = tl.exp2(m - m_new)
        if BUG == "lite" or BUG == "divided twice":
            p = p / tl.sum(p, 1)[:, None]
        if BUG == "lite":
            correction = tl.full([HEIGHT], 1.0, tl.float32)
        pv = tl.dot(p, v, input_precision="ieee")
        l = (tl.sum(p) if BUG == "one sum" else tl.sum(p, 1)) + (l if BUG == "l kept" else l * correction)
        if BUG == "l anew" or BUG == "l and acc anew":
            l = tl.sum(p, 1)
        if BUG == "acc anew" or BUG == "l and acc anew":
            acc = pv
        elif BUG == "columns corrected":
            acc = acc * correction + pv
        elif BUG == "acc kept":
            acc = acc + pv
        elif BUG == "corrected late":
            acc = (acc + pv) * correction[:, None]
        else:
            acc = acc * correction[:, None] + pv
        if BUG != "m forgotten":
            m = tl.max(s, 1) if BUG == "m of the block" else m_new
    if BUG == "columns divided":
        acc = acc / l
    elif BUG != "not divided" and BUG != "lite":
        acc = acc / l[:, None]
    tl.store(o_ptr + at, acc, mask=in_o)


WRONG = {
    diagnosis: variant(_attention, bug)
    for diagnosis, bug in {
        "if m starts at a number such as 0 instead of −∞: where all scores lie far below, the row is 0/0": "m from 0",
        "without subtracting the maximum: large scores overflow, scores far below 0 give 0/0": "no maximum",
        "if the tail of the keys is not masked: padded keys have the score 0, and so a weight": "no tail mask",
        "if padded keys get a large negative score instead of −∞: real scores may lie below it": "finite mask",
        "if padded keys get a score such as −10⁹ instead of −∞: real scores may lie below it": "mask of a billion",
        "if padded keys get no weight but enter the maximum: their score of 0 is too large where all others are far below": "tail in m",
        "if acc is not rescaled when the maximum grows": "acc kept",
        "if l is not rescaled when the maximum grows": "l kept",
        "if m is overwritten before the correction is taken: exp(m − m_new) is then always 1": "m overwritten",
        "if an exponential subtracts the old m: in the first block m is −∞, and exp(∞) is infinite": "upside down",
        "if the new block's values are added to acc first and then rescaled with the old ones": "corrected late",
        "if the maximum is that of the block alone: after an early spike the correction overflows": "block maximum",
        "if each block is divided by its own sum: that is still Lite": "lite",
        "if Lite's division by the block's own sum is left in: each block then counts as much as any other": "divided twice",
        "if the loop over the keys ends at n_q: with as many queries as keys nobody notices": "to n_q",
        "if the loop over the keys steps by BLOCK_M: with equal blocks nobody notices": "by BLOCK_M",
        "if acc is not divided by l after the loop": "not divided",
        "if the scores are not multiplied by scale": "no scale",
        "if m = m_new is forgotten, or m, l and acc begin anew for each block: only the last block counts": "m forgotten",
        "if l and acc begin anew for each block: both start before the loop": "l and acc anew",
        "if acc begins anew for each block: it starts before the loop": "acc anew",
        "if l begins anew for each block: it starts before the loop": "l anew",
        "if tl.max(s) has no axis: one maximum for all rows is too large for some, tl.max(s, 1) is that of each row": "one maximum",
        "if tl.sum(p) has no axis: it adds all rows, tl.sum(p, 1) is the sum of each row": "one sum",
        "if exp2 takes scores that are not multiplied by log2 e: that is a softmax to the base 2": "exp2",
        "if correction multiplies the columns of acc: a query is a row, so write correction[:, None]": "columns corrected",
        "if l divides the columns of acc: a query is a row, so write l[:, None]": "columns divided",
        "if the correction is exp(m_new − m), upside down, and the first block is left out of it": "upside down later",
        "if m is the maximum of the last block alone, not of all blocks so far": "m of the block",
        "if 16 stands where D belongs: it may be 32 as well": "D is 16",
        "if 16 stands where BLOCK_M belongs: it may be 32 as well": "BLOCK_M is 16",
        "if scale is not used but 1 / √D: the kernel is handed a scale": "own scale",
        "if there are n_k // BLOCK_N steps: the tail of the keys is one more, tl.cdiv(n_k, BLOCK_N)": "steps rounded down",
        "if the mask of the scores lets key n_k through: the last key is n_k − 1": "one key more",
        "if m starts at a number such as −10⁹ instead of −∞: scores may lie below it": "finite m",
        "if the store is not masked: a ragged block of queries writes beyond O": "store unmasked",
        "if the load of Q is not masked: a ragged block of queries reads beyond Q": "Q unmasked",
        "if the load of K or V is not masked: a ragged block of keys reads beyond the matrix": "K and V unmasked",
    }.items()
}

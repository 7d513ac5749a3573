"""Lecture 05: what online_kernel is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.kernels import tl, triton


def cases() -> Iterable[Case]:
    generator = torch.Generator().manual_seed(0)

    def matrices(n_q: int, n_k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q, k, v = (torch.randn(n, 16, generator=generator) for n in (n_q, n_k, n_k))
        return q, k, v

    yield Case("one block of queries, one of keys", matrices(16, 32))
    yield Case("two blocks of keys", matrices(16, 64))
    yield Case("ragged queries", matrices(21, 32))
    yield Case("ragged keys", matrices(16, 41))
    yield Case("one query, one key", matrices(1, 1))
    q, k, v = matrices(16, 64)
    yield Case("scores in the hundreds", (q * 10, k * 10, v))
    for words, n_k in (("all scores −32,768", 64), ("all scores −32,768, ragged keys", 37)):
        q, k, v = torch.zeros(5, 16), torch.zeros(n_k, 16), torch.randn(n_k, 16, generator=generator)
        q[:, 0], k[:, 0] = 512, -256
        yield Case(words, (q, k, v))
    for words, place in (("a late spike", -1), ("an early spike", 0)):
        q, k, v = matrices(5, 40)
        q[:, 0] = 4
        k[place, 0] = 150
        yield Case(words, (q, k, v))


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """From the definition, in float64."""
    return (torch.softmax(q.double() @ k.double().T / math.sqrt(q.shape[1]), 1) @ v.double()).float()


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BUG: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    at = rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], 0.0 if BUG == "m from 0" else -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, n_q if BUG == "to n_q" else n_k, BLOCK_M if BUG == "by BLOCK_M" else BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        if BUG != "no scale":
            s = s * scale
        if BUG != "no tail mask" and BUG != "tail in m":
            s = tl.where(keys[None, :] < n_k, s, -10000.0 if BUG == "finite mask" else -float("inf"))
        m_new = tl.max(s) if BUG == "one maximum" else tl.max(s, 1)
        if BUG == "no maximum":
            m_new = tl.zeros([BLOCK_M], tl.float32)
        elif BUG != "block maximum" and BUG != "lite":
            m_new = tl.maximum(m, m_new)
        if BUG == "m overwritten":
            m = m_new
        p = tl.exp2(s - m_new[:, None]) if BUG == "exp2" else tl.exp(s - m_new[:, None])
        if BUG == "tail in m":
            p = tl.where(keys[None, :] < n_k, p, 0.0)
        correction = tl.exp(m_new - m) if BUG == "upside down" else tl.exp(m - m_new)
        if BUG == "exp2":
            correction = tl.exp2(m - m_new)
        if BUG == "lite" or BUG == "divided twice":
            p = p / tl.sum(p, 1)[:, None]
        if BUG == "lite":
            correction = tl.full([BLOCK_M], 1.0, tl.float32)
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
            m = m_new
    if BUG == "columns divided":
        acc = acc / l
    elif BUG != "not divided" and BUG != "lite":
        acc = acc / l[:, None]
    tl.store(o_ptr + at, acc, mask=rows[:, None] < n_q)


@triton.jit
def m_starts_at_zero(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "m from 0")


@triton.jit
def no_maximum(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "no maximum")


@triton.jit
def no_tail_mask(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "no tail mask")


@triton.jit
def finite_mask(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "finite mask")


@triton.jit
def tail_in_the_maximum(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "tail in m")


@triton.jit
def acc_kept(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "acc kept")


@triton.jit
def sum_kept(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "l kept")


@triton.jit
def maximum_overwritten(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "m overwritten")


@triton.jit
def upside_down(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "upside down")


@triton.jit
def corrected_late(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "corrected late")


@triton.jit
def block_maximum(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "block maximum")


@triton.jit
def local_softmax(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "lite")


@triton.jit
def divided_twice(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "divided twice")


@triton.jit
def loop_to_n_q(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "to n_q")


@triton.jit
def steps_of_block_m(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "by BLOCK_M")


@triton.jit
def not_divided(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "not divided")


@triton.jit
def no_scale(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "no scale")


@triton.jit
def m_forgotten(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "m forgotten")


@triton.jit
def sums_begin_anew(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "l and acc anew")


@triton.jit
def acc_begins_anew(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "acc anew")


@triton.jit
def sum_begins_anew(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "l anew")


@triton.jit
def one_maximum(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "one maximum")


@triton.jit
def one_sum(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "one sum")


@triton.jit
def exp2_without_log2_e(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "exp2")


@triton.jit
def columns_corrected(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "columns corrected")


@triton.jit
def columns_divided(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, D, BLOCK_M, BLOCK_N, "columns divided")


WRONG = {
    "if m starts at a number such as 0 instead of −∞: where all scores lie far below, the row is 0/0": m_starts_at_zero,
    "without subtracting the maximum: large scores overflow, scores far below 0 give 0/0": no_maximum,
    "if the tail of the keys is not masked: padded keys have the score 0, and so a weight": no_tail_mask,
    "if padded keys get a large negative score instead of −∞: real scores may lie below it": finite_mask,
    "if padded keys get no weight but enter the maximum: their score of 0 is too large where all others are far below": (
        tail_in_the_maximum
    ),
    "if acc is not rescaled when the maximum grows": acc_kept,
    "if l is not rescaled when the maximum grows": sum_kept,
    "if m is overwritten before the correction is taken: exp(m − m_new) is then always 1": maximum_overwritten,
    "if an exponential subtracts the old m: in the first block m is −∞, and exp(∞) is infinite": upside_down,
    "if the new block's values are added to acc first and then rescaled with the old ones": corrected_late,
    "if the maximum is that of the block alone: after an early spike the correction overflows": block_maximum,
    "if each block is divided by its own sum: that is still Lite": local_softmax,
    "if Lite's division by the block's own sum is left in: each block then counts as much as any other": divided_twice,
    "if the loop over the keys ends at n_q: with as many queries as keys nobody notices": loop_to_n_q,
    "if the loop over the keys steps by BLOCK_M: with equal blocks nobody notices": steps_of_block_m,
    "if acc is not divided by l after the loop": not_divided,
    "if the scores are not multiplied by scale": no_scale,
    "if m = m_new is forgotten, or m, l and acc begin anew for each block: only the last block counts": m_forgotten,
    "if l and acc begin anew for each block: both start before the loop": sums_begin_anew,
    "if acc begins anew for each block: it starts before the loop": acc_begins_anew,
    "if l begins anew for each block: it starts before the loop": sum_begins_anew,
    "if tl.max(s) has no axis: one maximum for all rows is too large for some, tl.max(s, 1) is that of each row": one_maximum,
    "if tl.sum(p) has no axis: it adds all rows, tl.sum(p, 1) is the sum of each row": one_sum,
    "if exp2 takes scores that are not multiplied by log2 e: that is a softmax to the base 2": exp2_without_log2_e,
    "if correction multiplies the columns of acc: a query is a row, so write correction[:, None]": columns_corrected,
    "if l divides the columns of acc: a query is a row, so write l[:, None]": columns_divided,
}

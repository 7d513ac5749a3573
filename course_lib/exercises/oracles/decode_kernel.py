"""Lecture 08: what decode_kernel is checked by."""

import math
import random
from collections.abc import Iterable, Sequence

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def paged(
    lengths: Sequence[int], heads_k: int, group: int, d: int, page: int, splits: int, sharp: float = 1.0, spare: int = 1
) -> tuple:
    """A case's arguments, with the pages in any order and NaN where no token is."""
    slots = max(1, *(-(-n // page) for n in lengths)) + spare
    pages = sum(-(-n // page) for n in lengths) + 1
    order, table = torch.randperm(pages).tolist(), torch.full((len(lengths), slots), -1, dtype=torch.int32)
    q = sharp * torch.randn(len(lengths), heads_k * group, d)
    k, v = (torch.full((pages, heads_k, page, d), math.nan) for _ in "kv")
    for b, n in enumerate(lengths):
        for slot in range(-(-n // page)):
            table[b, slot] = number = order.pop()
            rows = min(page, n - slot * page)
            k[number, :, :rows], v[number, :, :rows] = torch.randn(2, heads_k, rows, d)
    return q, k, v, torch.tensor(lengths, dtype=torch.int32), table, splits


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("one full page, one head", paged([16], 1, 1, 16, 16, 1))
    yield Case("one full page, a group of four heads", paged([16], 1, 4, 16, 16, 1))
    yield Case("two pages in any order", paged([32], 1, 2, 16, 16, 1))
    yield Case("two splits of a page each", paged([32], 1, 2, 16, 16, 2))
    yield Case("two heads of keys, two queries each", paged([32], 2, 2, 16, 16, 1))
    yield Case("a last page with 5 keys, NaN behind them", paged([21], 1, 4, 16, 16, 1))
    yield Case("70 keys, two splits of 3 and 2 pages", paged([70], 1, 1, 16, 16, 2, spare=3))
    yield Case("more splits than pages", paged([20], 1, 2, 16, 16, 3))
    yield Case("two sequences of different lengths", paged([40, 7], 2, 2, 16, 16, 2))
    yield Case("a sequence without a key", paged([33, 0], 1, 2, 16, 16, 2))
    yield Case("pages of 32, D = 32", paged([70, 32], 2, 4, 32, 32, 2))
    yield Case("queries times ten", paged([60], 1, 4, 16, 16, 2, sharp=10.0))
    q, k, v, lengths, table, splits = paged([48], 1, 1, 16, 16, 1)
    k[table[0, 1].long(), 0, 3] = 5 * q[0, 0]
    yield Case("the largest score in the second page", (q, k, v, lengths, table, splits))
    q, k, v, lengths, table, splits = paged([20], 1, 2, 16, 16, 1)
    q[:, :, 0], k[..., 0] = -20, torch.where(k[..., 0].isnan(), math.nan, 20.0)
    yield Case("all scores far below 0", (q, k, v, lengths, table, splits))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    torch.manual_seed(draw.randrange(2**62))
    for _ in range(4):
        d, page = draw.choice(((16, 16), (32, 32)))
        lengths = [draw.randint(0, 90) for _ in range(draw.randint(1, 3))]
        arguments = paged(lengths, draw.choice((1, 2)), draw.choice((1, 2, 4)), d, page, draw.randint(1, 4))
        yield Case("any sizes", arguments)


def expected(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor, splits: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Key by key in double precision."""
    (b, h, d), (_, heads_k, page, _) = q.shape, k.shape
    o, L = torch.zeros(splits, b, h, d), torch.full((splits, b, h), -math.inf)
    for i, n in enumerate(lengths.tolist()):
        used = -(-n // page)
        each = -(-used // splits)
        keys, values = (
            torch.cat([x[number].double() for number in table[i, :used].tolist()], 1)[:, :n] if used else None
            for x in (k, v)
        )
        for s in range(splits):
            part = slice(s * each * page, min(n, (s + 1) * each * page))
            if keys is not None and values is not None and part.start < part.stop:
                for j in range(h):
                    head = j // (h // heads_k)
                    scores = keys[head, part] @ q[i, j].double() * d**-0.5
                    o[s, i, j], L[s, i, j] = torch.softmax(scores, 0) @ values[head, part], torch.logsumexp(scores, 0)
    return o, L


@triton.jit
def _split(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, o_ptr, L_ptr, B, heads_k, slots, S, scale,
    G: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BUG: tl.constexpr,
):  # fmt: skip
    place, s = tl.program_id(0), tl.program_id(1)
    b, h = place // heads_k, place % heads_k
    cols = tl.arange(0, D)
    heads = h * G + tl.arange(0, G)
    if BUG == "h % Hk":
        heads = h + tl.arange(0, G) * heads_k
    rows = b * heads_k * G + heads
    q = tl.load(q_ptr + rows[:, None] * D + cols[None, :])
    length = tl.load(lengths_ptr + (0 if BUG == "first length" else b))
    used = slots if BUG == "room" else tl.cdiv(length, PAGE)
    if BUG == "whole pages":
        used = length // PAGE
    each = used // S if BUG == "floor" else tl.cdiv(used, S)
    end = tl.minimum((s + 1) * each, tl.cdiv(length, PAGE))
    limit = tl.cdiv(length, PAGE) * PAGE if BUG == "full pages" else length
    m = tl.full([G], 0.0 if BUG == "m from 0" else -float("inf"), tl.float32)
    l = tl.zeros([G], tl.float32)
    acc = tl.zeros([G, D], tl.float32)
    for slot in range(s * each, end):
        number = slot if BUG == "no table" else tl.load(table_ptr + (0 if BUG == "first table" else b * slots) + slot)
        keys = slot * PAGE + tl.arange(0, PAGE)
        at = ((number * heads_k + h) * PAGE + tl.arange(0, PAGE))[:, None] * D + cols[None, :]
        k = tl.load(k_ptr + at, mask=keys[:, None] < limit, other=0.0)
        v = tl.load(
            v_ptr + at,
            mask=keys[:, None] < (tl.cdiv(length, PAGE) * PAGE if BUG == "V not masked" else limit),
            other=0.0,
        )
        x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if BUG != "scores not masked":
            x = tl.where(keys[None, :] < limit, x, -float("inf"))
        m_new = tl.maximum(m, tl.max(x, 1))
        p = tl.exp(x - m_new[:, None])
        factor = tl.exp(m - m_new)
        if BUG == "not rescaled":
            factor = tl.full([G], 1.0, tl.float32)
        l = l * factor + tl.sum(p, 1)
        acc = tl.dot(p, v, acc * factor[:, None], input_precision="ieee")
        m = m_new
    lse = m + tl.log(l)
    if BUG == "base 2":
        lse = (m + tl.log(l)) * 1.4426950408889634
    if BUG == "L is m":
        lse = m
    if BUG != "empty":
        l = tl.where(l == 0, 1.0, l)
    if BUG == "not divided":
        l = tl.full([G], 1.0, tl.float32)
    out = s * B * heads_k * G + rows
    tl.store(o_ptr + out[:, None] * D + cols[None, :], acc / l[:, None])
    tl.store(L_ptr + out, lse)


WRONG = variants(
    _split,
    {
        "if only the scores are masked and V is not: behind the last token it holds NaN, and 0 · NaN is NaN": "V not masked",
        "if K and V are masked and the scores are not: a key of zeros has the score 0, and a weight": "scores not masked",
        "if the last page counts as full: behind its last token it holds NaN": "full pages",
        "if a last page that is not full is left out": "whole pages",
        "if the splits are cut from the table's slots: only pages in use hold keys": "room",
        "if pages // S is rounded down: the last pages belong to no split": "floor",
        "if query heads h, h + heads_k, … are taken for one group: consecutive heads share a head of keys": "h % Hk",
        "if the slot is taken for the page": "no table",
        "if all sequences read the first one's table": "first table",
        "if all sequences have the first one's length": "first length",
        "if acc and l are not rescaled when m grows": "not rescaled",
        "if m starts at 0": "m from 0",
        "if L is a logarithm of base 2: a merge that expects a natural one weighs the splits wrongly": "base 2",
        "if m is stored for L: it lacks log l": "L is m",
        "if the sum is not divided by l: O_s is an average": "not divided",
        "if a split without a key divides by l = 0": "empty",
    },
)

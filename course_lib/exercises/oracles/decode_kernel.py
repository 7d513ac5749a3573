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
    yield Case("two pages in any order", paged([32], 1, 2, 16, 16, 1))
    yield Case("two heads of keys, two queries each", paged([16], 2, 2, 16, 16, 1))
    yield Case("a last page with 5 keys, NaN behind them", paged([21], 1, 4, 16, 16, 1))
    yield Case("70 keys, two splits of 3 and 2 pages", paged([70], 1, 1, 16, 16, 2, spare=3))
    yield Case("three pages in two splits, no slot behind them", paged([35], 1, 2, 16, 16, 2, spare=0))
    yield Case("more splits than pages", paged([20], 1, 2, 16, 16, 3))
    yield Case("two sequences of different lengths and one without a key", paged([20, 7, 0], 1, 2, 16, 16, 2))
    yield Case("pages of 32, D = 32", paged([40], 2, 4, 32, 32, 1))
    arguments = paged([40], 1, 4, 16, 16, 1)
    arguments[0][0, 0] *= 100
    yield Case("one query of a group a hundred times as large", arguments)
    q, k, v, lengths, table, splits = paged([48], 1, 1, 16, 16, 1)
    k[table[0, 1].long(), 0, 3] = 30 * q[0, 0]
    yield Case("one score far above the others, in the second of three pages", (q, k, v, lengths, table, splits))
    q, k, v, lengths, table, splits = paged([20], 1, 2, 16, 16, 1)
    q[..., 3:] = 0  # few products: large scores are to be sums of few rounding errors
    q[:, :, 0], k[..., 0] = -20, torch.where(k[..., 0].isnan(), math.nan, 20.0)
    yield Case("all scores far below 0", (q, k, v, lengths, table, splits))
    yield Case("two sequences, one split: fewer splits than slots", paged([20, 7], 1, 1, 16, 16, 1))


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
) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    """Key by key in double precision; each is loaded once, if there is one."""
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
    once = int(lengths.any())
    return o, L, once, once


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
    begin, end, step = s * each, tl.minimum((s + 1) * each, used if BUG == "whole pages" else tl.cdiv(length, PAGE)), 1
    if BUG == "uncut" or BUG == "uncut, masked":
        end = (s + 1) * each
    elif BUG == "every S-th":
        begin, end, step = s, used, S
    elif BUG == "all pages":
        begin, end = 0, used
    elif BUG == "no split":
        begin, end = 0 * used, used
    limit = tl.cdiv(length, PAGE) * PAGE if BUG == "full pages" else length
    m = tl.full([G], 0.0 if BUG == "m from 0" or BUG == "no maximum" else -float("inf"), tl.float32)
    l = tl.zeros([G], tl.float32)
    acc = tl.zeros([G, D], tl.float32)
    for slot in range(begin, end, step):
        number = (
            slot
            if BUG == "no table"
            else tl.load(table_ptr + (0 if BUG == "first table" else b * (S if BUG == "table by S" else slots)) + slot)
        )
        keys = (0 if BUG == "within the page" else slot * PAGE) + tl.arange(0, PAGE)
        at = ((number * heads_k + h) * PAGE + tl.arange(0, PAGE))[:, None] * D + cols[None, :]
        if BUG == "tokens first":
            at = ((number * PAGE + tl.arange(0, PAGE)) * heads_k + h)[:, None] * D + cols[None, :]
        k = tl.load(k_ptr + at, mask=keys[:, None] < limit, other=0.0)
        for _ in range((G if BUG == "not packed" else 2 if BUG == "K twice" else 1) - 1):
            k = tl.load(k_ptr + at, mask=keys[:, None] < limit, other=0.0)
        v = tl.load(
            v_ptr + at,
            mask=keys[:, None] < (tl.cdiv(length, PAGE) * PAGE if BUG == "V not masked" else limit),
            other=0.0,
        )
        for _ in range((G if BUG == "not packed" else 1) - 1):
            v = tl.load(v_ptr + at, mask=keys[:, None] < limit, other=0.0)
        x = tl.dot(q, k if BUG == "K as it lies" else tl.trans(k), input_precision="ieee")
        if BUG != "no scale":
            x = x * scale
        if BUG != "scores not masked":
            x = tl.where(keys[None, :] < limit, x, -float("inf"))
        if BUG == "all pages":
            x = tl.where(slot // tl.maximum(each, 1) == s, x, -float("inf"))
        m_new = tl.maximum(m, tl.max(x) if BUG == "one for all rows" else tl.max(x, 1))
        if BUG == "page maximum":
            m_new = tl.max(x, 1)
        elif BUG == "no maximum":
            m_new = m
        shift = m_new
        if BUG == "all pages" or BUG == "uncut, masked":
            shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        p, factor = tl.exp(x - shift[:, None]), tl.exp(m - shift)
        if BUG == "exp2":
            p, factor = tl.exp2(x - shift[:, None]), tl.exp2(m - shift)
        old = tl.full([G], 1.0, tl.float32)
        l = l * (old if BUG == "not rescaled" or BUG == "l not rescaled" else factor) + tl.sum(p, 1)
        acc = acc * (old if BUG == "not rescaled" or BUG == "acc not rescaled" else factor)[:, None]
        acc = tl.dot(p, v, acc, input_precision="ieee")
        m = m_new
    lse = m + tl.log(l)
    if BUG == "base 2":
        lse = lse * 1.4426950408889634
    if BUG == "L is m":
        lse = m
    if BUG == "L without m":
        lse = tl.log(l)
    if BUG != "empty":
        l = tl.where(l == 0, 1.0, l)
    if BUG == "not divided":
        l = tl.full([G], 1.0, tl.float32)
    out = (b * S + s) * heads_k * G + heads if BUG == "B first" else s * B * heads_k * G + rows
    if BUG == "one place":
        out = rows
    tl.store(o_ptr + out[:, None] * D + cols[None, :], acc / l[:, None])
    tl.store(L_ptr + out, lse)


WRONG = variants(
    _split,
    {
        "if only the scores are masked and V is not: behind the last token it holds NaN, and 0 · NaN is NaN": "V not masked",
        "if K and V are masked and the scores are not: a key of zeros has the score 0, and a weight": "scores not masked",
        "if the last page counts as full, or has a key too many: behind its last token it holds NaN": "full pages",
        "if a last page that is not full is left out": "whole pages",
        "if a key's place in its page is compared with the length: it is key slot · PAGE + i of its sequence": "within the page",
        "if the splits are cut from the table's slots: only pages in use hold keys": "room",
        "if pages // S is rounded down: the last pages belong to no split": "floor",
        "if a split has the pages s, s + S, …: it is asked for consecutive ones": "every S-th",
        "if every split walks over all pages: each has its own": "no split",
        "if every split walks over all pages and masks those of others: each key is loaded S times": "all pages",
        "if the last split is not cut at the pages in use: a split behind them has no key, and −∞ − (−∞) is NaN": "uncut",
        "if the last split is not cut at the pages in use: it reads the table behind the sequence's slots": "uncut, masked",
        "if each head of a group walks over the keys for itself: the G queries share a page, which is loaded once": "not packed",
        "if K is loaded twice: the maximum and the sums come from one pass over the keys": "K twice",
        "if query heads h, h + heads_k, … are taken for one group: consecutive heads share a head of keys": "h % Hk",
        "if the slot is taken for the page": "no table",
        "if a page is laid out by tokens and then heads: it is [heads_k, PAGE, D]": "tokens first",
        "if all sequences read the first one's table": "first table",
        "if all sequences have the first one's length": "first length",
        "if the table's rows are taken to be S long: sequence b has the slots from b · slots on": "table by S",
        "if the scores are not multiplied by scale": "no scale",
        "if K is not transposed: with square pages the shapes fit all the same": "K as it lies",
        "if all splits store to the same place: split s comes behind s · B · H rows": "one place",
        "if acc and l are not rescaled when m grows": "not rescaled",
        "if acc is not rescaled when m grows: l is, and so acc / l is no average": "acc not rescaled",
        "if l is not rescaled when m grows": "l not rescaled",
        "if m starts at 0": "m from 0",
        "if no maximum is subtracted: large scores overflow": "no maximum",
        "if the maximum is that of the page alone: behind a spike the correction overflows": "page maximum",
        "if the G rows have one maximum: in a row whose scores lie far below it all weights vanish": "one for all rows",
        "if powers of 2 stand where powers of e should: exp2 takes a scale with log2 e": "exp2",
        "if L is a logarithm of base 2: a merge that expects a natural one weighs the splits wrongly": "base 2",
        "if m is stored for L: it lacks log l": "L is m",
        "if L is log l alone: l was measured from m, which has to be added": "L without m",
        "if the sum is not divided by l: O_s is an average": "not divided",
        "if a split without a key divides by l = 0": "empty",
        "if O and L are stored as [B, S, …]: the splits come first": "B first",
    },
)

"""Lecture 05: what window_kernel is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def cases() -> Iterable[Case]:
    generator = torch.Generator().manual_seed(0)

    def matrices(n: int, d: int = 16) -> list[torch.Tensor]:
        return [torch.randn(n, d, generator=generator) for _ in "qkv"]

    def case(words: str, n: int, window: int, d: int = 16, scale: float = 0.25, **sizes: int) -> Case:
        return Case(words, (*matrices(n, d), scale, window), sizes)

    yield case("one block, each query sees all before it", 16, 16)
    yield case("a window of 1: each query sees its own key", 16, 1)
    yield case("a window of 1 in three blocks: each program loads its own", 48, 1)
    yield case("two blocks, a window of 5", 32, 5)
    yield case("three blocks, a window as long as a block", 48, 16)
    yield case("ragged, a window of 18", 53, 18)
    yield case("a window longer than the sequence", 21, 100)
    yield case("one token", 1, 3)
    yield case("blocks of 32 queries and 16 keys, another scale", 40, 8, scale=0.7, BLOCK_M=32)
    yield case("blocks of 16 queries and 32 keys, D = 32", 70, 9, d=32, scale=0.2, D=32, BLOCK_N=32)
    q, k, v = matrices(32)
    q[:, 2:], k[:, 2:] = 0, 0  # few products: scores of this size are to be sums of few rounding errors
    q[::2, 0], q[1::2, 0], k[:, 0] = 54, -54, 4
    yield Case("rows whose scores lie 100 apart", (q, k, v, 0.25, 7))
    for score, size, words in ((-32768.0, 2.0**9, "all scores −32,768"), (-1e38, 2.0**63, "all scores −10³⁸")):
        q, k, v = torch.zeros(24, 16), torch.zeros(24, 16), torch.randn(24, 16, generator=generator)
        q[:, 0], k[:, 0] = size, 2 * score / size  # by a power of two: nothing is rounded
        yield Case(words, (q, k, v, 0.5, 6))
    q, k, v = matrices(40)
    q[:, 0], k[14, 0] = 4, 150
    yield Case("a spike that leaves the window", (q, k, v, 0.25, 12))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    generator = torch.Generator().manual_seed(draw.randrange(2**62))
    for _ in range(6):
        n, d, blocks = draw.randint(1, 70), draw.choice((16, 32)), draw.choice(((16, 16), (32, 16), (16, 32), (32, 32)))
        q, k, v = (torch.randn(n, d, generator=generator) for _ in "qkv")
        sizes = {"D": d, "BLOCK_M": blocks[0], "BLOCK_N": blocks[1]}
        yield Case("any sizes", (q, k, v, d**-0.5, draw.randint(1, 50)), sizes)


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, window: int) -> tuple[torch.Tensor, str]:
    """Query by query, over the keys that it sees, in float64."""
    rows = []
    for i in range(len(q)):
        seen = slice(max(0, i - window + 1), i + 1)
        rows.append(torch.softmax(k[seen].double() @ q[i].double() * scale, 0) @ v[seen].double())
    return torch.stack(rows).float(), ""


@triton.jit
def _band(
    q_ptr, k_ptr, v_ptr, o_ptr, n, scale, window, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BUG: tl.constexpr
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    hidden = -10000.0 if BUG == "finite" else -1e30 if BUG == "-1e30" else -float("inf")
    low: tl.constexpr = (
        0.0 if BUG == "m from 0" else -1e30 if BUG == "-1e30" or BUG == "m from -1e30" else -float("inf")
    )
    m = tl.full([BLOCK_M], low, tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    begin = tl.maximum((first + BLOCK_M if BUG == "last query" else first + 1) - window, 0) // BLOCK_N * BLOCK_N
    if BUG == "own block":
        begin = first // BLOCK_N * BLOCK_N
    elif BUG == "one early":
        begin = tl.maximum(first - window, 0) // BLOCK_N * BLOCK_N
    elif BUG == "from 0":
        begin = 0
    end = tl.minimum(first + BLOCK_M, n)
    if BUG == "to n":
        end = n
    elif BUG == "whole blocks":
        end = end // BLOCK_N * BLOCK_N
    for start in range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        if BUG != "no scale":
            s = s * scale
        before, near = keys[None, :] <= rows[:, None], keys[None, :] > rows[:, None] - window
        if BUG == "one more":
            near = keys[None, :] >= rows[:, None] - window
        elif BUG == "by the loop":
            near = keys[None, :] >= 0
        elif BUG == "no causal mask":
            before = keys[None, :] < n
        elif BUG == "both sides":
            before = (keys[None, :] < rows[:, None] + window) & (keys[None, :] < n)
        if BUG == "strict":
            before = keys[None, :] < rows[:, None]
        elif BUG == "keys left":
            near = keys[None, :] > rows[:, None] - window + 1
        s = tl.where(before & near, s, hidden)
        m_new = tl.max(s, 1)
        if BUG == "one for all rows":
            m_new = tl.zeros([BLOCK_M], tl.float32) + tl.max(s)
        if BUG != "block maximum":
            m_new = tl.maximum(m, m_new)
        shift = m_new
        if BUG != "no shift":
            shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        p = tl.exp2(s - shift[:, None]) if BUG == "exp2" else tl.exp(s - shift[:, None])
        correction = tl.exp2(m - shift) if BUG == "exp2" else tl.exp(m - shift)
        old = tl.full([BLOCK_M], 1.0, tl.float32)
        l = l * (old if BUG == "l not corrected" else correction) + tl.sum(p, 1)
        acc = acc * (old if BUG == "acc not corrected" else correction)[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    if BUG == "not divided":
        l = tl.full([BLOCK_M], 1.0, tl.float32)
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], acc / l[:, None], mask=rows[:, None] < n)


WRONG = variants(
    _band,
    {
        "if rows that see no key of a block are forgotten: their m is still −∞, and −∞ − (−∞) is NaN": "no shift",
        "if hidden scores get a number instead of −∞, 0 or −10,000, say: real scores may lie below it": "finite",
        "if the scores are not multiplied by scale": "no scale",
        "if acc is not corrected when the maximum grows": "acc not corrected",
        "if l is not corrected when the maximum grows": "l not corrected",
        "if acc is not divided by l at the end": "not divided",
        "if powers of 2 stand where powers of e should: exp2 takes a scale with log2 e": "exp2",
        "if one key too few is seen: a window of w has the query's own key and w − 1 before it": "keys left",
        "if a query does not see its own key": "strict",
        "if a number such as −1e30 stands for −∞, in the mask and in m: real scores may lie below it": "-1e30",
        "if one key too many is seen: query i sees the keys from i − window + 1 on": "one more",
        "if the window stands in the loop's bounds alone: within its first block the mask has to leave keys out, too": "by the loop",
        "if a query sees as many keys after itself as before: j ≤ i is missing": "both sides",
        "if the causal mask is missing: j ≤ i hides the keys behind the query": "no causal mask",
        "if the loop begins where the last query's window begins: the first query's begins earlier": "last query",
        "if the loop begins with the block of the program's own tokens: the window reaches back into earlier ones": "own block",
        "if the loop begins with the block of key first − window, which nobody sees: the first query sees first − window + 1": "one early",
        "if the loop begins at key 0, or a block too early: right, but blocks are loaded that no query sees any more": "from 0",
        "if the last block of keys is left out where it is not full": "whole blocks",
        "if the loop goes on behind the program's last query: right, but blocks are loaded that no query sees yet": "to n",
        "if m starts at a number such as 0 instead of −∞: where all scores lie far below, the row is 0/0": "m from 0",
        "if m starts at a number such as −10³⁰ instead of −∞: scores may lie below it, and the row is 0/0": "m from -1e30",
        "if all rows have one maximum: in a row whose scores lie far below it all weights vanish": "one for all rows",
        "if the maximum is that of the block alone: when a spike has passed, the correction overflows": "block maximum",
    },
)

"""Lecture 07: what dv_kernel is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def with_lse(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
    s = (q.double() @ k.double().T / q.shape[1] ** 0.5).masked_fill(_hidden(len(q)), -torch.inf)
    return q, k, torch.logsumexp(s, dim=1).float(), torch.randn(q.shape)


def _hidden(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    for words, n, d in (
        ("one block", 16, 32),
        ("three blocks", 48, 16),
        ("ragged", 21, 16),
        ("one token", 1, 16),
        ("40 tokens, D = 32", 40, 32),
    ):
        yield Case(words, with_lse(torch.randn(n, d), torch.randn(n, d)))
    yield Case("BLOCK = 64", with_lse(torch.randn(130, 16), torch.randn(130, 16)), {"BLOCK": 64})
    yield Case("scores times ten", with_lse(10 * torch.randn(19, 16), torch.randn(19, 16)))
    q, k = torch.randn(19, 16), torch.randn(19, 16)
    q[:, 0], k[-1, 0] = 4, 120
    yield Case("a hidden score far above all others", with_lse(q, k))
    q, k = torch.randn(19, 16), torch.randn(19, 16)
    q[:, 3:], k[:, 3:] = 0, 0  # few products: large scores are to be sums of few rounding errors
    q[:, 0], k[:, 0] = -20, 20
    yield Case("all scores far below 0", with_lse(q, k))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    torch.manual_seed(draw.randrange(2**62))
    for _ in range(5):
        n, d, large = draw.randint(1, 60), draw.choice((16, 32)), {"BLOCK": 64} if draw.random() < 0.3 else {}
        yield Case("any sizes", with_lse(torch.randn(n, d), torch.randn(n, d)), large)


def expected(q: torch.Tensor, k: torch.Tensor, L: torch.Tensor, do: torch.Tensor) -> tuple[torch.Tensor, str]:
    """PyTorch's own differentiation of the attention, in float64; it uses no L."""
    v = torch.zeros(k.shape, dtype=torch.float64, requires_grad=True)
    s = (q.double() @ k.double().T / q.shape[1] ** 0.5).masked_fill(_hidden(len(q)), -torch.inf)
    return torch.autograd.grad(torch.softmax(s, dim=1) @ v, v, do.double())[0].float(), ""


@triton.jit
def _blocks(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr, BUG: tl.constexpr):
    SIZE: tl.constexpr = 16 if BUG == "16" else BLOCK
    first = tl.program_id(0) * SIZE
    keys, cols = first + tl.arange(0, SIZE), tl.arange(0, D)
    at_keys = keys[:, None] * D + cols[None, :]
    k = tl.load(k_ptr + at_keys, mask=keys[:, None] < n, other=0.0)
    dv = tl.zeros([SIZE, D], tl.float32)
    begin, end = first, n
    if BUG == "from 0" or BUG == "no mask, from 0":
        begin = 0
    elif BUG == "after the diagonal":
        begin = first + SIZE
    if BUG == "whole blocks":
        end = n // SIZE * SIZE
    for start in range(begin, end, SIZE):
        rows = start + tl.arange(0, SIZE)
        at_rows = rows[:, None] * D + cols[None, :]
        q = tl.load(q_ptr + at_rows, mask=rows[:, None] < n, other=0.0)
        do = tl.load((q_ptr if BUG == "Q for dO" else do_ptr) + at_rows, mask=rows[:, None] < n, other=0.0)
        PAD: tl.constexpr = 0.0 if BUG == "not transposed, L 0" or BUG == "L along keys" else float("inf")
        L = tl.load(L_ptr + rows, mask=rows < n, other=float("-inf") if BUG == "padded with -inf" else PAD)
        if BUG == "twice":
            q = tl.load(q_ptr + at_rows, mask=rows[:, None] < n, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        if BUG != "no scale":
            s = s * scale
        seen = keys[None, :] <= rows[:, None]
        if BUG == "strict":
            seen = keys[None, :] < rows[:, None]
        elif BUG == "upside down":
            seen = keys[None, :] >= rows[:, None]
        elif BUG == "no mask" or BUG == "no mask, from 0":
            seen = keys[None, :] >= 0
        if BUG == "softmax of the block":
            s = tl.where(seen, s, -float("inf"))
            p = tl.exp(s - tl.max(s, axis=1)[:, None])
            p = p / tl.sum(p, axis=1)[:, None]
        elif BUG == "no L":
            p = tl.exp(s)
        elif BUG == "L added":
            p = tl.exp(s + L[:, None])
        elif BUG == "exp2":
            p = tl.exp2(s - L[:, None])
        elif BUG == "L along keys":
            p = tl.exp(s - L[None, :])
        elif BUG == "divided by L":
            p = tl.exp(s) / L[:, None]
        else:
            p = tl.exp(s - L[:, None])
        p = p * seen.to(tl.float32) if BUG == "times the mask" else tl.where(seen, p, 0.0)
        turned = p if BUG == "not transposed" or BUG == "not transposed, L 0" else tl.trans(p)
        part = tl.dot(turned, do, input_precision="ieee")
        dv = part if BUG == "replaced" else dv + part
    tl.store(dv_ptr + at_keys, dv, mask=keys[:, None] < n)


WRONG = variants(
    _blocks,
    {
        "if P is recomputed without L: exp(S) is not divided by the row's sum": "no L",
        "if P is normalised over the keys of the block: L stands for all keys": "softmax of the block",
        "if the scores are not multiplied by scale": "no scale",
        "if powers of 2 stand where powers of e should: exp2 takes S and L times log2 e": "exp2",
        "if L is taken along the keys: each query, a row of S, has its own": "L along keys",
        "if exp(S) is divided by L: L is the logarithm of the sum, so it is subtracted in the exponent": "divided by L",
        "if L is added: it is subtracted in the exponent, which divides by the row's sum": "L added",
        "if Q stands where dO should: dV is Pᵀ dO": "Q for dO",
        "if the last block of queries is left out where it is not full": "whole blocks",
        "if Q is loaded twice for a block: right, but once is enough": "twice",
        "if P is not transposed: with square blocks the shapes fit all the same": "not transposed",
        "if P is multiplied with dO as it is: dV is Pᵀ dO, and with square blocks the shapes fit all the same": "not transposed, L 0",
        "if each block of queries replaces the sum instead of adding to it": "replaced",
        "if nothing is masked: L stands for the keys that are seen, and P for the others is no weight": "no mask",
        "if nothing is masked, and the walk begins at query 0, as without a causal mask": "no mask, from 0",
        "if the triangle is the other one: a query sees the keys before it, so a key is seen by the queries after it": "upside down",
        "if a query does not see its own key": "strict",
        "if P is multiplied by a mask of zeros and ones: where a hidden score is large that is ∞ · 0": "times the mask",
        "if the walk begins behind the block on the diagonal": "after the diagonal",
        "if the walk begins at query 0: right, but blocks are loaded that see none of the keys": "from 0",
        "if beyond the last query L is padded with −∞, or Q or dO with nothing: P is then undefined, and the sum NaN": "padded with -inf",
        "if blocks of 16 are taken whatever BLOCK is": "16",
    },
)

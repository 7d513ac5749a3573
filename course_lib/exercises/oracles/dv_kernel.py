"""Lecture 07: what dv_kernel is checked by."""

import random
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def with_lse(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
    L = torch.logsumexp(q.double() @ k.double().T / q.shape[1] ** 0.5, dim=1).float()
    return q, k, L, torch.randn(q.shape)


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    for words, n_q, n_k, d in (
        ("one block of queries, one of keys", 16, 16, 32),
        ("several blocks of keys", 16, 32, 16),
        ("several blocks of queries", 32, 16, 16),
        ("ragged keys", 16, 21, 16),
        ("ragged queries", 21, 16, 16),
        ("one query, one key", 1, 1, 16),
        ("all ragged, D = 32", 40, 20, 32),
    ):
        yield Case(words, with_lse(torch.randn(n_q, d), torch.randn(n_k, d)))
    large = {"BLOCK": 64}
    yield Case("BLOCK = 64", with_lse(torch.randn(100, 16), torch.randn(100, 16)), large)
    yield Case("1,100 queries: more than fit in a block", with_lse(torch.randn(1100, 16), torch.randn(5, 16)), large)
    yield Case("scores times ten", with_lse(10 * torch.randn(19, 16), torch.randn(9, 16)))
    q = torch.randn(9, 16)
    yield Case("the largest score is that of the last key", with_lse(q, torch.cat([torch.randn(18, 16), 6 * q[-1:]])))
    q, k = torch.randn(19, 16), torch.randn(9, 16)
    q[:, 0], k[:, 0] = -20, 20
    yield Case("all scores far below 0", with_lse(q, k))


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    torch.manual_seed(draw.randrange(2**62))
    for _ in range(5):
        d, large = draw.choice((16, 32)), {"BLOCK": 64} if draw.random() < 0.3 else {}
        yield Case(
            "any sizes", with_lse(torch.randn(draw.randint(1, 40), d), torch.randn(draw.randint(1, 40), d)), large
        )


def expected(q: torch.Tensor, k: torch.Tensor, L: torch.Tensor, do: torch.Tensor) -> torch.Tensor:
    """PyTorch's own differentiation of the attention, in float64; it uses no L."""
    v = torch.zeros(k.shape, dtype=torch.float64, requires_grad=True)
    o = torch.softmax(q.double() @ k.double().T / q.shape[1] ** 0.5, dim=1) @ v
    return torch.autograd.grad(o, v, do.double())[0].float()


@triton.jit
def _blocks(
    q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n_q, n_k, scale, D: tl.constexpr, BLOCK: tl.constexpr, BUG: tl.constexpr
):
    SIZE: tl.constexpr = 16 if BUG == "16" else BLOCK
    keys = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    cols = tl.arange(0, D)
    at_keys = keys[:, None] * D + cols[None, :]
    rows_end = n_q + SIZE if BUG == "tail of the queries" else n_q
    k = tl.load(k_ptr + at_keys, mask=keys[:, None] < n_k, other=0.0)
    dv = tl.zeros([SIZE, D], tl.float32)
    for start in range(0, n_k if BUG == "up to n_k" else n_q, SIZE):
        rows = start + tl.arange(0, SIZE)
        at_rows = rows[:, None] * D + cols[None, :]
        q = tl.load(q_ptr + at_rows, mask=rows[:, None] < rows_end, other=0.0)
        do = tl.load(do_ptr + at_rows, mask=rows[:, None] < rows_end, other=0.0)
        beyond = float("-inf") if BUG == "padded with -inf" else float("inf")
        L = tl.load(L_ptr + rows, mask=rows < rows_end, other=beyond)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if BUG == "no L":
            p = tl.exp(s)
        elif BUG == "softmax of the block":
            p = tl.exp(s - tl.max(s, axis=1)[:, None])
            p = p / tl.sum(p, axis=1)[:, None]
        else:
            p = tl.exp(s - L[:, None])
        turned = p if BUG == "not transposed" else tl.trans(p)
        part = tl.dot(turned, do, input_precision="ieee")
        dv = part if BUG == "replaced" else dv + part
    tl.store(dv_ptr + at_keys, dv, mask=keys[:, None] < n_k)


WRONG = variants(
    _blocks,
    {
        "if P is recomputed without L: exp(S) is not divided by the row's sum": "no L",
        "if P is normalised over the keys of the block: L stands for all keys": "softmax of the block",
        "if P is not transposed: with square blocks the shapes fit all the same": "not transposed",
        "if each block of queries replaces the sum instead of adding to it": "replaced",
        "if the loop over the queries ends at n_k": "up to n_k",
        "if the tail of the queries is not masked: the last block goes beyond the last query": "tail of the queries",
        "if beyond the last query L is padded with −∞, or Q or dO with nothing: P is then undefined, and the sum NaN": "padded with -inf",
        "if blocks of 16 are taken whatever BLOCK is": "16",
    },
)

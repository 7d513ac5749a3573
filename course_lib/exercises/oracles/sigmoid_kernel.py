"""Lecture 04: what sigmoid_kernel is checked by."""

import math
from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def cases() -> Iterable[Case]:
    generator = torch.Generator().manual_seed(0)

    def case(
        words: str, n_q: int, n_k: int, d: int = 16, dv: int = 32, scale: float = 0.25, bias: float = -1.0, size: float = 1.0,
        **sizes: int,
    ) -> Case:  # fmt: skip
        q, k, v = (torch.randn(n, m, generator=generator) for n, m in ((n_q, d), (n_k, d), (n_k, dv)))
        return Case(words, (size * q, size * k, v, scale, bias), {"D": d, "DV": dv, **sizes})

    yield case("one block of queries, one of keys; values wider than keys", 16, 32)
    yield case("two blocks of keys", 16, 64)
    yield case("values narrower than keys", 16, 64, 32, 16)
    yield case("ragged queries", 21, 32)
    yield case("ragged keys", 16, 41)
    yield case("one query, one key", 1, 1, bias=0.5)
    yield case("no bias, another scale", 5, 40, scale=0.7, bias=0.0)
    yield case("more queries than keys", 50, 20, bias=-math.log(20))
    yield case("blocks of 32 queries and 16 keys, all ragged, DV = 64", 37, 75, 32, 64, 0.2, BLOCK_M=32, BLOCK_N=16)
    yield case("scores in the thousands, of both signs", 16, 40, size=50.0)


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, bias: float) -> torch.Tensor:
    """In float64; of each score the exponential that cannot overflow."""
    x = q.double() @ k.double().T * scale + bias
    power = torch.exp(-x.abs())
    return (torch.where(x >= 0, 1.0, power) / (1 + power) @ v.double()).float()


@triton.jit
def _sigmoid(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BUG: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    WIDTH: tl.constexpr = D if BUG == "one width" else DV
    dims, wide = tl.arange(0, D), tl.arange(0, WIDTH)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n_q, other=0.0)
    acc, l = tl.zeros([BLOCK_M, WIDTH], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for start in range(
        0,
        n_q if BUG == "to n_q" else n_k // BLOCK_N * BLOCK_N if BUG == "whole blocks" else n_k,
        BLOCK_M if BUG == "by BLOCK_M" else BLOCK_N,
    ):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys[:, None] < n_k
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * (D if BUG == "V by D" else WIDTH) + wide[None, :], mask=inside, other=0.0)
        x = tl.dot(q, tl.trans(k), input_precision="ieee")
        x = (
            (x + bias) * scale
            if BUG == "bias scaled"
            else x * scale
            if BUG == "no bias"
            else x + bias
            if BUG == "no scale"
            else x * scale + bias
        )
        if BUG == "overflow":
            p = tl.exp(x) / (1 + tl.exp(x))
        elif BUG == "sign":
            p = 1 / (1 + tl.exp(x))
        elif BUG == "from the maximum":
            p = 1 / (1 + tl.exp(tl.max(x, 1)[:, None] - x))
        elif BUG == "softmax":
            x = tl.where(keys[None, :] < n_k, x, -float("inf"))
            p = tl.exp(x - tl.max(x, 1)[:, None])
            p = p / tl.sum(p, 1)[:, None]
        else:
            p = 1 / (1 + tl.exp(-x))
        if BUG == "normalised":
            p = p / tl.sum(p, 1)[:, None]
        l += tl.sum(tl.where(keys[None, :] < n_k, p, 0.0), 1)
        part = tl.dot(p, v, input_precision="ieee")
        acc = part if BUG == "replaced" else acc + part
    if BUG == "divided by the sum":
        acc = acc / l[:, None]
    at = rows[:, None] * (D if BUG == "O by D" else WIDTH) + wide[None, :]
    if BUG == "store unmasked":
        tl.store(o_ptr + at, acc)
    else:
        tl.store(o_ptr + at, acc, mask=rows[:, None] < n_q)


WRONG = variants(
    _sigmoid,
    {
        "if V and O are taken to be D wide: they have DV columns": "one width",
        "if V's rows are taken to be D long: row j begins at j · DV": "V by D",
        "if O's rows are taken to be D long: row i begins at i · DV": "O by D",
        "if scores are measured from their maximum, as a softmax's are: a sigmoid takes them as they are": "from the maximum",
        "if the sigmoid is written e^x / (1 + e^x): for large x that is ∞ / ∞": "overflow",
        "if the sigmoid has the wrong sign: 1 / (1 + e^x) falls as the score grows": "sign",
        "if the weights are those of Lite, a softmax of the block": "softmax",
        "if the sigmoids of a block are divided by their sum: here weights need not sum to 1": "normalised",
        "if the sum is divided by that of the weights, as in a softmax: here they need not sum to 1": "divided by the sum",
        "if the scores are not multiplied by scale": "no scale",
        "if the last block of keys is left out where it is not full": "whole blocks",
        "if the bias is left out": "no bias",
        "if the bias is multiplied by the scale, too: it is added after it": "bias scaled",
        "if each block replaces the sum instead of adding to it": "replaced",
        "if the loop over the keys ends at n_q: with as many queries as keys nobody notices": "to n_q",
        "if the loop over the keys steps by BLOCK_M: with equal blocks nobody notices": "by BLOCK_M",
        "if the store is not masked: a ragged block of queries writes beyond O": "store unmasked",
    },
)

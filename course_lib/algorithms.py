"""The algorithms of the course, written block by block on the simulated memory: each reads like its pseudo-code.

Each function takes plain tensors, runs on a fresh ``Memory`` and returns the output with that memory, whose trace
holds every load and store. Nothing here is fast; it is exact, and counted.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from course_lib import checks
from course_lib.memory import HBMTensor, Memory
from course_lib.softmax import State, normalise, offline, output, start, update, weights


class Run(NamedTuple):
    """An algorithm's output, and the memory that it ran on."""

    output: torch.Tensor
    memory: Memory


def blocks(length: int, block: int | None) -> Iterator[slice]:
    """The ranges [0, block), [block, 2·block) ... that cover ``length``; the last one may be shorter. None: one range."""
    step = length if block is None else block
    for begin in range(0, length, step):
        yield slice(begin, min(begin + step, length))


def standard_matmul(a: torch.Tensor, b: torch.Tensor, sram_bytes: int | None = None) -> Run:
    """a [m, k] @ b [k, n] with no reuse: each element of the product loads a whole row and a whole column."""
    checks.float_tensor("a", a, ndim=2)
    checks.float_tensor("b", b, ndim=2)
    checks.same_kind(a=a, b=b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has {a.shape[1]} columns but b has {b.shape[0]} rows; they must be equal: a [m, k], b [k, n]"
        )
    memory = Memory(sram_bytes)
    A, B = memory.hbm("A", a), memory.hbm("B", b)
    C = memory.hbm_empty("C", (a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            with memory.scope(f"C[{i}, {j}]"):
                row, col = memory.load(A[i]), memory.load(B[:, j])  # [1, k], [k, 1]
                memory.store(C[i, j], memory.tile("C_ij", memory.matmul(row, col)))
    return Run(C.data, memory)


def standard_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int | None = None,
    block_n: int | None = None,
    sram_bytes: int | None = None,
) -> Run:
    """Attention in three passes, with S and P [Nq, Nk] written to HBM and read back.

    q [Nq, d], k [Nk, d], v [Nk, dv], one floating dtype -> o [Nq, dv]. block_m rows of Q and block_n rows of K or V are
    in SRAM at a time (None: all). Raises SRAMOverflow if they do not fit in ``sram_bytes``.
    Source: FlashAttention (arXiv 2205.14135), Algorithm 0.
    """
    nq, nk, d, dv = checks.attention_inputs(q, k, v)
    for name, value in (("block_m", block_m), ("block_n", block_n)):
        if value is not None:
            checks.positive_int(name, value)
    memory = Memory(sram_bytes)
    Q, K, V = memory.hbm("Q", q), memory.hbm("K", k), memory.hbm("V", v)
    S, P = memory.hbm_empty("S", (nq, nk), q.dtype), memory.hbm_empty("P", (nq, nk), q.dtype)
    O = memory.hbm_empty("O", (nq, dv), q.dtype)

    for rows in blocks(nq, block_m):  # Alg. 0, line 1: S = Q Kᵀ
        with memory.scope("pass 1: S = Q Kᵀ / √d"):
            q_i = memory.load(Q[rows])  # [block_m, d]
            for cols in blocks(nk, block_n):
                with memory.scope("keys"):
                    k_j = memory.load(K[cols])  # [block_n, d]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T) / math.sqrt(d))  # [block_m, block_n]
                    memory.store(S[rows, cols], s_ij)

    for rows in blocks(nq, block_m):  # Alg. 0, line 2: P = softmax(S)
        with memory.scope("pass 2: P = softmax(S)"):
            s_i = memory.load(S[rows])  # [block_m, Nk]: softmax needs the whole row
            memory.work(5 * s_i.numel(), "softmax")
            memory.store(P[rows], offline(s_i))

    for rows in blocks(nq, block_m):  # Alg. 0, line 3: O = P V
        with memory.scope("pass 3: O = P V"):
            o_i = memory.tile(
                "O_i", torch.zeros(P[rows].data.shape[0], dv, dtype=torch.promote_types(q.dtype, torch.float32))
            )
            for cols in blocks(nk, block_n):
                with memory.scope("values"):
                    p_ij, v_j = memory.load(P[rows, cols]), memory.load(V[cols])  # [block_m, block_n], [block_n, dv]
                    o_i += memory.matmul(p_ij, v_j)
            memory.store(O[rows], o_i)
    return Run(O.data, memory)


# --- softmax of one long row, which does not fit in SRAM: how often does it cross? ---


def offline_softmax(x: torch.Tensor, block: int, sram_bytes: int | None = None) -> Run:
    """Softmax of x [n] in three passes: every element is loaded three times and stored once.

    Source: arXiv 1805.02867, Algorithm 2.
    """
    memory, X, Y, parts = _long_row(x, block, sram_bytes)
    m, l = torch.tensor(-torch.inf, dtype=x.dtype), torch.zeros((), dtype=x.dtype)
    for part in parts:
        with memory.scope("pass 1: maximum"):
            m = torch.maximum(m, memory.load(X[part]).max())
    for part in parts:
        with memory.scope("pass 2: sum"):
            l = l + weights(memory.load(X[part]), m).sum()
    for part in parts:
        with memory.scope("pass 3: divide"):
            memory.store(Y[part], normalise(memory.load(X[part]), State(m, l)))
    return Run(Y.data, memory)


def online_softmax(x: torch.Tensor, block: int, sram_bytes: int | None = None) -> Run:
    """Softmax of x [n] in two passes: every element is loaded twice and stored once.

    Source: arXiv 1805.02867, Algorithm 3.
    """
    memory, X, Y, parts = _long_row(x, block, sram_bytes)
    state = start(x)
    for part in parts:
        with memory.scope("pass 1: maximum and sum"):
            state = update(state, memory.load(X[part]))
    for part in parts:
        with memory.scope("pass 2: divide"):
            memory.store(Y[part], normalise(memory.load(X[part]), state))
    return Run(Y.data, memory)


def softmax_average(x: torch.Tensor, v: torch.Tensor, block: int, sram_bytes: int | None = None) -> Run:
    """The average of v [n, dv] under softmax(x), x [n], in one pass: x and v are loaded once, only o [dv] is stored.

    This is what FlashAttention does for one query.
    """
    checks.float_tensor("v", v, ndim=2)
    if v.shape[0] != len(x):
        raise ValueError(f"x has {len(x)} scores but v has {v.shape[0]} rows; pass one value per score")
    memory, X, _, parts = _long_row(x, block, sram_bytes)
    V, O = memory.hbm("V", v), memory.hbm_empty("O", (v.shape[1],), v.dtype)
    state = start(x, v)
    for part in parts:
        with memory.scope("the only pass: maximum, sum and output"):
            state = update(state, memory.load(X[part]), memory.load(V[part]))
    memory.store(O[:], output(state))
    return Run(O.data, memory)


def _long_row(x: torch.Tensor, block: int, sram_bytes: int | None) -> tuple[Memory, HBMTensor, HBMTensor, list[slice]]:
    checks.float_tensor("x", x, ndim=1)
    checks.positive_int("block", block)
    memory = Memory(sram_bytes)
    return memory, memory.hbm("x", x), memory.hbm_empty("y", x.shape, x.dtype), list(blocks(len(x), block))

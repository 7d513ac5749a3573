"""The two loop orders of flash attention on the simulated memory: V1 (outer loop over K/V), V2 (over Q), and a form between.

One head, q, k and v [N, d] of one floating dtype -> Run(output [N, d], memory). Blocks of block_m queries and block_n
keys; ``causal`` lets query i see the keys up to i, and skips the pairs of blocks in which there is nothing to see.
O, l and m accumulate in at least fp32, in HBM (V1) as on chip (V2). Line numbers are those of Algorithm 1 in
FlashAttention (arXiv 2205.14135) for V1, and in FlashAttention-2 (arXiv 2307.08691) for V2.
"""

import math

import torch

from course_lib import checks
from course_lib.algorithms.run import Run, blocks, wide
from course_lib.model.memory import HBMTensor, Memory


def linear_v1(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int) -> Run:
    """(Q Kᵀ) V without a softmax, outer loop over K/V: O is read and written for every block of keys, and has to start at zero."""
    memory, Q, K, V = _inputs(q, k, v)
    O = memory.hbm("O", torch.zeros(q.shape, dtype=wide(q)))
    for cols in blocks(len(k), block_n):
        with memory.scope(f"keys {cols.start // block_n}"):
            k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # [block_n, d]
            for rows in blocks(len(q), block_m):
                with memory.scope(f"queries {rows.start // block_m}"):
                    q_i, o_i = memory.load(Q[rows]), memory.load(O[rows])  # [block_m, d]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T))  # [block_m, block_n]
                    memory.store(O[rows], o_i + memory.matmul(s_ij, v_j))
    return Run(O.data.to(q.dtype), memory)


def linear_v2(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int) -> Run:
    """(Q Kᵀ) V without a softmax, outer loop over Q: O is finished on chip and written once; in HBM it may start as garbage."""
    memory, Q, K, V = _inputs(q, k, v)
    O = memory.hbm_empty("O", q.shape, q.dtype)
    for rows in blocks(len(q), block_m):
        with memory.scope(f"queries {rows.start // block_m}"):
            q_i = memory.load(Q[rows])  # [block_m, d]
            o_i = memory.tile("O_i", torch.zeros(q_i.shape, dtype=wide(q)))
            for cols in blocks(len(k), block_n):
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # [block_n, d]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T))  # [block_m, block_n]
                    o_i += memory.matmul(s_ij, v_j)
            memory.store(O[rows], o_i)
    return Run(O.data, memory)


def flash_v1(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int, causal: bool = False
) -> Run:
    """FlashAttention's Algorithm 1 as printed: O, l and m in HBM, normalised at every step (line 12)."""
    memory, Q, K, V = _inputs(q, k, v)
    n, d = q.shape
    O = memory.hbm("O", torch.zeros(n, d, dtype=wide(q)))  # line 2
    l = memory.hbm("l", torch.zeros(n, dtype=wide(q)))
    m = memory.hbm("m", torch.full((n,), -torch.inf, dtype=wide(q)))
    for cols in blocks(n, block_n):  # line 5
        with memory.scope(f"keys {cols.start // block_n}"):
            k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # line 6: [block_n, d]
            for rows in blocks(n, block_m):  # line 7
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"queries {rows.start // block_m}"):
                    q_i, o_i = memory.load(Q[rows]), memory.load(O[rows])  # line 8: [block_m, d]
                    l_i, m_i = memory.load(l[rows]), memory.load(m[rows])  # [block_m]
                    s_ij = _scores(memory, q_i, k_j, rows, cols, causal)  # line 9: [block_m, block_n]
                    m_ij = s_ij.amax(dim=1)  # line 10: the largest score of this pair
                    shift = m_ij.masked_fill(m_ij == -torch.inf, 0)  # a row may see none of these keys
                    p_ij = memory.exp(s_ij - shift[:, None])
                    l_ij = p_ij.sum(dim=1)
                    m_new = torch.maximum(m_i, m_ij)  # line 11
                    old = memory.rescale(l_i, memory.exp(m_i - m_new))
                    fresh = memory.exp(m_ij - m_new)
                    l_new = old + memory.rescale(l_ij, fresh)
                    pv = memory.matmul(p_ij.to(v_j.dtype), v_j)
                    total = memory.rescale(o_i, old[:, None]) + memory.rescale(pv, fresh[:, None])
                    inverse = memory.divide(torch.ones_like(l_new), l_new)
                    memory.store(O[rows], memory.rescale(total, inverse[:, None]))  # line 12
                    memory.store(l[rows], l_new)  # line 13
                    memory.store(m[rows], m_new)
    return Run(O.data.to(q.dtype), memory)


def flash_running(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int, causal: bool = False
) -> Run:
    """V2's loops, but O normalised after every block of keys: O ← O · (l / l_new) e^(m − m_new) + P V / l_new."""
    memory, Q, K, V = _inputs(q, k, v)
    n, d = q.shape
    O = memory.hbm_empty("O", (n, d), q.dtype)
    for rows in blocks(n, block_m):
        with memory.scope(f"queries {rows.start // block_m}"):
            q_i, o_i, m_i, l_i = _start(memory, Q, rows, q)
            for cols in blocks(n, block_n):
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # [block_n, d]
                    s_ij = _scores(memory, q_i, k_j, rows, cols, causal)  # [block_m, block_n]
                    m_new = torch.maximum(m_i, s_ij.amax(dim=1))
                    p_ij = memory.exp(s_ij - m_new[:, None])
                    factor = memory.exp(m_i - m_new)
                    l_new = memory.rescale(l_i, factor) + p_ij.sum(dim=1)
                    inverse = memory.divide(torch.ones_like(l_new), l_new)
                    factor = memory.rescale(memory.rescale(factor, l_i), inverse)
                    pv = memory.matmul(p_ij.to(v_j.dtype), v_j)
                    o_i = memory.rescale(o_i, factor[:, None]) + memory.rescale(pv, inverse[:, None])
                    m_i, l_i = m_new, l_new
            memory.store(O[rows], o_i)
    return Run(O.data, memory)


def flash_v2(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int, causal: bool = False
) -> Run:
    """FlashAttention-2's Algorithm 1: O, l and m on chip, one division at the end, and L = m + log l saved."""
    memory, Q, K, V = _inputs(q, k, v)
    n, d = q.shape
    O, L = memory.hbm_empty("O", (n, d), q.dtype), memory.hbm_empty("L", (n,), wide(q))
    for rows in blocks(n, block_m):  # line 3
        with memory.scope(f"queries {rows.start // block_m}"):
            q_i, o_i, m_i, l_i = _start(memory, Q, rows, q)  # lines 4, 5
            for cols in blocks(n, block_n):  # line 6
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # line 7: [block_n, d]
                    s_ij = _scores(memory, q_i, k_j, rows, cols, causal)  # line 8: [block_m, block_n]
                    m_new = torch.maximum(m_i, s_ij.amax(dim=1))  # line 9
                    p_ij = memory.exp(s_ij - m_new[:, None])
                    factor = memory.exp(m_i - m_new)
                    l_i = memory.rescale(l_i, factor) + p_ij.sum(dim=1)
                    pv = memory.matmul(p_ij.to(v_j.dtype), v_j)
                    o_i = memory.rescale(o_i, factor[:, None]) + pv  # line 10
                    m_i = m_new
            inverse = memory.divide(torch.ones_like(l_i), l_i)
            memory.store(O[rows], memory.rescale(o_i, inverse[:, None]))  # lines 12, 14
            memory.store(L[rows], m_i + torch.log(l_i))  # lines 13, 15
    return Run(O.data, memory)


def _inputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[Memory, HBMTensor, HBMTensor, HBMTensor]:
    checks.same_shape(q=q, k=k, v=v)
    memory = Memory()
    return memory, memory.hbm("Q", q), memory.hbm("K", k), memory.hbm("V", v)


def _start(
    memory: Memory, Q: HBMTensor, rows: slice, q: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A block of queries in SRAM, with its empty accumulator, maximum and sum: (q_i, o_i, m_i, l_i)."""
    q_i = memory.load(Q[rows])
    o_i = memory.tile("O_i", torch.zeros(q_i.shape, dtype=wide(q)))
    m_i = memory.tile("m_i", torch.full((len(q_i),), -torch.inf, dtype=wide(q)))
    return q_i, o_i, m_i, memory.tile("l_i", torch.zeros(len(q_i), dtype=wide(q)))


def _scores(
    memory: Memory, q_i: torch.Tensor, k_j: torch.Tensor, rows: slice, cols: slice, causal: bool
) -> torch.Tensor:
    """S_ij = Q_i K_jᵀ / √d, with -inf where a query does not see a key."""
    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T) / math.sqrt(q_i.shape[1]))
    if causal:
        row, col = torch.arange(rows.start, rows.stop)[:, None], torch.arange(cols.start, cols.stop)
        s_ij = s_ij.masked_fill(col > row, -torch.inf)
    return s_ij

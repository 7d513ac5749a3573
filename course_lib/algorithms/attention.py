"""Attention on the simulated memory: in three passes through HBM, with a local softmax (wrong), and online."""

import math

import torch

from course_lib.algorithms.run import Run, blocks, wide
from course_lib.model.memory import HBMTensor, Memory
from course_lib.model.softmax import offline, weights


def standard_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int | None = None, block_n: int | None = None
) -> Run:
    """Attention in three passes, with S and P [Nq, Nk] written to HBM and read back.

    q [Nq, d], k [Nk, d], v [Nk, dv], one floating dtype -> o [Nq, dv]. block_m rows of Q and block_n rows of K or V are
    in SRAM at a time (None: all).
    Source: FlashAttention (arXiv 2205.14135), Algorithm 0.
    """
    (nq, d), (nk, dv) = q.shape, v.shape
    memory = Memory()
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
            o_i = memory.tile("O_i", torch.zeros(P[rows].data.shape[0], dv, dtype=wide(q)))
            for cols in blocks(nk, block_n):
                with memory.scope("values"):
                    p_ij, v_j = memory.load(P[rows, cols]), memory.load(V[cols])  # [block_m, block_n], [block_n, dv]
                    o_i += memory.matmul(p_ij, v_j)
            memory.store(O[rows], o_i)
    return Run(O.data, memory)


def lite_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int) -> Run:
    """Block-wise attention with a softmax inside each block only: the SUM of one average for each block of keys. Wrong.

    q [Nq, d], k [Nk, d], v [Nk, dv] -> [Nq, dv]. The same loads and stores as ``online_attention``.
    """
    memory, Q, K, V, O = _flash(q, k, v)
    for rows in blocks(len(q), block_m):
        with memory.scope(f"queries {rows.start // block_m}"):
            q_i = memory.load(Q[rows])  # [block_m, d]
            o_i = memory.tile("O_i", torch.zeros(len(q_i), v.shape[1], dtype=wide(q)))
            for cols in blocks(len(k), block_n):
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # [block_n, d], [block_n, dv]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T) / math.sqrt(q.shape[1]))  # [block_m, block_n]
                    memory.work(5 * s_ij.numel(), "softmax")
                    o_i += memory.matmul(offline(s_ij).to(v_j.dtype), v_j)
            memory.store(O[rows], o_i)
    return Run(O.data, memory)


def online_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int) -> Run:
    """Block-wise attention with the online softmax: exact, with S and P in SRAM only.

    q [Nq, d], k [Nk, d], v [Nk, dv] -> [Nq, dv]. Q is loaded once, K and V once for each block of queries, O is stored
    once. Source: FlashAttention-2 (arXiv 2307.08691), Algorithm 1, lines 3 to 15.
    """
    memory, Q, K, V, O = _flash(q, k, v)
    for rows in blocks(len(q), block_m):
        with memory.scope(f"queries {rows.start // block_m}"):
            q_i = memory.load(Q[rows])  # [block_m, d]
            o_i = memory.tile("O_i", torch.zeros(len(q_i), v.shape[1], dtype=wide(q)))
            m_i = memory.tile("m_i", torch.full((len(q_i),), -torch.inf, dtype=wide(q)))
            l_i = memory.tile("l_i", torch.zeros(len(q_i), dtype=wide(q)))
            for cols in blocks(len(k), block_n):
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(K[cols]), memory.load(V[cols])  # [block_n, d], [block_n, dv]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T) / math.sqrt(q.shape[1]))  # [block_m, block_n]
                    memory.work(5 * s_ij.numel(), "softmax")
                    m_new = torch.maximum(m_i, s_ij.amax(dim=1))  # Alg. 1, line 9
                    p_ij = weights(s_ij, m_new)
                    factor = torch.exp(m_i - m_new)
                    l_i = l_i * factor + p_ij.sum(dim=1)
                    o_i = o_i * factor[:, None] + memory.matmul(p_ij.to(v_j.dtype), v_j)  # Alg. 1, line 10
                    m_i = m_new
            memory.store(O[rows], o_i / l_i[:, None])  # Alg. 1, line 12
    return Run(O.data, memory)


def _flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[Memory, HBMTensor, HBMTensor, HBMTensor, HBMTensor]:
    memory = Memory()
    O = memory.hbm_empty("O", (len(q), v.shape[1]), q.dtype)
    return memory, memory.hbm("Q", q), memory.hbm("K", k), memory.hbm("V", v), O

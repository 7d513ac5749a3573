"""Decoding on the simulated memory: the keys of one head of K and V cut into splits, and the splits merged.

One sequence; the query heads that share the head of K and V are the rows of q. Source: Flash-Decoding
(pytorch.org/blog/flash-decoding).
"""

import math

import torch

from course_lib.algorithms.run import Run, blocks, wide
from course_lib.model.decoding import keys_per_split
from course_lib.model.memory import Memory


def split_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, splits: int, block_n: int) -> Run:
    """q [group, d]: the one query of each head of the group; k, v [length, d] -> o like q.

    Each split leaves O_s and L_s in float32 in HBM; with one split there is nothing to merge.
    """
    (rows, d), length = q.shape, len(k)
    each = keys_per_split(length, splits, block_n)
    memory = Memory()
    Q, K, V = memory.hbm("Q", q), memory.hbm("K", k), memory.hbm("V", v)
    memory.hbm("lengths", torch.tensor([float(length)]))  # whole numbers of 4 bytes
    O, L = memory.hbm_empty("O", (rows, d), q.dtype), memory.hbm_empty("L", (rows,), wide(q))
    if splits == 1:
        O_s, L_s = O, L
    else:
        O_s = memory.hbm_empty("O_s", (rows * splits, d), wide(q))
        L_s = memory.hbm_empty("L_s", (rows * splits,), wide(q))

    for split in range(splits):
        with memory.scope(f"split {split}"):
            q_i = memory.load(Q[:])  # [rows, d]
            memory.load(memory.tensors["lengths"][:])
            o_i = memory.tile("O_i", torch.zeros(rows, d, dtype=wide(q)))
            m_i = memory.tile("m_i", torch.full((rows,), -torch.inf, dtype=wide(q)))
            l_i = memory.tile("l_i", torch.zeros(rows, dtype=wide(q)))
            begin, end = min(split * each, length), min((split + 1) * each, length)
            for part in blocks(end - begin, block_n):
                keys = slice(begin + part.start, begin + part.stop)
                with memory.scope(f"keys {keys.start} to {keys.stop - 1}"):
                    k_j, v_j = memory.load(K[keys]), memory.load(V[keys])  # [block_n, d]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T) / math.sqrt(d))  # [rows, block_n]
                    m_new = torch.maximum(m_i, s_ij.amax(dim=1))
                    p_ij, factor = memory.exp(s_ij - m_new[:, None]), memory.exp(m_i - m_new)
                    l_i = l_i * factor + p_ij.sum(dim=1)
                    o_i = o_i * factor[:, None] + memory.matmul(p_ij.to(v_j.dtype), v_j)
                    m_i = m_new
            for row in range(rows):
                at = row * splits + split
                memory.store(L_s[at], m_i[row : row + 1] + torch.log(l_i[row : row + 1]))
                if begin < end:  # the merge does not read the others
                    memory.store(O_s[at], o_i[row : row + 1] / l_i[row])

    for row in range(rows) if splits > 1 else ():
        with memory.scope(f"merge row {row}"):
            parts = memory.load(L_s[row * splits : (row + 1) * splits])  # [splits]
            total = torch.logsumexp(parts, dim=0)
            o = memory.tile("O_i", torch.zeros(1, d, dtype=wide(q)))
            for split in range(splits):
                if parts[split] > -torch.inf:
                    o += torch.exp(parts[split] - total) * memory.load(O_s[row * splits + split])
            memory.store(O[row], o)
            memory.store(L[row], total[None])
    return Run(O.data, memory)

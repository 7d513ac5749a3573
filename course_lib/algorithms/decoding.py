"""Decoding on the simulated memory: the keys of one head of K and V cut into splits, and the splits merged.

One sequence; the query heads that share the head of K and V are the rows of q. Source: Flash-Decoding
(pytorch.org/blog/flash-decoding); pages: PagedAttention (arXiv 2309.06180).
"""

import math
from collections.abc import Sequence

import torch

from course_lib.algorithms.run import Run, blocks, wide
from course_lib.model.decoding import keys_per_split
from course_lib.model.memory import HBMTensor, Memory


def split_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    splits: int,
    block_n: int,
    *,
    length: int | None = None,
    table: Sequence[int] | None = None,
    page: int = 16,
    n_q: int = 1,
    sram_bytes: int | None = None,
) -> Run:
    """q [group · n_q, d]: n_q queries of each head of the group; k, v [N, d], of which the first ``length`` rows are in use -> o like q.

    With a ``table``, k and v are a pool of pages: token t is row t % page of page table[t // page]. Query i is token
    length - n_q + i and sees the keys up to its own. Each split leaves O_s and L_s in float32 in HBM; with one split there is
    nothing to merge. Raises SRAMOverflow.
    """
    rows, d = q.shape
    if length is None:
        length = len(k) if table is None else len(table) * page
    each = keys_per_split(length, splits, block_n)
    memory = Memory(sram_bytes)
    Q, K, V = memory.hbm("Q", q), memory.hbm("K", k), memory.hbm("V", v)
    memory.hbm("lengths", torch.tensor([float(length)]))  # whole numbers of 4 bytes
    if table is not None:
        memory.hbm("table", torch.tensor([float(number) for number in table]))
    O, L = memory.hbm_empty("O", (rows, d), q.dtype), memory.hbm_empty("L", (rows,), wide(q))
    if splits == 1:
        O_s, L_s = O, L
    else:
        O_s = memory.hbm_empty("O_s", (rows * splits, d), wide(q))
        L_s = memory.hbm_empty("L_s", (rows * splits,), wide(q))
    last = length - n_q + torch.arange(rows) % n_q  # the last key that a row sees

    for split in range(splits):
        with memory.scope(f"split {split}"):
            q_i = memory.load(Q[:])  # [rows, d]
            memory.load(memory.tensors["lengths"][:])
            o_i = memory.tile("O_i", torch.zeros(rows, d, dtype=wide(q)))
            m_i = memory.tile("m_i", torch.full((rows,), -torch.inf, dtype=wide(q)))
            l_i = memory.tile("l_i", torch.zeros(rows, dtype=wide(q)))
            begin, end = min(split * each, length), min((split + 1) * each, length)
            for part in blocks(end - begin, block_n) if end > begin else ():
                keys = slice(begin + part.start, begin + part.stop)
                with memory.scope(f"keys {keys.start} to {keys.stop - 1}"):
                    numbers = None if table is None else _pages(memory, keys, page)
                    k_j, v_j = (_rows(memory, matrix, keys, numbers, page) for matrix in (K, V))  # [block_n, d]
                    s_ij = memory.tile("S_ij", memory.matmul(q_i, k_j.T) / math.sqrt(d))  # [rows, block_n]
                    s_ij = s_ij.masked_fill(torch.arange(keys.start, keys.stop) > last[:, None], -torch.inf)
                    m_new = torch.maximum(m_i, s_ij.amax(dim=1))
                    shift = m_new.masked_fill(m_new == -torch.inf, 0)  # a row may see none of these keys
                    p_ij, factor = memory.exp(s_ij - shift[:, None]), memory.exp(m_i - shift)
                    l_i = l_i * factor + p_ij.sum(dim=1)
                    o_i = o_i * factor[:, None] + memory.matmul(p_ij.to(v_j.dtype), v_j)
                    m_i = m_new
            for row in range(rows):
                at = row * splits + split
                memory.store(L_s[at], m_i[row : row + 1] + torch.log(l_i[row : row + 1]))
                if m_i[row] > -torch.inf:  # the merge does not read the others
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


def _pages(memory: Memory, keys: slice, page: int) -> list[int]:
    """The numbers of the pages in which these keys are, from the table."""
    slots = slice(keys.start // page, -(-keys.stop // page))
    return [int(number) for number in memory.load(memory.tensors["table"][slots])]


def _rows(memory: Memory, matrix: HBMTensor, keys: slice, numbers: list[int] | None, page: int) -> torch.Tensor:
    """These keys' rows of K or V; from pages, what each of them holds of the keys, and nothing behind them."""
    if numbers is None:
        return memory.load(matrix[keys])
    sizes = [min(page, keys.stop - start) for start in range(keys.start, keys.stop, page)]
    return torch.cat([memory.load(matrix[n * page : n * page + size]) for n, size in zip(numbers, sizes, strict=True)])

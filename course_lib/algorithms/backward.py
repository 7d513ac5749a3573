"""The backward pass of flash attention on the simulated memory, in three loop orders; P is recomputed from Q, K and L.

One head, q, k, v, o and do [N, d] of one floating dtype, L [N] = m + log l from the forward pass -> Gradients. All accumulators are
kept in at least fp32. ``causal`` skips the pairs of blocks in which there is nothing to see. Source: FlashAttention-2
(arXiv 2307.08691), Algorithm 2, whose line numbers are given; it is the order with the outer loop over K/V.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.algorithms.run import blocks, wide
from course_lib.model.memory import HBMTensor, Memory


class Gradients(NamedTuple):
    """dq, dk, dv [N, d] in the inputs' dtype, and the memory that the pass ran on."""

    dq: Tensor
    dk: Tensor
    dv: Tensor
    memory: Memory


def backward_over_kv(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, L: Tensor, do: Tensor, block_m: int, block_n: int, causal: bool = False
) -> Gradients:
    """Algorithm 2's order: dK_j and dV_j are finished on chip and written once; dQ is read and written for each pair.

    Unlike the printed lines, O_i is not loaded for each pair (only D_i is used), and 1/√d and the mask are added.
    """
    memory, hbm = _start(q, k, v, o, L, do, block_m)
    n, d = q.shape
    dQ = memory.hbm("dQ", torch.zeros(n, d, dtype=wide(q)))  # line 3
    dK, dV = memory.hbm_empty("dK", (n, d), q.dtype), memory.hbm_empty("dV", (n, d), q.dtype)
    for cols in blocks(n, block_n):  # line 5
        with memory.scope(f"keys {cols.start // block_n}"):
            k_j, v_j, dk_j, dv_j = _load_keys(memory, hbm, cols, q)  # lines 6, 7
            for rows in blocks(n, block_m):  # line 8
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"queries {rows.start // block_m}"):
                    row = _load_queries(memory, hbm, rows)  # line 9
                    dq_i = memory.load(dQ[rows])
                    p, ds = _pair(memory, row, k_j, v_j, rows, cols, causal)  # lines 10, 11, 13, 14
                    dv_j += memory.matmul(p.T.to(q.dtype), row.do)  # line 12
                    memory.store(dQ[rows], dq_i + memory.matmul(ds.to(q.dtype), k_j) / math.sqrt(d))  # line 15
                    dk_j += memory.matmul(ds.T.to(q.dtype), row.q)  # line 16
            memory.store(dK[cols], dk_j / math.sqrt(d))  # line 18
            memory.store(dV[cols], dv_j)
    return Gradients(dQ.data.to(q.dtype), dK.data, dV.data, memory)


def backward_over_q(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, L: Tensor, do: Tensor, block_m: int, block_n: int, causal: bool = False
) -> Gradients:
    """The loops turned round: dQ_i is finished on chip; dK and dV, two matrices, are read and written for each pair."""
    memory, hbm = _start(q, k, v, o, L, do, block_m)
    n, d = q.shape
    dQ = memory.hbm_empty("dQ", (n, d), q.dtype)
    dK, dV = (memory.hbm(name, torch.zeros(n, d, dtype=wide(q))) for name in ("dK", "dV"))
    for rows in blocks(n, block_m):
        with memory.scope(f"queries {rows.start // block_m}"):
            row = _load_queries(memory, hbm, rows)
            dq_i = memory.tile("dQ_i", torch.zeros(row.q.shape, dtype=wide(q)))
            for cols in blocks(n, block_n):
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(hbm["K"][cols]), memory.load(hbm["V"][cols])  # [block_n, d]
                    dk_j, dv_j = memory.load(dK[cols]), memory.load(dV[cols])
                    p, ds = _pair(memory, row, k_j, v_j, rows, cols, causal)
                    memory.store(dV[cols], dv_j + memory.matmul(p.T.to(q.dtype), row.do))
                    memory.store(dK[cols], dk_j + memory.matmul(ds.T.to(q.dtype), row.q) / math.sqrt(d))
                    dq_i += memory.matmul(ds.to(q.dtype), k_j)
            memory.store(dQ[rows], dq_i / math.sqrt(d))
    return Gradients(dQ.data, dK.data.to(q.dtype), dV.data.to(q.dtype), memory)


def backward_two_passes(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, L: Tensor, do: Tensor, block_m: int, block_n: int, causal: bool = False
) -> Gradients:
    """Outer loop over K/V for dK and dV, then over Q for dQ: nothing is read back, S and dP are computed twice."""
    memory, hbm = _start(q, k, v, o, L, do, block_m)
    n, d = q.shape
    dQ, dK, dV = (memory.hbm_empty(name, (n, d), q.dtype) for name in ("dQ", "dK", "dV"))
    for cols in blocks(n, block_n):
        with memory.scope(f"keys {cols.start // block_n}"):
            k_j, v_j, dk_j, dv_j = _load_keys(memory, hbm, cols, q)
            for rows in blocks(n, block_m):
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"queries {rows.start // block_m}"):
                    row = _load_queries(memory, hbm, rows)
                    p, ds = _pair(memory, row, k_j, v_j, rows, cols, causal)
                    dv_j += memory.matmul(p.T.to(q.dtype), row.do)
                    dk_j += memory.matmul(ds.T.to(q.dtype), row.q)
            memory.store(dK[cols], dk_j / math.sqrt(d))
            memory.store(dV[cols], dv_j)
    for rows in blocks(n, block_m):
        with memory.scope(f"second pass, queries {rows.start // block_m}"):
            row = _load_queries(memory, hbm, rows)
            dq_i = memory.tile("dQ_i", torch.zeros(row.q.shape, dtype=wide(q)))
            for cols in blocks(n, block_n):
                if causal and rows.stop <= cols.start:
                    continue
                with memory.scope(f"keys {cols.start // block_n}"):
                    k_j, v_j = memory.load(hbm["K"][cols]), memory.load(hbm["V"][cols])
                    _, ds = _pair(memory, row, k_j, v_j, rows, cols, causal)
                    dq_i += memory.matmul(ds.to(q.dtype), k_j)
            memory.store(dQ[rows], dq_i / math.sqrt(d))
    return Gradients(dQ.data, dK.data, dV.data, memory)


class _Rows(NamedTuple):
    """What the backward pass needs of a block of queries: q, do [block_m, d], L and D [block_m]."""

    q: Tensor
    do: Tensor
    L: Tensor
    D: Tensor


def _start(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, L: Tensor, do: Tensor, block_m: int
) -> tuple[Memory, dict[str, HBMTensor]]:
    """Place the inputs in HBM and compute D = rowsum(dO ∘ O) (line 4)."""
    memory = Memory()
    hbm = {name: memory.hbm(name, x) for name, x in (("Q", q), ("K", k), ("V", v), ("O", o), ("dO", do))}
    hbm |= {"L": memory.hbm("L", L.to(wide(q))), "D": memory.hbm_empty("D", L.shape, wide(q))}
    for rows in blocks(len(q), block_m):
        with memory.scope(f"D {rows.start // block_m}"):
            o_i, do_i = memory.load(hbm["O"][rows]), memory.load(hbm["dO"][rows])
            memory.store(hbm["D"][rows], (o_i.to(wide(q)) * do_i).sum(dim=1))
    return memory, hbm


def _load_keys(
    memory: Memory, hbm: dict[str, HBMTensor], cols: slice, q: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A block of K and V in SRAM with empty accumulators for its gradients, all [block_n, d]."""
    k_j, v_j = memory.load(hbm["K"][cols]), memory.load(hbm["V"][cols])
    dk_j, dv_j = (memory.tile(name, torch.zeros(k_j.shape, dtype=wide(q))) for name in ("dK_j", "dV_j"))
    return k_j, v_j, dk_j, dv_j


def _load_queries(memory: Memory, hbm: dict[str, HBMTensor], rows: slice) -> _Rows:
    return _Rows(*(memory.load(hbm[name][rows]) for name in ("Q", "dO", "L", "D")))


def _pair(
    memory: Memory, row: _Rows, k_j: Tensor, v_j: Tensor, rows: slice, cols: slice, causal: bool
) -> tuple[Tensor, Tensor]:
    """P recomputed, and dS = P ∘ (dP − D), both [block_m, block_n] and on chip."""
    s = memory.matmul(row.q, k_j.T) / math.sqrt(row.q.shape[1])
    if causal:
        at, seen = torch.arange(rows.start, rows.stop)[:, None], torch.arange(cols.start, cols.stop)
        s = s.masked_fill(seen > at, -torch.inf)
    p = memory.tile("P_ij", memory.exp(s - row.L[:, None]))
    ds = memory.tile("dS_ij", p * (memory.matmul(row.do, v_j.T) - row.D[:, None]))
    return p, ds

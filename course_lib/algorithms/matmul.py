"""Matmuls on the simulated memory: with no reuse, and by tiles."""

import torch

from course_lib.algorithms.run import Run, blocks, wide
from course_lib.model.memory import HBMTensor, Memory


def standard_matmul(a: torch.Tensor, b: torch.Tensor) -> Run:
    """a [m, k] @ b [k, n] with no reuse: each element of the product loads a whole row and a whole column."""
    memory, A, B, C = _product(a, b)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            with memory.scope(f"C[{i}, {j}]"):
                row, col = memory.load(A[i]), memory.load(B[:, j])  # [1, k], [k, 1]
                memory.store(C[i, j], memory.tile("C_ij", memory.matmul(row, col)))
    return Run(C.data, memory)


def tiled_matmul(a: torch.Tensor, b: torch.Tensor, block_m: int, block_n: int, block_k: int) -> Run:
    """a [m, k] @ b [k, n] by tiles: each tile of C stays in SRAM while tiles of A's row and B's column stream past."""
    memory, A, B, C = _product(a, b)
    (m, k), n = a.shape, b.shape[1]
    for rows in blocks(m, block_m):
        for cols in blocks(n, block_n):
            with memory.scope(f"tile C[{rows.start // block_m}, {cols.start // block_n}]"):
                acc = memory.tile("acc", torch.zeros(C[rows, cols].data.shape, dtype=wide(a)))  # [block_m, block_n]
                for inner in blocks(k, block_k):
                    with memory.scope(f"term {inner.start // block_k}"):
                        a_tile = memory.load(A[rows, inner])  # [block_m, block_k]
                        b_tile = memory.load(B[inner, cols])  # [block_k, block_n]
                        acc += memory.matmul(a_tile, b_tile)
                memory.store(C[rows, cols], acc)
    return Run(C.data, memory)


def _product(a: torch.Tensor, b: torch.Tensor) -> tuple[Memory, HBMTensor, HBMTensor, HBMTensor]:
    memory = Memory()
    C_shape = (a.shape[0], b.shape[1])
    return memory, memory.hbm("A", a), memory.hbm("B", b), memory.hbm_empty("C", C_shape, a.dtype)

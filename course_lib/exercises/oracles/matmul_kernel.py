"""Lecture 03: what matmul_kernel is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.kernels import tl, triton


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    for words, m, n, k in (
        ("one full tile", 16, 16, 16),
        ("K takes several tiles", 16, 16, 48),
        ("several tiles of C", 32, 48, 16),
        ("ragged M", 5, 16, 16),
        ("ragged N", 16, 20, 16),
        ("ragged K", 16, 16, 21),
        ("all ragged", 33, 18, 35),
    ):
        yield Case(words, (torch.randn(m, k), torch.randn(k, n)))


def expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


@triton.jit
def _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BUG: tl.constexpr):
    across: tl.constexpr = 0 if BUG == "axes swapped" else 1
    size: tl.constexpr = 1 if BUG == "number as row" else BLOCK
    rows = tl.program_id(1 - across) * size + tl.arange(0, BLOCK)
    cols = tl.program_id(across) * size + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    end = K
    if BUG == "first tile":
        end = BLOCK
    elif BUG == "steps rounded down":
        end = K // BLOCK * BLOCK
    for start in range(0, end, BLOCK):
        inner = tl.arange(0, BLOCK) + (0 if BUG == "no start" else start)
        a_at = rows[:, None] * (N if BUG == "A by N" else M if BUG == "A by M" else K) + inner[None, :]
        b_at = inner[:, None] * (K if BUG == "B by K" else N) + cols[None, :]
        if BUG == "B transposed":
            b_at = inner[:, None] + cols[None, :] * K
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols[None, :] < N)
        if BUG == "no mask of K":
            a_mask = (rows[:, None] < M) & (inner[None, :] >= 0)
            b_mask = (inner[:, None] >= 0) & (cols[None, :] < N)
        elif BUG == "flat masks":
            a_mask, b_mask = a_at < M * K, b_at < K * N
        if BUG == "no mask of A's M" or BUG == "masks of K only":
            a_mask = (rows[:, None] >= 0) & (inner[None, :] < K)
        if BUG == "no mask of B's N" or BUG == "masks of K only":
            b_mask = (inner[:, None] < K) & (cols[None, :] >= 0)
        if BUG == "no masks":
            a_mask, b_mask = a_at >= 0, b_at >= 0
        a = tl.load(a_ptr + a_at, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + b_at, mask=b_mask, other=0.0)
        product = tl.dot(a, b, input_precision="ieee")
        acc = product if BUG == "last tile" else acc + product
    c_at = rows[:, None] * (K if BUG == "C by K" else M if BUG == "C by M" else N) + cols[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    if BUG == "store unmasked":
        inside = c_at >= 0
    elif BUG == "flat masks" or BUG == "flat store":
        inside = c_at < M * N
    tl.store(c_ptr + c_at, acc, mask=inside)


@triton.jit
def axes_swapped(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "axes swapped")


@triton.jit
def number_as_row(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "number as row")


@triton.jit
def no_tail_mask(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "no mask of K")


@triton.jit
def a_not_masked_along_m(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "no mask of A's M")


@triton.jit
def b_not_masked_along_n(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "no mask of B's N")


@triton.jit
def loads_masked_along_k_only(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "masks of K only")


@triton.jit
def loads_not_masked(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "no masks")


@triton.jit
def store_not_masked(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "store unmasked")


@triton.jit
def flat_masks(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "flat masks")


@triton.jit
def flat_store_mask(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "flat store")


@triton.jit
def first_tile_only(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "first tile")


@triton.jit
def steps_rounded_down(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "steps rounded down")


@triton.jit
def start_forgotten(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "no start")


@triton.jit
def last_tile_only(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "last tile")


@triton.jit
def a_rows_n_long(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "A by N")


@triton.jit
def a_rows_m_long(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "A by M")


@triton.jit
def b_rows_k_long(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "B by K")


@triton.jit
def transposed_stride(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "B transposed")


@triton.jit
def c_rows_k_long(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "C by K")


@triton.jit
def c_rows_m_long(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, "C by M")


WRONG = {
    "if program_id(0) counts columns: the grid is (⌈M / BLOCK⌉, ⌈N / BLOCK⌉), rows first": axes_swapped,
    "if tile number i starts at row i: it starts at row i · BLOCK": number_as_row,
    "if the tail of K is not masked: the last tile takes numbers of the next row": no_tail_mask,
    "if the load of A is not masked along M: both conditions, rows and columns, belong in a mask": a_not_masked_along_m,
    "if the load of B is not masked along N: both conditions, rows and columns, belong in a mask": b_not_masked_along_n,
    "if the loads are masked along K only: along M and N a ragged tile reads beyond the matrix, too": loads_masked_along_k_only,
    "if no load is masked: a ragged tile reads beyond the matrix, along M, N and K": loads_not_masked,
    "if the store is not masked: a ragged tile writes beyond the matrix": store_not_masked,
    "if masks compare the offset with the matrix's size: column N of a row is column 0 of the next, and inside": flat_masks,
    "if the store's mask compares the offset with C's size: column N of a row is column 0 of the next, and inside": flat_store_mask,
    "if only the first tile along K is used": first_tile_only,
    "if there are K // BLOCK steps: the tail of K is one more, tl.cdiv(K, BLOCK)": steps_rounded_down,
    "if each step loads the first tile along K: a step's tile begins at start": start_forgotten,
    "if each tile along K replaces the sum instead of adding to it": last_tile_only,
    "if A's rows are taken to be N long: A is [M, K], element (i, j) lies at i · K + j": a_rows_n_long,
    "if A's rows are taken to be M long: A is [M, K], element (i, j) lies at i · K + j": a_rows_m_long,
    "if B's rows are taken to be K long: B is [K, N], element (i, j) lies at i · N + j": b_rows_k_long,
    "if B is read with a transposed stride: element (i, j) of a [K, N] matrix lies at i · N + j": transposed_stride,
    "if C's rows are taken to be K long: C is [M, N], element (i, j) lies at i · N + j": c_rows_k_long,
    "if C's rows are taken to be M long: C is [M, N], element (i, j) lies at i · N + j": c_rows_m_long,
}

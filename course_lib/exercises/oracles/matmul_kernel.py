"""Lecture 03: what matmul_kernel is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variant
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
    for words, m, n, k in (("blocks of 32, all ragged", 40, 70, 50), ("blocks of 32, K = 1,100", 5, 7, 1100)):
        yield Case(words, (torch.randn(m, k), torch.randn(k, n)), {"BLOCK": 32})


def expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


@triton.jit
def _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BUG: tl.constexpr):
    across: tl.constexpr = 0 if BUG == "axes swapped" else 1
    SIDE: tl.constexpr = 16 if BUG == "16" else BLOCK
    size: tl.constexpr = 1 if BUG == "number as row" else SIDE
    rows = tl.program_id(1 - across) * size + tl.arange(0, SIDE)
    cols = tl.program_id(across) * size + tl.arange(0, SIDE)
    acc = tl.zeros([SIDE, SIDE], tl.float32)
    end = K
    if BUG == "first tile":
        end = SIDE
    elif BUG == "to M":
        end = M
    elif BUG == "to N":
        end = N
    elif BUG == "steps rounded down":
        end = K // SIDE * SIDE
    for start in range(0, end, SIDE):
        inner = tl.arange(0, SIDE) + (0 if BUG == "no start" else start // SIDE if BUG == "number as start" else start)
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
        product = tl.dot(b, a, input_precision="ieee") if BUG == "b times a" else tl.dot(a, b, input_precision="ieee")
        acc = product if BUG == "last tile" else acc + product
    c_at = rows[:, None] * (K if BUG == "C by K" else M if BUG == "C by M" else N) + cols[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    if BUG == "C transposed":
        c_at = rows[:, None] + cols[None, :] * M
    if BUG == "store unmasked":
        inside = c_at >= 0
    elif BUG == "store by rows":
        inside = (rows[:, None] < M) & (cols[None, :] >= 0)
    elif BUG == "store by columns":
        inside = (rows[:, None] >= 0) & (cols[None, :] < N)
    elif BUG == "flat masks" or BUG == "flat store":
        inside = c_at < M * N
    tl.store(c_ptr + c_at, acc, mask=inside)


WRONG = {
    diagnosis: variant(_tile, bug)
    for diagnosis, bug in {
        "if program_id(0) counts columns: the grid is (⌈M / BLOCK⌉, ⌈N / BLOCK⌉), rows first": "axes swapped",
        "if tile number i starts at row i: it starts at row i · BLOCK": "number as row",
        "if step number i along K starts at number i: it starts at i · BLOCK": "number as start",
        "if 16 stands where BLOCK belongs: the blocks may have another size": "16",
        "if a mask of K is missing in a load, or lets one number too many through: the last tile takes numbers of the next row": (
            "no mask of K"
        ),
        "if the load of A is not masked along M, or one row too far: both conditions, rows and columns, belong in a mask": (
            "no mask of A's M"
        ),
        "if the load of B is not masked along N, or one column too far: both conditions, rows and columns, belong in a mask": (
            "no mask of B's N"
        ),
        "if the loads are masked along K only: along M and N a ragged tile reads beyond the matrix, too": "masks of K only",
        "if no load is masked: a ragged tile reads beyond the matrix, along M, N and K": "no masks",
        "if the store is not masked: a ragged tile writes beyond the matrix": "store unmasked",
        "if the store is masked along M only: what is beyond column N lands in the next row": "store by rows",
        "if the store is masked along N only: what is beyond row M lands behind the matrix": "store by columns",
        "if masks compare the offset with the matrix's size: column N of a row is column 0 of the next, and inside": "flat masks",
        "if the store's mask compares the offset with C's size: column N of a row is column 0 of the next, and inside": (
            "flat store"
        ),
        "if only the first tile along K is used": "first tile",
        "if there are K // BLOCK steps: the tail of K is one more, tl.cdiv(K, BLOCK)": "steps rounded down",
        "if the loop along K ends at M": "to M",
        "if the loop along K ends at N": "to N",
        "if each step loads the first tile along K: a step's tile begins at start": "no start",
        "if each tile along K replaces the sum instead of adding to it": "last tile",
        "if A's rows are taken to be N long: A is [M, K], element (i, j) lies at i · K + j": "A by N",
        "if A's rows are taken to be M long: A is [M, K], element (i, j) lies at i · K + j": "A by M",
        "if B's rows are taken to be K long: B is [K, N], element (i, j) lies at i · N + j": "B by K",
        "if B is read with a transposed stride: element (i, j) of a [K, N] matrix lies at i · N + j": "B transposed",
        "if C's rows are taken to be K long: C is [M, N], element (i, j) lies at i · N + j": "C by K",
        "if C's rows are taken to be M long: C is [M, N], element (i, j) lies at i · N + j": "C by M",
        "if C is stored transposed: element (i, j) of a [M, N] matrix lies at i · N + j": "C transposed",
        "if the product is b times a: tl.dot(a, b) adds up along a's columns and b's rows": "b times a",
    }.items()
}

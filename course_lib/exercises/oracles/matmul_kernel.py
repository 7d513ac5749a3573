"""Lecture 03: what matmul_kernel is checked by."""

from collections.abc import Iterable

import torch

from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants
from course_lib.kernels import tl, triton


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    yield Case("one full tile, B of ones below its diagonal", (torch.randn(16, 16), torch.ones(16, 16).tril()))
    for words, m, n, k in (
        ("one full tile", 16, 16, 16),
        ("K takes several tiles", 16, 16, 48),
        ("several tiles of C", 32, 48, 16),
        ("ragged M", 5, 16, 16),
        ("ragged N", 16, 20, 16),
        ("ragged K", 16, 16, 21),
        ("all ragged", 33, 18, 35),
    ):
        yield Case(words, (torch.randn(m, k), torch.randn(n, k)))
    for words, m, n, k in (("blocks of 32, all ragged", 40, 70, 50), ("blocks of 32, K = 1,100", 5, 7, 1100)):
        yield Case(words, (torch.randn(m, k), torch.randn(n, k)), {"BLOCK": 32})


def expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product by product, in float64."""
    return (a.double()[:, None] * b.double()[None]).sum(2).float()


@triton.jit
def _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BUG: tl.constexpr):
    across: tl.constexpr = 0 if BUG == "axes swapped" else 1
    SIDE: tl.constexpr = 16 if BUG == "16" else BLOCK
    rows = tl.program_id(1 - across) * SIDE + tl.arange(0, SIDE)
    cols = tl.program_id(across) * SIDE + tl.arange(0, SIDE)
    acc = tl.zeros([SIDE, SIDE], tl.float32)
    for start in range(0, K // SIDE * SIDE if BUG == "steps rounded down" else K, SIDE):
        inner = start + tl.arange(0, SIDE)
        a_at = rows[:, None] * K + inner[None, :]
        b_at = cols[None, :] * K + inner[:, None]
        if BUG == "not transposed":
            b_at = inner[:, None] * N + cols[None, :]
        elif BUG == "B by N":
            b_at = cols[None, :] * N + inner[:, None]
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols[None, :] < N)
        if BUG == "no mask of K":
            a_mask = (rows[:, None] < M) & (inner[None, :] >= 0)
            b_mask = (inner[:, None] >= 0) & (cols[None, :] < N)
        elif BUG == "B masked by M" or BUG == "columns masked by M":
            b_mask = (inner[:, None] < K) & (cols[None, :] < M)
        elif BUG == "flat masks":
            a_mask, b_mask = a_at < M * K, b_at < N * K
        a = tl.load(a_ptr + a_at, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + b_at, mask=b_mask, other=0.0)
        if BUG == "tile turned again":
            b = tl.trans(b)
        part = tl.dot(a, b, input_precision="ieee")
        acc = part if BUG == "replaced" else acc + part
    c_at = rows[:, None] * N + cols[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    if BUG == "C transposed":
        c_at = rows[:, None] + cols[None, :] * M
    elif BUG == "C by M":
        c_at = rows[:, None] * M + cols[None, :]
    elif BUG == "store unmasked":
        inside = c_at >= 0
    elif BUG == "store by rows":
        inside = (rows[:, None] < M) & (cols[None, :] >= 0)
    elif BUG == "columns masked by M":
        inside = (rows[:, None] < M) & (cols[None, :] < M)
    elif BUG == "store M for N":
        inside = (rows[:, None] < N) & (cols[None, :] < M)
    elif BUG == "flat masks":
        inside = c_at < M * N
    tl.store(c_ptr + c_at, acc, mask=inside)


WRONG = variants(
    _tile,
    {
        "if program_id(0) counts columns: the grid is (⌈M / BLOCK⌉, ⌈N / BLOCK⌉), rows first": "axes swapped",
        "if 16 stands where BLOCK belongs: the blocks may have another size": "16",
        "if a mask of K is missing in a load, or lets a number too many through: the last tile takes the next row": "no mask of K",
        "if the store is not masked, or lets row M or column N through: a ragged tile writes beyond the matrix": "store unmasked",
        "if the store is masked along M only: what is beyond column N lands in the next row": "store by rows",
        "if B's columns and C's are masked by M: they are N": "columns masked by M",
        "if B's load is masked by M: Bᵀ has N columns": "B masked by M",
        "if M and N change places in the mask of the store: C has M rows and N columns": "store M for N",
        "if masks compare the offset with the matrix's size: column N of a row is column 0 of the next, and inside": "flat masks",
        "if there are K // BLOCK steps: the tail of K is one more, tl.cdiv(K, BLOCK)": "steps rounded down",
        "if B is read as if it were [K, N] already: element (k, j) of Bᵀ lies at j · K + k": "not transposed",
        "if B's rows are taken to be N long: B is [N, K], and a row of it has K numbers": "B by N",
        "if each step along K replaces the sum instead of adding to it": "replaced",
        "if C's rows are taken to be M long: C is [M, N], and a row of it has N numbers": "C by M",
        "if B comes to tl.dot as [cols, inner], transposed not at all, or twice: in a square tile all shapes fit": "tile turned again",
        "if C is stored transposed: element (i, j) of a [M, N] matrix lies at i · N + j": "C transposed",
    },
)

"""Lecture 03: a tiled matmul as a Triton kernel."""

from collections.abc import Iterable
from typing import Any

import torch

from course_lib import runtime
from course_lib.exercises.base import Case, Exercise
from course_lib.kernels import tl, triton

ASKED = r"""
Write a kernel for $C = AB$ with tiles of `BLOCK` × `BLOCK`: A is [M, K], B is [K, N], C is [M, N], all float32 and contiguous, all in row
order. A program makes one tile of C; the grid is (⌈M / BLOCK⌉, ⌈N / BLOCK⌉). The sizes are no multiples of `BLOCK`. The check
runs in Triton's interpreter, and watches that nothing beside the matrices is read or written.
"""

STUB = '''
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """C [M, N] = A [M, K] B [K, N], float32; one tile of C a program."""
    ...
'''


def cases() -> Iterable[Case]:
    torch.manual_seed(0)
    for words, m, n, k in (
        ("one full tile", 16, 16, 16),
        ("K takes several tiles", 16, 16, 48),
        ("several tiles of C", 32, 48, 16),
        ("ragged M and N", 5, 20, 16),
        ("ragged K", 16, 16, 21),
        ("all ragged", 33, 18, 35),
    ):
        yield Case(words, (torch.randn(m, k), torch.randn(k, n)))


def expected(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


def run(kernel: Any, case: Case) -> torch.Tensor:
    a, b = (x.to(runtime.device()) for x in case.args)
    (m, k), n = a.shape, b.shape[1]
    c = torch.full((m, n), float("nan"), device=a.device)
    kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, BLOCK=16)
    return c.cpu()


@triton.jit
def _tile(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, TAIL: tl.constexpr, INSIDE: tl.constexpr, FIRST: tl.constexpr,
    LAST: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, BLOCK if FIRST else K, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        tail = inner < K if TAIL else inner < K + BLOCK
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & tail[None, :], other=0.0)
        at = inner[:, None] + cols[None, :] * K if STRIDE else inner[:, None] * N + cols[None, :]
        b = tl.load(b_ptr + at, mask=(cols[None, :] < N) & (inner[:, None] < K), other=0.0 if TAIL else 1.0)
        acc = tl.dot(a, b, input_precision="ieee") if LAST else tl.dot(a, b, acc, input_precision="ieee")
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    if INSIDE:
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=inside)
    else:
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


@triton.jit
def no_tail_mask(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, False, True, False, False, False)


@triton.jit
def no_store_mask(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, True, False, False, False, False)


@triton.jit
def first_tile_only(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, True, True, True, False, False)


@triton.jit
def last_tile_only(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, True, True, False, True, False)


@triton.jit
def transposed_stride(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    _tile(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK, True, True, False, False, True)


EXERCISE = Exercise(
    name="matmul_kernel",
    lecture="03",
    title="a tiled matmul kernel",
    level=2,
    minutes=20,
    asked=ASKED,
    stub=STUB,
    cases=cases,
    expected=expected,
    run=run,
    arguments=("A", "B"),
    compiles=dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32") | {"M": "i32", "N": "i32", "K": "i32", "BLOCK": 16},
    hints=(
        "rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), and the same for columns. Element (i, j) of a row-ordered [R, S] "
        "matrix lies at i · S + j.",
        "Loop over start in range(0, K, BLOCK): load a tile of A and one of B, and acc = tl.dot(a, b, acc, input_precision='ieee').",
        "Three masks: of A (rows < M and inner < K), of B (inner < K and columns < N), of C. Load with other=0.0: zeros add nothing.",
    ),
    wrong={
        "if the tail of K is not masked: the last tile takes numbers of the next row": no_tail_mask,
        "if the store is not masked: a ragged tile writes beyond the matrix": no_store_mask,
        "if only the first tile along K is used": first_tile_only,
        "if each tile along K replaces the sum instead of adding to it": last_tile_only,
        "if B is read with a transposed stride: element (i, j) of a [K, N] matrix lies at i · N + j": transposed_stride,
    },
)

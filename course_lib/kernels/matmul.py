"""Matmul by tiles: each program computes one tile of C from a row of A's tiles and a column of B's."""

import torch

from course_lib import checks
from course_lib.kernels import tl, triton
from course_lib.kernels.launching import (
    MOST_PROGRAMS,
    PRECISIONS,
    check_block,
    check_launch,
    check_reach,
    check_tiles,
    launch,
)


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_stride, b_stride, c_stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + rows[:, None] * a_stride + inner[None, :],
            mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + inner[:, None] * b_stride + cols[None, :],
            mask=(inner[:, None] < k) & (cols[None, :] < n), other=0.0,
        )  # fmt: skip
        acc += tl.dot(a, b, input_precision=PRECISION)  # [BLOCK_M, BLOCK_N]
    tl.store(
        c_ptr + rows[:, None] * c_stride + cols[None, :], acc.to(c_ptr.dtype.element_ty),
        mask=(rows[:, None] < m) & (cols[None, :] < n),
    )  # fmt: skip


def tiled_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    block_k: int = 32,
    input_precision: str = "ieee",
) -> torch.Tensor:
    """a [m, k] @ b [k, n] -> c [m, n], any sizes; float32 or float16 (bfloat16 on a GPU), summed in float32.

    Blocks are powers of two of at least 16. ``input_precision`` is for float32: 'ieee'; 'tf32', where tensor cores cut
    off the last 13 bits of each input; or 'tf32x3', three matmuls of parts that are rounded to tf32. Raises TypeError
    or ValueError before any launch, also where the tiles do not fit the GPU's shared memory.
    """
    for name, x in (("a", a), ("b", b)):
        checks.float_tensor(name, x, ndim=2, look_inside=False)
    checks.matmul_shapes(a, b)
    (m, k), n = a.shape, b.shape[1]
    for name, x in (("a", a), ("b", b), ("c", torch.empty(m, n, device="meta"))):
        check_reach(name, x)
    check_launch(a=a, b=b)
    for name, value in (("block_m", block_m), ("block_n", block_n), ("block_k", block_k)):
        check_block(name, value, smallest=16)
    check_tiles(block_m=block_m, block_n=block_n, block_k=block_k)
    checks.one_of("input_precision", input_precision, PRECISIONS)
    if triton.cdiv(n, block_n) > MOST_PROGRAMS:
        raise ValueError(
            f"b has {n:,} columns and block_n is {block_n}; pass blocks of which {MOST_PROGRAMS:,} cover the columns, or fewer columns"
        )
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    launch(
        _matmul_kernel, (triton.cdiv(m, block_m), triton.cdiv(n, block_n)),
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, PRECISION=input_precision,
    )  # fmt: skip
    return c

"""What the kernels of both passes are made of: rows of a matrix, a program's place, capped scores."""

from course_lib.kernels import LOG2E, tl, triton

LENGTHS = ["n_q", "n_k", "offset"]  # a new length does not compile anew


@triton.jit
def _rows(ptr, start, BLOCK: tl.constexpr, n, stride, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr):
    """Rows start … start + BLOCK of a matrix, [BLOCK, BLOCK_D], zeros beyond its n rows and D columns."""
    lanes, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    at = ptr + tl.cast(start, tl.int64) * stride + (lanes[:, None] * stride + dims[None, :])
    if MASKED:
        return tl.load(at, mask=(start + lanes[:, None] < n) & (dims[None, :] < D), other=0.0)
    elif D < BLOCK_D:
        return tl.load(at, mask=dims[None, :] < D, other=0.0)
    else:
        return tl.load(at)


@triton.jit
def _store_rows(ptr, x, start, BLOCK: tl.constexpr, n, stride, D: tl.constexpr, BLOCK_D: tl.constexpr):
    lanes, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    at = ptr + tl.cast(start, tl.int64) * stride + (lanes[:, None] * stride + dims[None, :])
    tl.store(at, x.to(ptr.dtype.element_ty), mask=(start + lanes[:, None] < n) & (dims[None, :] < D))


@triton.jit
def _elements(b, h, n, UNIT: tl.constexpr):
    """Strides in elements. They are passed in units of 16 bytes where all allow it: the compiler looks for multiples of
    16 elements, does not find one in 40, and would load 2 bytes at a time."""
    return b * UNIT, h * UNIT, n * UNIT


@triton.jit
def _place(n, BLOCK: tl.constexpr):
    """(block, head counted over the batch) of this program; one axis, because the others end at 65,535."""
    blocks = tl.cdiv(n, BLOCK)
    return tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)


@triton.jit
def _capped(s, scale, softcap, SOFTCAP: tl.constexpr):
    """Scores times log2 e; with a softcap, cap · tanh(s / cap), and tanh itself for the gradient."""
    if SOFTCAP:
        tanh = 1 - 2 / (tl.exp2(s * (2 * LOG2E * scale / softcap)) + 1)
        return tanh * (softcap * LOG2E), tanh
    else:
        return s * (scale * LOG2E), s

"""What the kernels of both passes are made of: rows of a matrix, a program's place, capped scores."""

from course_lib.kernels import LOG2E, tl, triton

FARTHEST_ROWS = 2**24  # elements from a row to the next: a block of 128 rows is then within 2^31
# Nothing is compiled anew for other lengths, batches or heads: what a compiler could know of them is in UNIT.
SHAPES = ["n_q", "n_k", "offset", "heads", "kv_heads"]
SHAPES += [f"{x}_{axis}" for x in ("q", "k", "v", "o", "do", "dq", "dk", "dv") for axis in "bh"]


@triton.jit
def _rows(ptr, start, BLOCK: tl.constexpr, n, stride, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr):
    """Rows start … start + BLOCK of a matrix, [BLOCK, BLOCK_D], zeros beyond its n rows and D columns."""
    rows, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    at = ptr + tl.cast(start, tl.int64) * stride + (rows[:, None] * stride + dims[None, :])
    if MASKED:
        return tl.load(at, mask=(start + rows[:, None] < n) & (dims[None, :] < D), other=0.0)
    elif D < BLOCK_D:
        return tl.load(at, mask=dims[None, :] < D, other=0.0)
    else:
        return tl.load(at)


@triton.jit
def _store_rows(ptr, x, start, BLOCK: tl.constexpr, n, stride, D: tl.constexpr, BLOCK_D: tl.constexpr):
    rows, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    at = ptr + tl.cast(start, tl.int64) * stride + (rows[:, None] * stride + dims[None, :])
    tl.store(at, x.to(ptr.dtype.element_ty), mask=(start + rows[:, None] < n) & (dims[None, :] < D))


@triton.jit
def _elements(b, h, n, UNIT: tl.constexpr):
    """Strides in elements. They are passed in units of 16 bytes where all allow it: the compiler looks for multiples of
    16 elements, does not find one in 40, and would load 2 bytes at a time. Those of batch and head may be 2^31 elements
    and more; rows lie less than FARTHEST_ROWS apart, so offsets within a block fit 32 bits."""
    return tl.cast(b, tl.int64) * UNIT, tl.cast(h, tl.int64) * UNIT, n * UNIT


@triton.jit
def _place(n, BLOCK: tl.constexpr):
    """(block, head counted over the batch) of this program; one axis, because the others end at 65,535."""
    blocks = tl.cdiv(n, BLOCK)
    return tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)


@triton.jit
def _capped(s, scale, softcap, SOFTCAP: tl.constexpr):
    """(Scores times log2 e, their slope): with a softcap cap · tanh(s / cap) and 1 - tanh²(s / cap), else s and 1.

    1 - 2 / (e^{2x} + 1) has an absolute error of 6e-8, which multiplied by a large cap hides small scores. Below 5/8 an odd
    polynomial serves instead (Cephes, ``tanhf``), of which x is a factor: cap · x is the score itself, whatever the cap.
    """
    if SOFTCAP:
        x = s * (scale / softcap)
        near = tl.minimum(tl.abs(x), 0.625)
        z = near * near
        ratio = -5.70498872745e-3 * z + 2.06390887954e-2
        ratio = ((ratio * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z - 3.33332819422e-1
        ratio = ratio * z + 1  # tanh(x) / x
        e = tl.exp2(tl.abs(x) * (-2 * LOG2E))
        rest = 2 * e / (1 + e)  # 1 - tanh|x|
        far = tl.where(x < 0, rest - 1, 1 - rest)
        small = tl.abs(x) < 0.625
        capped = tl.where(small, s * (scale * LOG2E) * ratio, far * (softcap * LOG2E))
        return capped, tl.where(small, 1 - z * ratio * ratio, rest * (2 - rest))
    else:
        return s * (scale * LOG2E), 1.0

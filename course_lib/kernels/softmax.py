"""Softmax of long rows as Triton kernels: three passes over memory, two, and one fused with the output.

One program takes one row of x [rows, n] and walks it in blocks. Source: arXiv 1805.02867, Algorithms 2 and 3.
Rows of nothing but -inf give zeros, as in ``course_lib.model.softmax``; a NaN in a row makes that row NaN.
"""

import torch

from course_lib import checks
from course_lib.kernels import tl, triton
from course_lib.kernels.launching import check_block, check_launch, check_length, launch


@triton.jit
def _shift(m):
    """What to subtract before exp: the maximum, or 0 while a row has seen nothing but -inf (-inf - -inf is NaN)."""
    return tl.where(m == -float("inf"), 0.0, m)


@triton.jit
def _offline_kernel(x_ptr, y_ptr, n, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m = -float("inf")
    for start in range(0, n, BLOCK):  # pass 1: the maximum
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        m = tl.maximum(m, tl.max(x, 0))
    l = 0.0
    for start in range(0, n, BLOCK):  # pass 2: the sum
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        l += tl.sum(tl.exp(x - _shift(m)), 0)
    l = tl.where(l == 0.0, 1.0, l)
    for start in range(0, n, BLOCK):  # pass 3: the division
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - _shift(m)) / l
        tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n)


@triton.jit
def _online_kernel(x_ptr, y_ptr, n, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m = -float("inf")
    l = 0.0
    for start in range(0, n, BLOCK):  # pass 1: maximum and sum together
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, 0))
        l = l * tl.exp(m - _shift(m_new)) + tl.sum(tl.exp(x - _shift(m_new)), 0)
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)
    for start in range(0, n, BLOCK):  # pass 2: the division
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - _shift(m)) / l
        tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n)


@triton.jit
def _average_kernel(x_ptr, v_ptr, o_ptr, n, x_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m = -float("inf")
    l = 0.0
    o = 0.0
    for start in range(0, n, BLOCK):  # the only pass: maximum, sum and output together
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        v = tl.load(v_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, 0))
        p = tl.exp(x - _shift(m_new))
        factor = tl.exp(m - _shift(m_new))
        l = l * factor + tl.sum(p, 0)
        o = o * factor + tl.sum(p * v, 0)
        m = m_new
    tl.store(o_ptr + row, (o / tl.where(l == 0.0, 1.0, l)).to(o_ptr.dtype.element_ty))


def _launch(kernel, x: torch.Tensor, block: int) -> torch.Tensor:
    checks.float_tensor("x", x, ndim=2, look_inside=False)
    check_length("a row of x", x.shape[1])
    check_launch(x=x)
    check_block("block", block)
    y = torch.empty_like(x)
    launch(kernel, (x.shape[0],), x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=block)
    return y


def offline_softmax(x: torch.Tensor, block: int = 4096) -> torch.Tensor:
    """Softmax of each row of x [rows, n] in three passes: each element is read three times and written once.

    float32 or float16 (bfloat16 on a GPU), last dimension contiguous; same shape and dtype out. ``block`` elements of a
    row are on chip at a time. Raises TypeError or ValueError on other input, before any launch.
    """
    return _launch(_offline_kernel, x, block)


def online_softmax(x: torch.Tensor, block: int = 4096) -> torch.Tensor:
    """As ``offline_softmax``, with maximum and sum in one pass: each element is read twice and written once."""
    return _launch(_online_kernel, x, block)


def softmax_average(x: torch.Tensor, v: torch.Tensor, block: int = 4096) -> torch.Tensor:
    """The average of v [n] under the softmax of each row of x [rows, n]: o [rows], each x read once, no P written.

    This is attention with one value column; dtypes and errors as for ``offline_softmax``.
    """
    checks.float_tensor("x", x, ndim=2, look_inside=False)
    checks.float_tensor("v", v, ndim=1, look_inside=False)
    checks.same_dtype_and_device(x=x, v=v)
    if v.shape[0] != x.shape[1]:
        raise ValueError(f"x has rows of {x.shape[1]} scores but v has {v.shape[0]} values; pass one value per score")
    check_length("v", len(v))
    check_launch(x=x, v=v)
    check_block("block", block)
    o = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    launch(_average_kernel, (x.shape[0],), x, v, o, x.shape[1], x.stride(0), BLOCK=block)
    return o

"""The first kernel that a reader sees (lecture 02): it doubles a row of numbers, one block of them in each program."""

from course_lib.kernels import tl, triton


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
    tl.store(y_ptr + cols, 2 * x, mask=cols < n)

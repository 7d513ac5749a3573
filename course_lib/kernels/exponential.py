"""The weights of a softmax, with the natural exponential or with powers of two: what is multiplied for each score.

GPUs have one instruction for 2^x and none for e^x, so exp(x) is compiled as 2^(x · log2 e). Source: FlashAttention-2
(arXiv 2307.08691), whose kernels fold log2 e into the scale.
"""

import torch

from course_lib import checks
from course_lib.kernels import LOG2E, tl, triton
from course_lib.kernels.launching import check_block, check_launch, check_reach, launch


@triton.jit
def weights_kernel(s_ptr, p_ptr, scale, COLS: tl.constexpr, FOLDED: tl.constexpr):
    """One program: one row of raw scores. Its weights e^(scale · s − max)."""
    at = tl.program_id(0) * COLS + tl.arange(0, COLS)
    s = tl.load(s_ptr + at)
    if FOLDED:
        s = s * (scale * LOG2E)  # the factor of both, computed once for the row
        p = tl.exp2(s - tl.max(s, 0))
    else:
        s = s * scale
        p = tl.exp(s - tl.max(s, 0))
    tl.store(p_ptr + at, p)


def softmax_weights(s: torch.Tensor, scale: float, folded: bool) -> torch.Tensor:
    """exp(scale · s − row maximum), [R, C] in float32, C a power of two; ``folded`` by powers of two.

    Raises TypeError or ValueError before any launch.
    """
    checks.float_tensor("s", s, ndim=2, look_inside=False)
    if s.dtype != torch.float32:
        raise TypeError(f"s is {s.dtype}; pass float32, for example s.float()")
    scale = checks.number("scale", scale)
    checks.truth("folded", folded)
    check_reach("s", torch.empty(s.shape, device="meta"))  # of the copy without gaps
    check_launch(s=s)
    check_block("the number of columns of s", s.shape[1])
    s = s.contiguous()
    p = torch.empty_like(s)
    launch(weights_kernel, (len(s),), s, p, scale, COLS=s.shape[1], FOLDED=folded)
    return p

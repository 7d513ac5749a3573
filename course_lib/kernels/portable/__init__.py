"""The kernels of ``course_lib.attention`` that run on every GPU and in the interpreter: forward and backward.

Every stride, grouped heads, causal, softcap, any length and head size.
Scores are kept in powers of two: p = 2^(s · log2 e − L · log2 e), one multiplication folded into the scale. Blocks that no
mask touches are computed without one. Softmax's gradient needs P again; it is recomputed from Q, K and the saved L.
Source: FlashAttention-2 (arXiv 2307.08691), Algorithms 1 and 2; the backward is two kernels, one for dK and dV, one for dQ,
so that nothing has to be added atomically.
"""

from course_lib.kernels.portable.backward import launch_backward
from course_lib.kernels.portable.forward import launch_forward
from course_lib.kernels.portable.rows import FARTHEST_ROWS
from course_lib.kernels.portable.tiles import blocks_of

__all__ = ["FARTHEST_ROWS", "blocks_of", "launch_backward", "launch_forward"]

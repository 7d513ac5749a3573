"""Flash attention, Lite: softmax inside each tile only. WRONG ON PURPOSE; compare with ``online.py``, line by line."""

import torch

from course_lib.kernels import tl, triton
from course_lib.kernels.launching import attention_launch


@triton.jit
def _lite_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, q_stride, k_stride, v_stride, o_stride, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_mask = (rows[:, None] < n_q) & (dims[None, :] < D)
    q = tl.load(q_ptr + rows[:, None] * q_stride + dims[None, :], mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_D]
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_mask = (keys[:, None] < n_k) & (dims[None, :] < D)
        k = tl.load(k_ptr + keys[:, None] * k_stride + dims[None, :], mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_D]
        v = tl.load(v_ptr + keys[:, None] * v_stride + dims[None, :], mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_D]
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # [BLOCK_M, BLOCK_N]
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m = tl.max(s, 1)
        p = tl.exp(s - m[:, None])
        p = p / tl.sum(p, 1)[:, None]
        acc += tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    tl.store(o_ptr + rows[:, None] * o_stride + dims[None, :], acc.to(o_ptr.dtype.element_ty), mask=q_mask)


def flash_lite(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    input_precision: str = "ieee",
) -> torch.Tensor:
    """The sum of one softmax average for each block of keys: attention only if all keys are in one block.

    q [Nq, d], k and v [Nk, d] -> [Nq, d]; arguments and errors as for ``online.flash_online``.
    """
    return attention_launch(_lite_kernel, q, k, v, block_m, block_n, input_precision)

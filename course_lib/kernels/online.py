"""Flash attention, Online: the Lite kernel plus the running maximum and sum that make it exact."""

import torch

from course_lib.kernels import tl, triton
from course_lib.kernels.launching import attention_launch


@triton.jit
def _online_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, q_stride, k_stride, v_stride, o_stride, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_mask = (rows[:, None] < n_q) & (dims[None, :] < D)
    q = tl.load(q_ptr + rows[:, None] * q_stride + dims[None, :], mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_D]
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_mask = (keys[:, None] < n_k) & (dims[None, :] < D)
        k = tl.load(k_ptr + keys[:, None] * k_stride + dims[None, :], mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_D]
        v = tl.load(v_ptr + keys[:, None] * v_stride + dims[None, :], mask=k_mask, other=0.0)  # [BLOCK_N, BLOCK_D]
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # [BLOCK_M, BLOCK_N]
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        correction = tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None]
        m = m_new
        acc += tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    acc = acc / l[:, None]
    tl.store(o_ptr + rows[:, None] * o_stride + dims[None, :], acc.to(o_ptr.dtype.element_ty), mask=q_mask)


def flash_online(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    input_precision: str = "ieee",
) -> torch.Tensor:
    """One head of attention, softmax(q kᵀ / √d) v, block by block with the online softmax.

    q [Nq, d], k and v [Nk, d] -> [Nq, d], any Nq, Nk >= 1, d up to 256 (padded to a power of two on chip); float32 or
    float16 (bfloat16 on a GPU), last dimension contiguous. block_m and block_n are powers of two of at least 16.
    ``input_precision`` is for float32: 'ieee', 'tf32' or 'tf32x3'. Raises TypeError or ValueError before any launch,
    also where the tiles do not fit the GPU's shared memory. Source: FlashAttention-2, Algorithm 1, lines 3 to 15.
    """
    return attention_launch(_online_kernel, q, k, v, block_m, block_n, input_precision)

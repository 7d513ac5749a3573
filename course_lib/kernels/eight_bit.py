"""Attention in 8 bits: the forward pass on what ``operands.quantise`` makes of Q, K and V.

Sources: FlashAttention-3 (arXiv 2407.08608), section 3.3; FP8 formats (arXiv 2209.05433).
"""

import math

import torch

from course_lib import checks, runtime
from course_lib.kernels import LOG2E, hopper, tl, triton
from course_lib.kernels.fast_launch import tile_counter
from course_lib.kernels.hopper.eight_bit import eight_bit_kernel
from course_lib.kernels.launching import launch
from course_lib.kernels.operands import K_BLOCK, Q_BLOCK, Operands, check_input, check_operands, quantise, to_e4m3


@triton.jit
def _block(
    q, acc, m, l, k_ptr, v_ptr, ks_ptr, shift_ptr, block, rows, n_k, padded, offset, scale, D: tl.constexpr,
    BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PERMUTED: tl.constexpr,
    FP32_ACCUMULATE: tl.constexpr,
):  # fmt: skip
    keys, cols = block * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, D)
    k = tl.load(k_ptr + keys[:, None] * D + cols[None, :], mask=keys[:, None] < n_k if MASKED else None)
    s = tl.dot(q, tl.trans(k)) * (scale * tl.load(ks_ptr + block))[:, None]  # in powers of two
    if MASKED:
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + offset)
        s = tl.where(seen, s, -float("inf"))
    m_new = tl.maximum(m, tl.max(s, 1))
    base = tl.where(m_new > -float("inf"), m_new, 0.0) if MASKED else m_new
    shift = tl.load(shift_ptr + block)  # V's scale goes into P: its exponent is added in exp2
    p = tl.exp2(s - (base - shift)[:, None])
    correction = tl.exp2(m - base)
    l = l * correction + tl.sum(p, 1) * tl.exp2(-shift)
    p = to_e4m3(p)
    if PERMUTED:  # the order of V's keys, which is the order of P's registers
        M: tl.constexpr = p.shape[0]
        p = tl.permute(p.reshape(M, BLOCK_N // 16, 2, 4, 2), (0, 1, 3, 2, 4)).reshape(M, BLOCK_N)
    v = tl.load(v_ptr + cols[:, None] * padded + keys[None, :])  # [D, BLOCK_N]
    # Sums of e4m3 products keep 13 bits below the largest addend on tensor cores: a block is summed by itself.
    acc = tl.dot(p, tl.trans(v), acc * correction[:, None], max_num_imprecise_acc=BLOCK_N if FP32_ACCUMULATE else None)
    return acc, m_new, l


@triton.jit(do_not_specialize=["group", "n_q", "n_k", "offset"])
def forward_kernel(
    q_ptr, qs_ptr, k_ptr, ks_ptr, v_ptr, shift_ptr, top_ptr, o_ptr, L_ptr, group, n_q, n_k, padded, offset, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, Q_BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
    PERMUTED: tl.constexpr, FP32_ACCUMULATE: tl.constexpr,
):  # fmt: skip
    """The online softmax in 8 bits: one program per block of rows. V [D, N'] of a head; its numbers: value · 2^shift · top."""
    blocks, k_blocks = tl.cdiv(n_q, BLOCK_M), tl.cdiv(n_k, BLOCK_N)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    kv = (head // group).to(tl.int64)
    k_ptr, v_ptr, ks_ptr, shift_ptr = (
        k_ptr + kv * n_k * D,
        v_ptr + kv * padded * D,
        ks_ptr + kv * k_blocks,
        shift_ptr + kv * k_blocks,
    )
    rows, cols = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    at = head.to(tl.int64) * n_q * D + rows[:, None] * D + cols[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < n_q)
    scale = scale * tl.load(qs_ptr + head * tl.cdiv(n_q, Q_BLOCK) + rows // Q_BLOCK, mask=rows < n_q, other=1.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    clear, end = n_k, n_k
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(n_k, (block + 1) * BLOCK_M + offset))
        clear = tl.maximum(0, tl.minimum(n_k, block * BLOCK_M + offset + 1))
    clear = clear // BLOCK_N
    for j in range(0, clear):
        acc, m, l = _block(
            q, acc, m, l, k_ptr, v_ptr, ks_ptr, shift_ptr, j, rows, n_k, padded, offset, scale, D, BLOCK_N, CAUSAL, False, PERMUTED,
            FP32_ACCUMULATE,
        )  # fmt: skip
    for j in range(clear, tl.cdiv(end, BLOCK_N)):
        acc, m, l = _block(
            q, acc, m, l, k_ptr, v_ptr, ks_ptr, shift_ptr, j, rows, n_k, padded, offset, scale, D, BLOCK_N, CAUSAL, True, PERMUTED,
            FP32_ACCUMULATE,
        )  # fmt: skip
    l = tl.where(l == 0, 1.0, l)  # a row that saw no key; NaN stays
    o = acc * (tl.load(top_ptr + kv) / l)[:, None]
    tl.store(o_ptr + at, o.to(o_ptr.dtype.element_ty), mask=rows[:, None] < n_q)
    tl.store(L_ptr + head.to(tl.int64) * n_q + rows, (m + tl.log2(l)) / LOG2E, mask=rows < n_q)


KERNELS = ("Hopper", "Triton")


def forward(
    x: Operands, causal: bool = False, causal_offset: int = 0, kernel: str | None = None, fp32_accumulate: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o [B, H, Nq, D] in the dtype of what was quantised, L [B, H, Nq] in float32); scale 1/√D.

    ``kernel``: 'Hopper' (Gluon; a Hopper GPU, D = 64 or 128, permuted operands, 16-bit O), 'Triton' (every mode), or the first that
    can. ``causal``: query i sees keys up to i + causal_offset; a query that sees none gets 0 and -inf. A head's V shares one range:
    where its blocks differ by more than 2^16, weights on the small ones become 0. With ``fp32_accumulate=False`` the Triton kernel
    leaves the sum over blocks of P V to the tensor cores, which lose small addends (lecture 12). Raises TypeError or ValueError
    before any launch.
    """
    check_operands(x)
    checks.truth("fp32_accumulate", fp32_accumulate)
    if not fp32_accumulate and kernel != "Triton":
        raise ValueError(
            f"fp32_accumulate is {fp32_accumulate} and kernel {kernel!r}; only kernel='Triton' can accumulate on the tensor cores"
        )
    _check_call(x.dtype, x.q.values.shape[3], x.permuted, x.q.values.device, causal, causal_offset, kernel)
    (b, h, n_q, d), (h_k, n_k) = x.q.values.shape, (x.k.values.shape[1], x.n_k)
    o = torch.empty(b, h, n_q, d, dtype=x.dtype, device=x.q.values.device)
    L = torch.empty(b, h, n_q, dtype=torch.float32, device=o.device)
    offset = max(-n_q, min(causal_offset, n_k)) if causal else 0
    scale, heads, group = math.log2(math.e) / math.sqrt(d), b * h, h // h_k
    if kernel == "Triton" or _refusal(x.dtype, d, x.permuted, o.device):
        block_m = min(128, max(16, triton.next_power_of_2(n_q)))
        launch(
            forward_kernel, (triton.cdiv(n_q, block_m) * heads,), *x.q, *x.k, *x.v, o, L, group, n_q, n_k,
            x.v.values.shape[3], offset, scale, D=d, BLOCK_M=block_m, BLOCK_N=K_BLOCK, Q_BLOCK=Q_BLOCK, CAUSAL=causal,
            PERMUTED=x.permuted, FP32_ACCUMULATE=fp32_accumulate, num_warps=8 if block_m == 128 else 4, num_stages=3,
        )  # fmt: skip
        return o, L
    tiles = triton.cdiv(n_q, 128) * heads
    launch(
        eight_bit_kernel, (min(tiles, runtime.multiprocessors(o.device)),),
        hopper.descriptor(x.q.values, Q_BLOCK, d), hopper.descriptor(x.k.values, K_BLOCK, d),
        hopper.descriptor(x.v.values, d, K_BLOCK), hopper.descriptor(o, Q_BLOCK, d), L,
        tile_counter(o.device), x.q.scale, x.k.scale, x.v.shift, x.v.top, heads, h, group,
        hopper.heads_at_once(heads, x.k.values[0, 0], group), n_q, n_k, offset, scale,
        BLOCK_D=d, BLOCK_N=K_BLOCK, STAGES=3, CAUSAL=causal, num_warps=4,
    )  # fmt: skip
    return o, L


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sign: torch.Tensor | None = None,
    causal: bool = False,
    kernel: str | None = None,
    permuted: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, L) of 16- or 32-bit q [B, H, Nq, D], k and v [B, Hk, Nk, D]: ``forward`` of what ``quantise`` makes of them; no gradients."""
    check_input("q", q)
    checks.truth("permuted", permuted)
    _check_call(q.dtype, q.shape[3], permuted, q.device, causal, 0, kernel)
    return forward(quantise(q, k, v, sign, permuted), causal, kernel=kernel)


def _check_call(
    dtype: torch.dtype, d: int, permuted: bool, device: torch.device, causal: bool, offset: int, kernel: str | None
) -> None:
    checks.causal_mask(causal, offset)
    if kernel is not None:
        checks.one_of("kernel", kernel, KERNELS)
    if kernel == "Hopper" and (why := _refusal(dtype, d, permuted, device)):
        raise ValueError(f"kernel is 'Hopper', but {why}; pass kernel='Triton'")


def _refusal(dtype: torch.dtype, d: int, permuted: bool, device: torch.device) -> str:
    """Why the Hopper kernel cannot take such operands on this GPU; '' if it can."""
    if runtime.mode() != "GPU" or runtime.architecture(device) != 90:
        return "it needs a Hopper GPU (H100, H200)"
    if dtype == torch.float32:
        return "its O has 16 bits and q was float32"
    if d not in (64, 128):
        return f"the head size is {d}, and it takes 64 or 128"
    return "" if permuted else "V's keys are not permuted"

"""Attention in 8 bits: Q, K and V as e4m3 with block scales, and a forward kernel that multiplies them.

Sources: FlashAttention-3 (arXiv 2407.08608), section 3.3; FP8 formats (arXiv 2209.05433).
"""

import math
from typing import NamedTuple

import torch

from course_lib import checks, runtime
from course_lib.kernels import check_block, check_launch, hopper, launch, tl, triton
from course_lib.kernels.hopper.eight_bit import eight_bit_kernel

Q_BLOCK, K_BLOCK = 64, 128  # rows that share a scale
SIZES = (32, 64, 128)


class Rows(NamedTuple):
    """Q or K: ``values`` [B, H, N, D] in e4m3, ``scale`` [B, H, blocks] in float32; number = value · scale of its block."""

    values: torch.Tensor
    scale: torch.Tensor


class Values(NamedTuple):
    """V transposed: ``values`` [B, H, D, N'] in e4m3, N' = N rounded up to 128, beyond N zeros.

    number = value · 2^shift · top; ``shift`` [B, H, blocks], whole numbers from -16 to 8, ``top`` [B, H], both float32.
    A block whose numbers are all below 2^-24 of the head's largest is given the shift of -16, and smaller weights become 0.
    """

    values: torch.Tensor
    shift: torch.Tensor
    top: torch.Tensor


class Operands(NamedTuple):
    """Q, K and V in 8 bits, and what a launch must know of them; ``dtype``: of O; ``permuted``: the order of V's keys."""

    q: Rows
    k: Rows
    v: Values
    n_k: int
    dtype: torch.dtype
    permuted: bool


# --- from 16 or 32 bits to 8 ---

_INTERPRETED = tl.constexpr(runtime.lane() == "interpreter")


@triton.jit
def to_e4m3(x):
    """float32 to the nearest e4m3, ties to even, at most ±448."""
    if _INTERPRETED:  # its cast drops the carry of rounding, 1.97 would be 1: so round first
        step = tl.exp2(tl.floor(tl.log2(tl.maximum(tl.abs(x), 0.015625))) - 3)
        x = tl.minimum(tl.maximum((x / step + 12582912.0 - 12582912.0) * step, -448.0), 448.0)
    return x.to(tl.float8e4nv)


@triton.jit
def _largest(x):
    """max |x|; NaN if x holds one, which the scale then carries into all that it touches."""
    return tl.where(tl.sum((x != x).to(tl.int32)) > 0, float("nan"), tl.max(tl.abs(x)))


@triton.jit(do_not_specialize=["n", "heads"])
def rows_kernel(
    x_ptr, sign_ptr, values_ptr, scale_ptr, stride_b, stride_h, stride_n, n, heads, factor, D: tl.constexpr,
    BLOCK: tl.constexpr, ROTATE: tl.constexpr,
):  # fmt: skip
    """A block of rows a program: rotate, find the largest, divide, round. The rotation is one small matrix product."""
    blocks = tl.cdiv(n, BLOCK)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    rows, cols = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    at = (head // heads).to(tl.int64) * stride_b + (head % heads).to(tl.int64) * stride_h
    inside = rows[:, None] < n
    x = tl.load(x_ptr + at + rows.to(tl.int64)[:, None] * stride_n + cols[None, :], mask=inside, other=0.0)
    if ROTATE:
        odd = cols[:, None] & cols[None, :]  # Hadamard's matrix is -1 where its two indices share an odd number of bits
        odd ^= odd >> 4
        odd ^= odd >> 2
        odd ^= odd >> 1
        rotation = tl.where(odd & 1 == 1, -1.0, 1.0) * tl.load(sign_ptr + cols)[:, None]  # ±1: exact in every dtype
        x = tl.dot(x, rotation.to(x.dtype), input_precision="ieee")
    x = x.to(tl.float32)
    top = _largest(x)
    scale = tl.where(top < 1e-30, 1.0, top / 448)  # NaN stays
    out = head.to(tl.int64) * n * D + rows[:, None] * D + cols[None, :]
    tl.store(values_ptr + out, to_e4m3(x / scale), mask=inside)
    tl.store(scale_ptr + tl.program_id(0), scale * factor)


@triton.jit(do_not_specialize=["n", "heads"])
def columns_kernel(
    x_ptr, values_ptr, scale_ptr, stride_b, stride_h, stride_n, n, heads, D: tl.constexpr, BLOCK: tl.constexpr,
    PERMUTED: tl.constexpr,
):  # fmt: skip
    """A block of keys of V a program: find the largest, divide by a power of two, round, transpose."""
    blocks = tl.cdiv(n, BLOCK)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    keys, cols = tl.arange(0, BLOCK), tl.arange(0, D)
    rows = keys
    if PERMUTED:  # of 16 keys: 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15
        rows = (keys & ~15) | (keys & 1) | ((keys >> 2) & 3) << 1 | ((keys >> 1) & 1) << 3
    rows += block * BLOCK
    at = (head // heads).to(tl.int64) * stride_b + (head % heads).to(tl.int64) * stride_h
    x = tl.load(x_ptr + at + rows.to(tl.int64)[:, None] * stride_n + cols[None, :], mask=rows[:, None] < n, other=0.0)
    x = x.to(tl.float32)
    top = _largest(x)
    scale = tl.exp2(tl.ceil(tl.log2(tl.where(top < 1e-30, 1e-30, top) / 448)))
    out = head.to(tl.int64) * blocks * BLOCK * D + cols[:, None] * (blocks * BLOCK) + (block * BLOCK + keys)[None, :]
    tl.store(values_ptr + out, tl.trans(to_e4m3(x / scale)))
    tl.store(scale_ptr + tl.program_id(0), scale)


def _check(name: str, x: torch.Tensor) -> None:
    checks.float_tensor(name, x, ndim=4, look_inside=False)
    check_launch(**{name: x})
    checks.one_of(f"the head size of {name}", x.shape[3], SIZES)
    if runtime.lane() == "GPU" and runtime.architecture(x.device) < 89:
        raise ValueError(f"{name} is on a GPU without 8-bit tensor cores; they came with compute capability 8.9")
    if (x.shape[2] + K_BLOCK) * x.shape[3] >= 2**31:
        raise ValueError(f"{name} has {x.shape[2]:,} rows; the kernels count elements of a head in 32 bits")


def quantise_rows(x: torch.Tensor, block: int, sign: torch.Tensor | None = None) -> Rows:
    """Q or K, [B, H, N, D], as e4m3 with a scale for each ``block`` rows; with ``sign`` [D] its rows are rotated first.

    float16, float32, or on a GPU bfloat16; D one of 32, 64, 128; ``sign`` holds ±1. Blocks: Q_BLOCK for Q, K_BLOCK for K.
    A block with NaN or an infinity becomes NaN. Raises TypeError or ValueError before any launch.
    """
    _check("x", x)
    check_block("block", block, smallest=16)
    _check_sign(sign, x.shape[3])
    (b, h, n, d), blocks = x.shape, -(-x.shape[2] // block)
    found = Rows(
        torch.empty(b, h, n, d, dtype=torch.float8_e4m3fn, device=x.device),
        torch.empty(b, h, blocks, dtype=torch.float32, device=x.device),
    )
    launch(
        rows_kernel, (b * h * blocks,), x, x if sign is None else sign.to(x.device).contiguous(), *found, *x.stride()[:3], n, h,
        1.0 if sign is None else 1 / math.sqrt(d),
        D=d, BLOCK=block, ROTATE=sign is not None, num_warps=16 if x.dtype == torch.float32 else 4,
    )  # fmt: skip
    return found


def _check_sign(sign: torch.Tensor | None, d: int) -> None:
    if sign is None:
        return
    checks.float_tensor("sign", sign, ndim=1, look_inside=False)
    if sign.shape != (d,):
        raise ValueError(f"sign has shape {list(sign.shape)}; pass [{d}], for example course_lib.quantize.signs({d})")


def quantise_values(v: torch.Tensor, permuted: bool = True) -> Values:
    """V, [B, H, N, D], as e4m3, transposed, with a power of two as the scale of each K_BLOCK keys.

    ``permuted``: each 16 keys in the order in which a thread of a warpgroup holds its columns of S. Else as ``quantise_rows``.
    """
    _check("v", v)
    (b, h, n, d), blocks = v.shape, -(-v.shape[2] // K_BLOCK)
    values = torch.empty(b, h, d, blocks * K_BLOCK, dtype=torch.float8_e4m3fn, device=v.device)
    scale = torch.empty(b, h, blocks, dtype=torch.float32, device=v.device)
    launch(
        columns_kernel, (b * h * blocks,), v, values, scale, *v.stride()[:3], n, h, D=d, BLOCK=K_BLOCK, PERMUTED=permuted, num_warps=8
    )  # fmt: skip
    # P, at most 1, times 2^shift is at most 256 where the scale is the head's largest. Below 2^-16 it would round to 0.
    largest = scale.amax(-1)
    return Values(values, (8 + (scale / largest[..., None]).log2()).clamp_min(-16), largest / 256)


def quantise(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sign: torch.Tensor | None = None, permuted: bool = True
) -> Operands:
    """q [B, H, Nq, D], k and v [B, Hk, Nk, D] as e4m3, one scale for 64 rows of Q and for 128 of K and V; ``sign``: rotate Q and K.

    H a multiple of Hk; dtypes and head sizes as ``quantise_rows``. Raises TypeError or ValueError before any launch.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check(name, x)
    checks.same_kind(q=q, k=k, v=v)
    checks.same_shape(k=k, v=v)
    (b, h, _, d), (b_k, h_k, n_k, d_k) = q.shape, k.shape
    if (b, d) != (b_k, d_k) or h % h_k:
        raise ValueError(
            f"q is {list(q.shape)} but k is {list(k.shape)}; batch and head size must be equal, q's heads a multiple of k's"
        )
    _check_sign(sign, d)
    rows = quantise_rows(q, Q_BLOCK, sign), quantise_rows(k, K_BLOCK, sign)
    return Operands(*rows, quantise_values(v, permuted), n_k, q.dtype, permuted)


# --- the forward pass ---


@triton.jit
def _block(
    q, acc, m, l, k_ptr, v_ptr, ks_ptr, shift_ptr, block, rows, n_k, padded, offset, scale, D: tl.constexpr,
    BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, PERMUTED: tl.constexpr,
    APART: tl.constexpr,
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
    shift = tl.load(shift_ptr + block)  # V's scale goes into P: its exponent is one more in exp2
    p = tl.exp2(s - (base - shift)[:, None])
    correction = tl.exp2(m - base)
    l = l * correction + tl.sum(p, 1) * tl.exp2(-shift)
    p = to_e4m3(p)
    if PERMUTED:  # the order of V's keys, which is the order of P's registers
        M: tl.constexpr = p.shape[0]
        p = tl.permute(p.reshape(M, BLOCK_N // 16, 2, 4, 2), (0, 1, 3, 2, 4)).reshape(M, BLOCK_N)
    v = tl.load(v_ptr + cols[:, None] * padded + keys[None, :])  # [D, BLOCK_N]
    # Sums of 8-bit products keep 13 bits below the largest addend on tensor cores: a block is summed by itself.
    acc = tl.dot(p, tl.trans(v), acc * correction[:, None], max_num_imprecise_acc=BLOCK_N if APART else None)
    return acc, m_new, l


@triton.jit(do_not_specialize=["heads", "group", "n_q", "n_k", "offset"])
def forward_kernel(
    q_ptr, qs_ptr, k_ptr, ks_ptr, v_ptr, shift_ptr, top_ptr, o_ptr, L_ptr, heads, group, n_q, n_k, padded, offset, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, Q_BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
    PERMUTED: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    """The online softmax in 8 bits: a block of rows a program. V [D, N'] of a head; its numbers: value · 2^shift · top."""
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
            q, acc, m, l, k_ptr, v_ptr, ks_ptr, shift_ptr, j, rows, n_k, padded, offset, scale, D, BLOCK_N, CAUSAL, False, PERMUTED, APART,
        )  # fmt: skip
    for j in range(clear, tl.cdiv(end, BLOCK_N)):
        acc, m, l = _block(
            q, acc, m, l, k_ptr, v_ptr, ks_ptr, shift_ptr, j, rows, n_k, padded, offset, scale, D, BLOCK_N, CAUSAL, True, PERMUTED, APART,
        )  # fmt: skip
    l = tl.where(l == 0, 1.0, l)  # a row that saw no key; NaN stays
    o = acc * (tl.load(top_ptr + kv) / l)[:, None]
    tl.store(o_ptr + at, o.to(o_ptr.dtype.element_ty), mask=rows[:, None] < n_q)
    tl.store(L_ptr + head.to(tl.int64) * n_q + rows, (m + tl.log2(l)) / 1.4426950408889634, mask=rows < n_q)


KERNELS = ("Hopper", "Triton")


def forward(
    x: Operands, causal: bool = False, causal_offset: int = 0, kernel: str | None = None, apart: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o [B, H, Nq, D] in the dtype of what was quantised, L [B, H, Nq] in float32); scale 1/√D.

    ``kernel``: 'Hopper' (Gluon; a Hopper GPU, D = 64 or 128, permuted operands, 16-bit O), 'Triton' (every lane), or the first that
    can. ``causal``: query i sees keys up to i + causal_offset; a query that sees none gets 0 and -inf. A head's V shares one range:
    where its blocks differ by more than 2^16, weights on the small ones become 0. ``apart=False``, of the Triton kernel: P V of all
    blocks is summed on the tensor cores, which lose small addends (lecture 11). Raises TypeError or ValueError before any launch.
    """
    _check_operands(x)
    _check_call(x.dtype, x.q.values.shape[3], x.permuted, x.q.values.device, causal, causal_offset, kernel)
    (b, h, n_q, d), (h_k, n_k) = x.q.values.shape, (x.k.values.shape[1], x.n_k)
    o = torch.empty(b, h, n_q, d, dtype=x.dtype, device=x.q.values.device)
    L = torch.empty(b, h, n_q, dtype=torch.float32, device=o.device)
    offset = max(-n_q, min(causal_offset, n_k)) if causal else 0
    scale, heads, group = math.log2(math.e) / math.sqrt(d), b * h, h // h_k
    if kernel == "Triton" or _refusal(x.dtype, d, x.permuted, o.device):
        block_m = min(128, max(16, triton.next_power_of_2(n_q)))
        launch(
            forward_kernel, (triton.cdiv(n_q, block_m) * heads,), *x.q, *x.k, *x.v, o, L, heads, group, n_q, n_k,
            x.v.values.shape[3], offset, scale, D=d, BLOCK_M=block_m, BLOCK_N=K_BLOCK, Q_BLOCK=Q_BLOCK, CAUSAL=causal,
            PERMUTED=x.permuted, APART=apart, num_warps=8 if block_m == 128 else 4, num_stages=3,
        )  # fmt: skip
        return o, L
    tiles = triton.cdiv(n_q, 128) * heads
    launch(
        eight_bit_kernel, (min(tiles, runtime.multiprocessors(o.device)),),
        hopper.descriptor(x.q.values, Q_BLOCK, d), hopper.descriptor(x.k.values, K_BLOCK, d),
        hopper.descriptor(x.v.values, d, K_BLOCK), hopper.descriptor(o, Q_BLOCK, d), L,
        torch.zeros(1, dtype=torch.int32, device=o.device), x.q.scale, x.k.scale, x.v.shift, x.v.top, heads, h, group,
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
    """(o, L) of 16- or 32-bit q [B, H, Nq, D], k and v [B, Hk, Nk, D]: ``forward`` of what ``quantise`` makes of them."""
    _check("q", q)
    _check_call(q.dtype, q.shape[3], permuted, q.device, causal, 0, kernel)
    return forward(quantise(q, k, v, sign, permuted), causal, kernel=kernel)


def _check_call(
    dtype: torch.dtype, d: int, permuted: bool, device: torch.device, causal: bool, offset: int, kernel: str | None
) -> None:
    if not isinstance(causal, bool):
        raise TypeError(f"causal is {causal!r}; pass True or False")
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"causal_offset is {offset!r}; pass a whole number")
    if offset and not causal:
        raise ValueError(f"causal_offset is {offset} without a mask; pass causal=True, too")
    if kernel is not None:
        checks.one_of("kernel", kernel, KERNELS)
    if kernel == "Hopper" and (why := _refusal(dtype, d, permuted, device)):
        raise ValueError(f"kernel is 'Hopper', but {why}; pass kernel='Triton'")


def _refusal(dtype: torch.dtype, d: int, permuted: bool, device: torch.device) -> str:
    """Why the Hopper kernel cannot take such operands on this GPU; '' if it can."""
    if runtime.lane() != "GPU" or runtime.architecture(device) != 90:
        return "it needs a Hopper GPU (H100, H200)"
    if dtype == torch.float32:
        return "its O has 16 bits and q was float32"
    if d not in (64, 128):
        return f"the head size is {d}, and it takes 64 or 128"
    return "" if permuted else "V's keys are not permuted"


def _check_operands(x: Operands) -> None:
    """Raise for operands that ``quantise`` would not make: the kernel takes their sizes from each other."""
    if not isinstance(x, Operands):
        raise TypeError(f"x is a {type(x).__name__}; pass what quantise(q, k, v) returns")
    (b, h, n_q, d), (_, h_k, n_k, _) = x.q.values.shape, x.k.values.shape
    blocks = -(-n_k // K_BLOCK)
    wanted = {
        "q.values": (x.q.values, (b, h, n_q, d), torch.float8_e4m3fn),
        "q.scale": (x.q.scale, (b, h, -(-n_q // Q_BLOCK)), torch.float32),
        "k.values": (x.k.values, (b, h_k, n_k, d), torch.float8_e4m3fn),
        "k.scale": (x.k.scale, (b, h_k, blocks), torch.float32),
        "v.values": (x.v.values, (b, h_k, d, blocks * K_BLOCK), torch.float8_e4m3fn),
        "v.shift": (x.v.shift, (b, h_k, blocks), torch.float32),
        "v.top": (x.v.top, (b, h_k), torch.float32),
    }
    for name, (tensor, shape, dtype) in wanted.items():
        if (tensor.shape, tensor.dtype, tensor.device) != (shape, dtype, x.q.values.device):
            raise ValueError(
                f"{name} is {list(tensor.shape)} {tensor.dtype} on {tensor.device}, but should be {list(shape)} {dtype} on "
                f"{x.q.values.device}; pass what quantise(q, k, v) returns"
            )
        if not tensor.is_contiguous() or (not tensor.is_meta and tensor.data_ptr() % 16):
            raise ValueError(f"{name} is not contiguous from an address that is a multiple of 16; pass {name}.clone()")
    if x.n_k != n_k or h % h_k or not n_q or not n_k:
        raise ValueError(
            f"n_k is {x.n_k}, q.values {[b, h, n_q, d]}, k.values {[b, h_k, n_k, d]}; pass what quantise(q, k, v) returns"
        )

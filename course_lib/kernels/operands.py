"""From 16 or 32 bits to 8: Q, K and V as e4m3 with block scales, Q and K rotated, V transposed.

Sources: FlashAttention-3 (arXiv 2407.08608), section 3.3; FP8 formats (arXiv 2209.05433).
"""

import math
from typing import NamedTuple

import torch

from course_lib import checks, runtime
from course_lib.kernels import tl, triton
from course_lib.kernels.launching import check_block, check_launch, check_tiles, launch
from course_lib.model.quantize import check_sign

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


_INTERPRETED = tl.constexpr(runtime.mode() == "interpreter")


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
    """One program per block of rows: rotate, find the largest, divide, round. The rotation is one small matmul."""
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
    """One program per block of keys of V: find the largest, divide by a power of two, round, transpose."""
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


def check_input(name: str, x: torch.Tensor) -> None:
    """Raise TypeError or ValueError, which name x ``name``, for what the kernels cannot take as Q, K or V."""
    checks.float_tensor(name, x, ndim=4, look_inside=False)
    check_launch(**{name: x})
    checks.one_of(f"the head size of {name}", x.shape[3], SIZES)
    if runtime.mode() == "GPU" and runtime.architecture(x.device) < 89:
        raise ValueError(f"{name} is on a GPU without 8-bit tensor cores; they came with compute capability 8.9")
    if (x.shape[2] + K_BLOCK) * x.shape[3] >= 2**31:
        raise ValueError(f"{name} has {x.shape[2]:,} rows; the kernels count elements of a head in 32 bits")


def quantise_rows(x: torch.Tensor, block: int, sign: torch.Tensor | None = None) -> Rows:
    """Q or K, [B, H, N, D], as e4m3 with a scale for each ``block`` rows; with ``sign`` [D] its rows are rotated first.

    float16, float32, or on a GPU bfloat16; D one of 32, 64, 128; ``sign`` holds ±1. Blocks: Q_BLOCK for Q, K_BLOCK for K.
    A block with NaN or an infinity becomes NaN. Raises TypeError or ValueError before any launch.
    """
    check_input("x", x)
    check_block("block", block, smallest=16)
    check_tiles(block=block, d=x.shape[3])
    if sign is not None:
        check_sign(sign, x)
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


def quantise_values(v: torch.Tensor, permuted: bool = True) -> Values:
    """V, [B, H, N, D], as e4m3, transposed, with a power of two as the scale of each K_BLOCK keys.

    ``permuted``: each 16 keys in the order in which a thread of a warpgroup holds its columns of S. Else as ``quantise_rows``.
    """
    check_input("v", v)
    checks.truth("permuted", permuted)
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
        check_input(name, x)
    checks.grouped_heads(q, k, v)
    if sign is not None:
        check_sign(sign, q)
    checks.truth("permuted", permuted)
    rows = quantise_rows(q, Q_BLOCK, sign), quantise_rows(k, K_BLOCK, sign)
    return Operands(*rows, quantise_values(v, permuted), k.shape[2], q.dtype, permuted)


def check_operands(x: Operands) -> None:
    """Raise for operands that ``quantise`` would not make: the kernel takes their sizes from each other."""
    if not isinstance(x, Operands):
        raise TypeError(f"x is a {type(x).__name__}; pass what quantise(q, k, v) returns")
    for name, part, made in (("x.q", x.q, Rows), ("x.k", x.k, Rows), ("x.v", x.v, Values)):
        checks.instance(name, part, made, "what quantise(q, k, v) returns")
    checks.positive_int("x.n_k", x.n_k)
    for name, tensor in (("x.q.values", x.q.values), ("x.k.values", x.k.values)):
        if checks.dense(name, tensor).dim() != 4:
            raise ValueError(f"{name} has shape {list(tensor.shape)}; pass what quantise(q, k, v) returns")
    checks.one_of("x.dtype", x.dtype, checks.FLOATS)
    checks.truth("x.permuted", x.permuted)
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
        checks.dense(name, tensor)
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

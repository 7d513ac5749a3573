"""Launches of the rungs: ``forward`` for each of them, and of the specialised kernel alone, which also serves attention()."""

import functools
import math
from typing import Any

import torch

from course_lib import checks, runtime
from course_lib.kernels import gl
from course_lib.kernels.fast_launch import tile_counter
from course_lib.kernels.hopper.descriptors import descriptor_kernel
from course_lib.kernels.hopper.pointers import pointer_kernel
from course_lib.kernels.hopper.rungs import RUNGS, TILINGS, Rung, Tiling
from course_lib.kernels.hopper.specialised import specialised_kernel
from course_lib.kernels.launching import check_block, check_launch, check_length, check_tiles, launch

SIZES = (16, 32, 64, 128)
_L2_BYTES = 10e6  # of the 60 MB of an H200, what K and V of a group of heads may take: chosen in short runs


def forward(
    rung: str | Rung, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, causal_offset: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, L) of one rung, by its name or with blocks of your own: RUNGS["tuned"]._replace(num_stages=(2, 2)).

    q [B, H, Nq, D], k and v [B, Hk, Nk, D] -> o like q, L [B, H, Nq] in float32, without gradients; scale 1/√D.
    float16 or float32 (bfloat16 on a GPU), contiguous, D one of 16, 32, 64, 128, H a multiple of Hk, at least one query and
    key; the last three rungs need a Hopper GPU, D = 64 or 128 and 16-bit numbers. ``causal``: query i sees keys up to
    i + causal_offset; a query that sees none gets 0 and -inf. Raises TypeError or ValueError before any launch.
    """
    if not isinstance(rung, Rung):
        checks.one_of("rung", rung, list(RUNGS))
        rung = RUNGS[rung]
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.float_tensor(name, x, ndim=4, look_inside=False)
    checks.grouped_heads(q, k, v)
    checks.causal_mask(causal, causal_offset)
    (b, h, n_q, d), (h_k, n_k) = q.shape, k.shape[1:3]
    checks.one_of("the head size", d, SIZES)
    check_length("q", n_q)
    check_length("k", n_k)
    for block in rung.blocks[d > 64]:
        check_block("rung.blocks", block)
    check_tiles(**dict(zip(("rung.blocks of queries", "rung.blocks of keys"), rung.blocks[d > 64], strict=True)), d=d)
    checks.one_of("rung.num_warps", rung.num_warps[d > 64], (1, 2, 4, 8, 16))
    check_launch(q=q, k=k, v=v)
    q, k, v = (_aligned(x.contiguous()) for x in (q, k, v))
    o, L = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    offset = max(-n_q, min(causal_offset, n_k)) if causal else 0
    if rung.specialised:
        why = refusal(q, k, v)
        if why:
            raise ValueError(f"rung is {rung.name!r}, but {why}; choose one of the rungs before 'specialised'")
        launch_specialised(q, k, v, o, L, causal, offset, 1 / math.sqrt(d), TILINGS[d], rung)
    else:
        _launch(rung, [x.view(-1, *x.shape[2:]) for x in (q, k, v, o)], L.view(b * h, n_q), h // h_k, causal, offset)
    return o, L


def _aligned(x: torch.Tensor) -> torch.Tensor:
    return x.clone() if x.data_ptr() % 16 else x  # TMA wants addresses that are multiples of 16


def _launch(rung: Rung, tensors: list[torch.Tensor], L: torch.Tensor, group: int, causal: bool, offset: int) -> None:
    q, k, v, o = tensors
    (heads, n_q, d), n_k = q.shape, k.shape[1]
    large = int(d > 64)
    block_m, block_n = rung.blocks[large] if q.dtype != torch.float32 else (32, 32)
    before_hopper = (
        runtime.mode() == "GPU" and runtime.architecture(q.device) < 90
    )  # mma.sync takes more registers than wgmma
    options = {
        "num_warps": 8 if before_hopper and large else rung.num_warps[large],
        "num_stages": rung.num_stages[large] if q.dtype != torch.float32 else 1,
    }
    scale = 1 / math.sqrt(d) * (math.log2(math.e) if rung.exp2 else 1)
    tiles = _cdiv(n_q, block_m) * heads
    if not rung.descriptors:
        if max(n_q, n_k) * d >= 2**31:
            raise ValueError(
                f"q or k has {max(n_q, n_k):,} rows; the rungs with pointers count elements of a head in 32 bits"
            )
        launch(
            pointer_kernel, (tiles,), q, k, v, o, L, group, n_q, n_k, offset, scale,
            D=d, BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal, EXP2=rung.exp2, SKIP_BLOCKS=rung.skip_blocks, **options,
        )  # fmt: skip
        return
    from triton.tools.tensor_descriptor import TensorDescriptor

    programs = min(tiles, rung.programs_per_sm[large] * runtime.multiprocessors(q.device)) if rung.persistent else tiles
    counter = torch.zeros(1, dtype=torch.int32, device=q.device) if rung.persistent else L
    described = [
        TensorDescriptor.from_tensor(x, [1, rows, d])
        for x, rows in ((q, block_m), (k, block_n), (v, block_n), (o, block_m))
    ]
    launch(
        descriptor_kernel, (programs,), *described, L, counter, heads, group, heads_at_once(heads, k[0], group) if rung.persistent else 1,
        n_q, n_k, offset, scale, D=d, BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal,
        PERSISTENT=rung.persistent, **options,
    )  # fmt: skip


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)  # triton.cdiv takes microseconds on the host


def heads_at_once(heads: int, k_of_a_head: torch.Tensor, group: int) -> int:
    """How many heads of q share the L2 while their tiles are computed: whole groups of those that share a head of k."""
    return at_once(heads // group, int(_L2_BYTES / (2 * k_of_a_head.numel() * k_of_a_head.element_size()))) * group


def at_once(heads: int, most: int) -> int:
    """How many heads to a batch, ``most`` or a few fewer, so that the last batch is as large beside the others as it can be.

    The last batch's tiles are all that is left to share out at the end: those of two heads leave most SMs idle.
    """
    most = max(1, min(heads, most))
    return max(range(max(most // 2 + 1, most - 15), most + 1), key=lambda n: ((heads % n or n) / n, n))


# --- the specialised kernel ---


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str:
    """Why the specialised kernel cannot take these [B, H, N, D] tensors on this GPU; '' if it can."""
    if runtime.mode() != "GPU" or runtime.architecture(q.device) != 90:
        return "it needs a Hopper GPU (H100, H200)"
    if q.dtype not in (torch.float16, torch.bfloat16):
        return "it needs float16 or bfloat16"
    if q.shape[3] % 8 or not 32 < q.shape[3] <= 128:
        return f"the head size is {q.shape[3]}, and it takes multiples of 8 from 40 to 128"
    unaligned = [name for name, x in (("q", q), ("k", k), ("v", v)) if not rows_aligned(x)]
    if unaligned:
        return f"the rows of {' and '.join(unaligned)} do not start on 16 bytes"
    return ""


def call_refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, softcap: float) -> str:
    """Why neither Hopper's forward nor its backward kernel takes this call of ``attention``; '' if both can."""
    if softcap:
        return "it has no softcap"
    if not q.numel() or not k.numel():
        return "there is nothing to multiply"
    if scale < 1e-30:  # in fp32 the kernel's scale would be 0, or a denormal number
        return "it needs a positive scale"
    return refusal(q, k, v)


def rows_aligned(x: torch.Tensor) -> bool:
    """Whether TMA can load rows of x [B, H, N, D], 16-bit: contiguous, and each starts on 16 bytes."""
    return (
        x.stride(3) == 1
        and x.data_ptr() % 16 == 0
        and all(stride % 8 == 0 and stride > 0 for stride in _strides(x)[:3])
    )


def _strides(x: torch.Tensor) -> list[int]:
    """The strides as TMA wants them: of a dimension of size 1, torch's may be anything."""
    (b, h, n, row), strides = x.shape, x.stride()
    return [row if b == 1 else strides[0], row if h == 1 else strides[1], row if n == 1 else strides[2], 1]


_ELEMENT = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float8_e4m3fn: gl.float8e4nv}


@functools.cache  # what a launch costs on the host is mostly this
def _layout(rows: int, cols: int, dtype: torch.dtype) -> Any:
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, cols], _ELEMENT[dtype])


def descriptor(x: torch.Tensor, rows: int, cols: int) -> Any:
    """Tiles of x [B, H, N, D], ``rows`` × ``cols``, for TMA: beyond the end of x they hold zeros."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    return TensorDescriptor(x, list(x.shape), _strides(x), [1, 1, rows, cols], _layout(rows, cols, x.dtype))


def launch_specialised(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, causal: bool, offset: int,
    scale: float, tiling: Tiling, rung: Rung,
) -> None:  # fmt: skip
    """Fill o [B, H, Nq, D] and L [B, H, Nq] for tensors that ``refusal`` lets pass, none empty; scale > 0."""
    (b, h, n_q, d), (h_k, n_k) = q.shape, k.shape[1:3]
    tiles, block_d = _cdiv(n_q, 64 * tiling.consumers) * b * h, 64 if d <= 64 else 128
    launch(
        specialised_kernel, (min(tiles, runtime.multiprocessors(q.device)),),
        descriptor(q, 64, block_d), descriptor(k, tiling.block_n, block_d), descriptor(v, tiling.block_n, block_d),
        descriptor(o, 64, block_d), L,
        tile_counter(q.device), b * h, h, h // h_k, heads_at_once(b * h, k[0, 0], h // h_k),
        n_q, n_k, offset, scale * math.log2(math.e), BLOCK_D=block_d, BLOCK_N=tiling.block_n, CONSUMERS=tiling.consumers,
        STAGES=tiling.stages, CAUSAL=causal, IN_FLIGHT=rung.in_flight, PING_PONG=rung.ping_pong,
        LATE=rung.late_wait, num_warps=4,
    )  # fmt: skip

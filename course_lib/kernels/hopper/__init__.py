"""A ladder of forward kernels, from the Online kernel towards the top of an H200; each rung returns O and L.

o, L = forward("TMA", q, k, v, causal=True)             # q [B, H, Nq, D], k and v [B, Hk, Nk, D]
"""

import math
from typing import NamedTuple

import torch

from course_lib import checks, runtime
from course_lib.kernels import check_launch, launch, triton
from course_lib.kernels.hopper.descriptors import descriptor_kernel
from course_lib.kernels.hopper.pointers import pointer_kernel


class Rung(NamedTuple):
    """One step of the ladder: what is new, and how it is launched. Blocks are those for D <= 64 and for D <= 128."""

    name: str
    new: str
    blocks: tuple[tuple[int, int], tuple[int, int]] = ((64, 64), (64, 64))
    num_warps: tuple[int, int] = (4, 4)
    num_stages: tuple[int, int] = (3, 3)
    exp2: bool = True
    split: bool = True
    descriptors: bool = False
    persistent: bool = False


_PLAIN = Rung("Online", "the kernel of lecture 05, for many heads", exp2=False, split=False)
_TUNED = _PLAIN._replace(
    name="tuned",
    new="blocks, warps and stages by measurement",
    exp2=True,
    blocks=((128, 64), (64, 64)),
    num_warps=(8, 4),
)
_SPLIT = _TUNED._replace(name="split", new="full blocks without a mask, hidden blocks not visited", split=True)
_TMA = _SPLIT._replace(name="TMA", new="tiles by descriptors", descriptors=True)
_LAST = _TMA._replace(
    name="persistent", new="as many programs as SMs, tiles in an order that keeps K and V in L2", persistent=True
)
_EXP2 = _PLAIN._replace(name="exp2", new="powers of two, log2 e folded into the scale", exp2=True)
RUNGS = {rung.name: rung for rung in (_PLAIN, _EXP2, _TUNED, _SPLIT, _TMA, _LAST)}
SIZES = (16, 32, 64, 128)
_L2_BYTES = 50e6  # of the 60 MB of an H200, what K and V of a group of heads may take


def forward(
    rung: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, causal_offset: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, L) of one rung: q [B, H, Nq, D], k and v [B, Hk, Nk, D] -> o like q, L [B, H, Nq] in float32; scale 1/√D.

    float16 or float32 (bfloat16 on a GPU), contiguous, D one of 16, 32, 64, 128, H a multiple of Hk, at least one query and
    key. ``causal``: query i sees keys up to i + causal_offset; a query that sees none gets 0 and -inf. Raises TypeError or
    ValueError before any launch.
    """
    checks.one_of("rung", rung, list(RUNGS))
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.float_tensor(name, x, ndim=4, look_inside=False)
    checks.same_kind(q=q, k=k, v=v)
    checks.same_shape(k=k, v=v)
    (b, h, n_q, d), (b_k, h_k, n_k, d_k) = q.shape, k.shape
    if (b, d) != (b_k, d_k) or h % h_k:
        raise ValueError(
            f"q is {list(q.shape)} but k is {list(k.shape)}; batch and head size must be equal, q's heads a multiple of k's"
        )
    checks.one_of("the head size", d, SIZES)
    check_launch(q=q, k=k, v=v)
    q, k, v = (x.contiguous().view(-1, *x.shape[2:]) for x in (q, k, v))
    o, L = torch.empty_like(q), q.new_empty(q.shape[:2], dtype=torch.float32)
    offset = max(-n_q, min(causal_offset, n_k)) if causal else 0
    _launch(RUNGS[rung], q, k, v, o, L, h // h_k, causal, offset)
    return o.view(b, h, n_q, d), L.view(b, h, n_q)


def _launch(
    rung: Rung, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor, group: int,
    causal: bool, offset: int,
) -> None:  # fmt: skip
    (heads, n_q, d), n_k = q.shape, k.shape[1]
    large = int(d > 64)
    block_m, block_n = rung.blocks[large] if q.dtype != torch.float32 else (32, 32)
    before_hopper = runtime.lane() == "GPU" and runtime.architecture() < 90  # mma.sync takes more registers than wgmma
    options = {
        "num_warps": 8 if before_hopper and large else rung.num_warps[large],
        "num_stages": rung.num_stages[large] if q.dtype != torch.float32 else 1,
    }
    scale = 1 / math.sqrt(d) * (1 / math.log(2) if rung.exp2 else 1)
    tiles = triton.cdiv(n_q, block_m) * heads
    if not rung.descriptors:
        launch(
            pointer_kernel, (tiles,), q, k, v, o, L, group, n_q, n_k, offset, scale,
            D=d, BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal, EXP2=rung.exp2, SPLIT=rung.split, **options,
        )  # fmt: skip
        return
    from triton.tools.tensor_descriptor import TensorDescriptor

    at_once = max(1, int(_L2_BYTES / (2 * k[0].numel() * k.element_size()) * group)) if rung.persistent else 1
    programs = min(tiles, runtime.multiprocessors()) if rung.persistent else tiles
    described = [
        TensorDescriptor.from_tensor(x, [1, rows, d])
        for x, rows in ((q, block_m), (k, block_n), (v, block_n), (o, block_m))
    ]
    launch(
        descriptor_kernel, (programs,), *described, L, heads, group, n_q, n_k, offset, scale,
        D=d, BLOCK_M=block_m, BLOCK_N=block_n, GROUP=triton.next_power_of_2(min(at_once, heads)), CAUSAL=causal, **options,
    )  # fmt: skip

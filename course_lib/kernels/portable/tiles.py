"""Tiles and other arguments of the portable kernels' launches: by head size, dtype and device."""

from typing import Any, NamedTuple

import torch

from course_lib import runtime
from course_lib.kernels import triton
from course_lib.kernels.launching import warps


class Blocks(NamedTuple):
    """Block sizes and launch options of one kernel."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


# (kernel, largest head size, causal): blocks for 16-bit numbers on sm_90. The fastest of a sweep on an H200 in bf16, N = 1k and 4k.
_FP16_TILES = {
    ("forward", 64, False): Blocks(128, 64, 8, 3),
    ("forward", 64, True): Blocks(64, 64, 4, 3),
    ("forward", 128, False): Blocks(64, 64, 4, 3),
    ("forward", 128, True): Blocks(64, 64, 4, 3),
    ("key value gradient", 64, False): Blocks(64, 64, 4, 2),
    ("key value gradient", 64, True): Blocks(32, 64, 4, 3),
    ("key value gradient", 128, False): Blocks(64, 64, 4, 2),
    ("key value gradient", 128, True): Blocks(64, 128, 8, 3),
    ("query gradient", 64, False): Blocks(128, 64, 8, 3),
    ("query gradient", 64, True): Blocks(64, 64, 4, 3),
    ("query gradient", 128, False): Blocks(128, 64, 8, 3),
    ("query gradient", 128, True): Blocks(128, 64, 8, 3),
}


def blocks_of(kernel: str, q: torch.Tensor, causal: bool) -> Blocks:
    """Block sizes for this kernel, head size, dtype and device; small ones where shared memory or registers are few."""
    block_d = max(16, triton.next_power_of_2(q.shape[3]))
    if q.dtype == torch.float32 or block_d > 128:
        block = 32 if block_d <= 64 else 16
        return Blocks(block, block, warps(q.dtype, "ieee", block, block, block_d), 1)
    if runtime.mode() != "GPU":  # the interpreter pays for each block, not for its size
        return Blocks(64, 64, 4, 1)
    if runtime.architecture(q.device) // 10 not in (9, 10):  # others have less shared memory
        return Blocks(64, 64 if block_d <= 64 else 32, 4, 2)
    return _FP16_TILES[kernel, 64 if block_d <= 64 else 128, causal]


def constants_of(q: torch.Tensor, causal: bool, softcap: float) -> dict[str, Any]:
    """What the kernels are compiled for, besides tiles and strides."""
    d = q.shape[3]
    matmul = torch.backends.cuda.matmul
    # torch refuses to answer about the old name of the setting once the new one has been used.
    tf32 = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return {
        "D": d,
        "BLOCK_D": max(16, triton.next_power_of_2(d)),
        "CAUSAL": causal,
        "SOFTCAP": softcap > 0,
        "PRECISION": "tf32" if q.dtype == torch.float32 and tf32 else "ieee",
    }


def strides_in_units(*tensors: torch.Tensor) -> tuple[int, list[int]]:
    """(UNIT, the three outer strides of each tensor in units of UNIT elements): 16 bytes where all are multiples of it."""
    strides = [stride for x in tensors for stride in x.stride()[:3]]
    unit = 16 // tensors[0].element_size()
    unit = 1 if any(stride % unit for stride in strides) else unit
    return unit, [stride // unit for stride in strides]

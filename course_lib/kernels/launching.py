"""What launchers share: the checks of their arguments before a launch, and the launch itself."""

import contextlib
import itertools
import math
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from course_lib import checks, runtime
from course_lib.kernels import fast_launch, triton


def check_launch(**tensors: torch.Tensor) -> None:
    """Raise, before any launch, for what a kernel cannot take in this mode: as ``check_memory``, and for bfloat16 in the interpreter."""
    check_memory(**tensors)
    for name, x in tensors.items():
        if x.dtype == torch.bfloat16 and runtime.mode() == "interpreter":
            raise TypeError(
                f"{name} is bfloat16, whose arithmetic Triton's interpreter gets wrong without a word; pass {name}.float() or {name}.half()"
            )


def check_memory(**tensors: torch.Tensor) -> None:
    """Raise for what no launcher takes in this mode, ``attention`` and ``decode`` neither.

    KernelsUnavailableError without Triton; ValueError for another device, a last dimension that is not contiguous or a view that
    torch reads with the other sign; TypeError for a dtype other than float32, float16 and bfloat16.
    """
    runtime.require_kernels()
    for name, x in tensors.items():
        if x.device.type != runtime.device().type:
            raise ValueError(
                f"{name} is on {x.device}, but kernels run on {runtime.device()} here; pass {name}.to({str(runtime.device())!r})"
            )
        if x.stride(-1) != 1 and x.shape[-1] > 1:
            raise ValueError(
                f"{name} has strides {list(x.stride())}; its last dimension must be contiguous: pass {name}.contiguous()"
            )
        if not torch.compiler.is_compiling() and x.is_neg():
            raise ValueError(f"{name} is a view of numbers with the other sign; pass {name}.resolve_neg()")
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise TypeError(f"{name} is {x.dtype}; kernels take float32, float16 and bfloat16")


LARGEST_BLOCK = 2**20  # elements; Triton's own limit
MOST_PROGRAMS = 65_535  # of a grid's second axis; CUDA's limit
LONGEST = 2**30 - 2**10  # rows of a matrix: the sum of two positions and a block is counted in 32 bits


def check_block(name: str, value: Any, smallest: int = 1) -> int:
    """Return ``value`` if it is a power of two from ``smallest`` to LARGEST_BLOCK, as a Triton block must be; else raise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} is {checks.shown(value)} ({type(value).__name__}); pass a power of two, for example 64"
        )
    if value < smallest or value & (value - 1):
        raise ValueError(f"{name} is {checks.shown(value)}; pass a power of two of at least {smallest}, for example 64")
    if value > LARGEST_BLOCK:
        raise ValueError(
            f"{name} is {checks.shown(value)}; pass a power of two of at most {LARGEST_BLOCK:,}, for example 64"
        )
    return value


def check_tiles(**sides: int) -> None:
    """Raise if the tile of any two of these blocks has more than LARGEST_BLOCK numbers; ``d`` is the head dimension's block."""
    for (name, side), (other_name, other) in itertools.combinations(sides.items(), 2):
        if side * other > LARGEST_BLOCK:
            raise ValueError(
                f"{name} is {side:,} and {other_name} is {other:,}, a tile of {side * other:,} numbers; Triton's largest has "
                f"{LARGEST_BLOCK:,}: pass smaller blocks, for example 64"
            )


def check_reach(name: str, x: torch.Tensor) -> None:
    """Raise if elements of x [rows, cols] lie too far from its first for a kernel that counts row · stride in 32 bits."""
    rows, cols = x.shape
    reach = max(rows, (rows - 1) * x.stride(0) + cols)
    if reach > 2**31 - LARGEST_BLOCK:  # a loop's counter goes up to a block further
        raise ValueError(
            f"{name} has shape {list(x.shape)} and strides {list(x.stride())}: its last element is number {reach:,}, and this "
            f"kernel counts to {2**31 - LARGEST_BLOCK:,}; pass fewer rows, or rows without gaps, {name}.contiguous()"
        )


def check_length(name: str, length: int) -> None:
    """Raise if a kernel that counts positions in 32 bits cannot count to ``length``, a dimension of the tensor ``name``."""
    if length > LONGEST:
        raise ValueError(f"{name} has length {length:,}; kernels take at most {LONGEST:,}: pass it in parts")


PRECISIONS = ("ieee", "tf32", "tf32x3")
LARGEST_D = 256


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Launch a kernel on its tensors' GPU.

    A tile that does not fit and a grid that is too large become a ValueError, raised before anything has run.
    """
    if grid[0] >= 2**31:
        raise ValueError(f"this takes {grid[0]:,} programs, and a launch has at most {2**31 - 1:,}; pass it in parts")
    tensors = (getattr(x, "base", x) for x in args)  # a descriptor's tensor is its base
    place = next(x.device for x in tensors if isinstance(x, torch.Tensor))
    try:
        with torch.cuda.device(place) if place.type == "cuda" else _without_numpys_warnings():
            compiled = kernel[grid](*args, **options)
    except Exception as error:
        if type(error).__name__ != "OutOfResources":
            raise
        blocks = ", ".join(f"{name.lower()}={value}" for name, value in options.items() if name.startswith("BLOCK"))
        raise ValueError(f"the tiles do not fit this GPU: {error}; pass smaller blocks than {blocks}") from None
    fast_launch.note(kernel, compiled, grid, args, options)


@contextlib.contextmanager
def _without_numpys_warnings() -> Iterator[None]:
    """Triton's interpreter computes with NumPy, which warns of infinities and NaN; a GPU does not, and masked rows are made of them."""
    import numpy  # here: a GPU server may have torch and Triton alone

    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
        yield


def warps(dtype: torch.dtype, input_precision: str, block_m: int, block_n: int, block_d: int) -> int:
    """How many warps share a tile's matmuls: 4 on tensor cores, up to 16 for fp32 in 'ieee'.

    Those run on the CUDA cores, unrolled. With 4 warps a thread's share of a 64×64×64 matmul does not fit its
    registers, and of a 128×128 one it spills tens of kilobytes.
    """
    if dtype != torch.float32 or input_precision != "ieee":
        return 4
    return min(16, max(4, block_m * block_n * block_d // 2**14))


def attention_launch(
    kernel: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_m: int, block_n: int, input_precision: str
) -> torch.Tensor:
    """Check the arguments of a one-head attention kernel, launch a program for each block of rows of q, return o."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.float_tensor(name, x, ndim=2, look_inside=False)
    n_q, n_k, d, d_v = checks.attention_shapes(q, k, v)
    if d_v != d:
        raise ValueError(f"v has head dimension {d_v} but q and k have {d}; this kernel needs them equal")
    if d > LARGEST_D:
        raise ValueError(f"the head dimension is {d}; this kernel takes at most {LARGEST_D}")
    for name, x in (("q", q), ("k", k), ("v", v), ("o", torch.empty(n_q, d, device="meta"))):
        check_reach(name, x)
    check_launch(q=q, k=k, v=v)
    check_block("block_m", block_m, smallest=16)
    check_block("block_n", block_n, smallest=16)
    checks.one_of("input_precision", input_precision, PRECISIONS)
    o, block_d = torch.empty_like(q), max(16, triton.next_power_of_2(d))
    check_tiles(block_m=block_m, block_n=block_n, d=block_d)
    launch(
        kernel, (triton.cdiv(n_q, block_m),),
        q, k, v, o, n_q, n_k, q.stride(0), k.stride(0), v.stride(0), o.stride(0), 1 / math.sqrt(d),
        D=d, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=block_d, PRECISION=input_precision,
        num_warps=warps(q.dtype, input_precision, block_m, block_n, block_d),
    )  # fmt: skip
    return o

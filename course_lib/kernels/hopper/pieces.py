"""Hopper's three new things, each in a kernel of its own: TMA with an mbarrier, wgmma, a ring of tiles.

Gluon is compiled only, so they run on a Hopper GPU; without one, ``compiled.inspect`` shows what becomes of them.
"""

from typing import Any

import torch

from course_lib import checks, runtime
from course_lib.kernels import fence_async_shared, gl, gluon, mbarrier, tma, triton, warpgroup_mma, warpgroup_mma_wait
from course_lib.kernels.hopper.rings import make_ring
from course_lib.kernels.launching import check_launch, launch


@gluon.jit
def tma_kernel(x_desc, y_desc):
    """One tile of x to shared memory and on to y: TMA copies, the threads issue and wait."""
    tile = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_type.shape, x_desc.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    fence_async_shared()  # the TMA unit may now see the barrier
    row = gl.program_id(0) * x_desc.block_type.shape[0]
    mbarrier.expect(arrived, x_desc.block_type.nbytes)  # one arrival; so many bytes to come
    tma.async_copy_global_to_shared(x_desc, [row, 0], arrived, tile)  # hand over the slip, go on
    mbarrier.wait(arrived, 0)  # phase 0 is complete: the tile is here
    tma.async_copy_shared_to_global(y_desc, [row, 0], tile)
    tma.store_wait(0)  # the unit has read the tile


@gluon.jit
def wgmma_kernel(a_desc, b_desc, c_ptr, N: gl.constexpr, K: gl.constexpr):
    """C = A Bᵀ for A [64, K], B [N, K]: both from shared memory, C [64, N] in the registers of one warpgroup."""
    a = gl.allocate_shared_memory(a_desc.dtype, [64, K], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [N, K], b_desc.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    fence_async_shared()
    mbarrier.expect(arrived, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(a_desc, [0, 0], arrived, a)
    tma.async_copy_global_to_shared(b_desc, [0, 0], arrived, b)
    mbarrier.wait(arrived, 0)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    zero = gl.zeros([64, N], gl.float32, layout=layout)  # in the registers of 128 threads
    token = warpgroup_mma(a, b.permute((1, 0)), zero, use_acc=False, is_async=True)  # issue, go on
    c = warpgroup_mma_wait(0, deps=[token])  # no matmul is under way any more: the sums are here
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    cols = gl.arange(0, N, layout=gl.SliceLayout(0, layout))
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], c)


@gluon.jit
def _issue(x_desc, ring, first, tiles):
    for n in range(tiles):
        ring.fill(n, x_desc, [0, 0, (first + n) * x_desc.block_type.shape[2], 0])


@gluon.jit
def _add(ring, sums_ptr, tiles, ROWS: gl.constexpr, COLS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 * 8 // COLS, COLS // 8], [4, 1], [1, 0])
    total = gl.zeros([ROWS, COLS], gl.float32, layout=layout)
    for n in range(tiles):
        x = ring.wait(n, ROWS, COLS).load(layout)
        fence_async_shared()  # TMA writes the next tile here: it must not overtake the threads' own loads
        ring.release(n)
        total += x.to(gl.float32)
    cols = gl.arange(0, COLS, layout=gl.SliceLayout(0, layout))
    gl.store(sums_ptr + gl.program_id(0) * COLS + cols, gl.sum(total, 0))


@gluon.jit
def ring_kernel(x_desc, sums_ptr, tiles, BUFFERS: gl.constexpr):
    """Sums of the columns of this program's rows: one partition issues copies of tiles, another adds them, BUFFERS between them."""
    ROWS: gl.constexpr = x_desc.block_type.shape[2]
    COLS: gl.constexpr = x_desc.block_type.shape[3]
    ring = make_ring(x_desc, BUFFERS, 1)
    fence_async_shared()
    first = gl.program_id(0) * tiles
    gl.warp_specialize([(_add, (ring, sums_ptr, tiles, ROWS, COLS)), (_issue, (x_desc, ring, first, tiles))], [4], [24])


def _check(**tensors: torch.Tensor) -> None:
    for name, x in tensors.items():
        checks.float_tensor(name, x, ndim=2, look_inside=False)
    check_launch(**tensors)
    for name, x in tensors.items():
        if x.dtype == torch.float32:
            raise TypeError(f"{name} is torch.float32; pass float16 or bfloat16")
        if not x.is_contiguous():
            raise ValueError(f"{name} has strides {list(x.stride())}; pass {name}.contiguous()")
        if x.data_ptr() % 16:
            raise ValueError(f"{name} does not start on 16 bytes; pass {name}.clone()")
    if runtime.mode() != "GPU" or runtime.architecture() != 90:
        raise ValueError(f"{next(iter(tensors))} is on {runtime.device()}; this kernel needs a Hopper GPU (H100, H200)")


def _descriptor(x: torch.Tensor, block: list[int]) -> Any:
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    dtype = gl.float16 if x.dtype == torch.float16 else gl.bfloat16
    return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, dtype))


def tma_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of x [N, 64], 16-bit, in tiles of 64 rows, by TMA alone; raises TypeError or ValueError."""
    _check(x=x)
    if x.shape[1] != 64:
        raise ValueError(f"x has {x.shape[1]} columns; pass 64")
    y = torch.empty_like(x)
    launch(tma_kernel, (triton.cdiv(x.shape[0], 64),), _descriptor(x, [64, 64]), _descriptor(y, [64, 64]), num_warps=4)
    return y


def wgmma_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [64, K] times bᵀ, b [N, K], 16-bit -> [64, N] in float32; N and K 64 or 128; raises TypeError or ValueError."""
    _check(a=a, b=b)
    checks.same_dtype_and_device(a=a, b=b)
    if a.shape[0] != 64 or a.shape[1] != b.shape[1] or not {a.shape[1], b.shape[0]} <= {64, 128}:
        raise ValueError(f"a is {list(a.shape)}, b is {list(b.shape)}; pass [64, K] and [N, K], N and K 64 or 128")
    c = a.new_empty(64, b.shape[0], dtype=torch.float32)
    launch(
        wgmma_kernel, (1,), _descriptor(a, list(a.shape)), _descriptor(b, list(b.shape)), c,
        N=b.shape[0], K=a.shape[1], num_warps=4,
    )  # fmt: skip
    return c


def ring_sums(x: torch.Tensor, buffers: int, programs: int | None = None) -> torch.Tensor:
    """The sum of each column of x [N, 64], 16-bit, in float32, through rings of ``buffers`` tiles of 64 rows (8 KB).

    ``programs`` share the rows, one for each SM unless given; 64 · programs must divide N. Raises TypeError or ValueError.
    """
    _check(x=x)
    buffers = checks.positive_int("buffers", buffers)
    programs = runtime.multiprocessors(x.device) if programs is None else checks.positive_int("programs", programs)
    if x.shape[1] != 64 or x.shape[0] % (64 * programs):
        raise ValueError(f"x is {list(x.shape)}; pass 64 columns and a multiple of {64 * programs} rows")
    sums = x.new_empty(programs, 64, dtype=torch.float32)
    launch(
        ring_kernel, (programs,), _descriptor(x[None, None], [1, 1, 64, 64]), sums, x.shape[0] // (64 * programs),
        BUFFERS=buffers, num_warps=4,
    )  # fmt: skip
    return sums.sum(0)

"""How long a register and shared memory take to answer, in clock cycles, and how many bytes they give in one.

The chains are written in PTX, the assembler of the GPU, because Triton does not say what lies where. One block of
threads on one SM. Needs a GPU: the interpreter has no clock of this kind.
"""

from collections.abc import Callable

import torch

from course_lib import runtime
from course_lib.kernels import tl, triton

STEPS = 256
CHAINS = 8  # independent ones of a thread, for the rates


def _timed(setup: str, body: str, result: str) -> str:
    """PTX that runs ``body`` between two readings of the clock. $1 is 0, which the assembler cannot know: it keeps what
    was computed alive without changing the answer."""
    return (
        "{ .reg .u32 t0, t1, keep, base, w<4>; .reg .f32 x<8>, y, z; .shared .align 16 .b8 cells[16384]; "
        f"{setup} bar.sync 0; mov.u32 t0, %clock; {body} {result} and.b32 keep, keep, $1; bar.sync 0; "
        "mov.u32 t1, %clock; sub.u32 $0, t1, t0; add.u32 $0, $0, keep; }"
    )


_NUMBERS = "".join(
    f"add.u32 w0, $1, {i}; cvt.rn.f32.u32 {x}, w0; "
    for i, x in enumerate(("y", "z", *(f"x{j}" for j in range(CHAINS))))
)
_CELLS = (  # each thread has 16 bytes of its own, which hold their own address
    "mov.u32 base, cells; mov.u32 keep, %tid.x; shl.b32 keep, keep, 4; add.u32 base, base, keep; "
    "st.shared.v4.u32 [base], {base, base, base, base}; "
)
_SUM = "mov.b32 keep, x0; " + "".join(f"mov.b32 w0, x{i}; xor.b32 keep, keep, w0; " for i in range(1, CHAINS))
_FMA = "fma.rn.f32 x{0}, x{0}, y, z; "
REGISTER_LATENCY = _timed(_NUMBERS, _FMA.format(0) * STEPS, "mov.b32 keep, x0;")
REGISTER_RATE = _timed(_NUMBERS, "".join(map(_FMA.format, range(CHAINS))) * (STEPS // CHAINS), _SUM)
SHARED_LATENCY = _timed(_CELLS, "ld.volatile.shared.u32 base, [base]; " * STEPS, "mov.u32 keep, base;")
SHARED_RATE = _timed(
    _CELLS,
    "ld.volatile.shared.v4.u32 {base, w1, w2, w3}, [base]; add.u32 keep, keep, w1; xor.b32 keep, keep, w2; add.u32 keep, keep, w3; "
    * STEPS,
    "xor.b32 keep, keep, base;",
)


@triton.jit
def _clock_kernel(zero_ptr, out_ptr, ASM: tl.constexpr, THREADS: tl.constexpr):
    threads = tl.arange(0, THREADS)
    ticks = tl.inline_asm_elementwise(ASM, "=r,r", [tl.load(zero_ptr + threads)], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out_ptr + threads, ticks)


def cycles(asm: str, warps: int) -> int:
    """Clock cycles between the two readings, the longest of all warps of one block; the second run, so that code is cached."""
    if runtime.mode() != "GPU":
        raise RuntimeError("clock cycles are counted by a GPU; this machine has none")
    zero, out = (torch.zeros(32 * warps, dtype=torch.int32, device="cuda") for _ in range(2))
    launch: Callable[..., object] = _clock_kernel[(1,)]
    for _ in range(2):
        launch(zero, out, ASM=asm, THREADS=32 * warps, num_warps=warps)
    return int(out.max())

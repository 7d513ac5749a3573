"""Named barriers of an SM (PTX: bar.sync, bar.arrive), which Gluon does not offer, by inline assembly.

A program has sixteen; each completes when so many threads have arrived, and can then be used anew. Unlike at Gluon's mbarriers each warp
arrives by itself: Gluon has all warps of a warpgroup wait for one another before one thread arrives for them. The compiler takes the
first barriers for the groups of warps that it specialises, 0 to 4 at most; ours begin at 5.
"""

from course_lib.kernels import gl, gluon

TURNS = gl.constexpr(5)  # 5 … 7: one for each consumer
K_EMPTY = gl.constexpr(8)  # 8 … 11: one for each buffer
V_EMPTY = gl.constexpr(12)  # 12 … 15


@gluon.constexpr_function
def _instruction(what, threads):
    return f"bar.{what} $1, {threads}; mov.b32 $0, 0;"


@gluon.constexpr_function
def _arrive_for_two(threads):
    return (
        f"{{ .reg .b32 barrier; or.b32 barrier, $2, $3; bar.arrive barrier, {threads}; mov.b32 $0, 0; mov.b32 $1, 0; }}"
    )


@gluon.jit
def _for_each_thread(number):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    return gl.full([32 * gl.num_warps()], 0, gl.int32, layout) + number


@gluon.jit
def sync(barrier, THREADS: gl.constexpr):
    """Arrive, and wait until THREADS in all have."""
    TEXT: gl.constexpr = _instruction("sync", THREADS)
    gl.inline_asm_elementwise(TEXT, "=r,r", [_for_each_thread(barrier)], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def arrive(barrier, THREADS: gl.constexpr):
    """Arrive, and go on."""
    TEXT: gl.constexpr = _instruction("arrive", THREADS)
    gl.inline_asm_elementwise(TEXT, "=r,r", [_for_each_thread(barrier)], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def arrive_after(barrier, x, THREADS: gl.constexpr):
    """Arrive once ``x`` is known, float32, two numbers of a thread: what the program waits for later, it waits for after that.

    The assembler lifts a wait for matmuls above all that does not need them, but not above an arrival, and the arrival not above
    what its barrier's number comes from. So that number is made to come from x: the assembler cannot know that no x has these
    bits, which are those of a NaN that arithmetic never makes.
    """
    TEXT: gl.constexpr = _arrive_for_two(THREADS)
    number = gl.where(x.to(gl.int32, bitcast=True) == 0x7FABCDEF, 0, barrier)
    gl.inline_asm_elementwise(TEXT, "=r,=r,r,r", [number], dtype=gl.int32, is_pure=False, pack=2)

"""What the warps of a specialised kernel share: a ring of tiles in shared memory, a queue of numbers.

Each is a few mbarriers; half of a ring's may be named barriers instead. An mbarrier counts arrivals (and bytes that TMA is to
bring); when all are there, its phase flips. A waiting warp names the phase, 0 or 1, that it waits for.
Source: FlashAttention-3 (arXiv 2407.08608), section 3.1, Algorithms 1 and 2; PTX ISA, "mbarrier".
"""

from course_lib.kernels import aggregate, gl, gluon, mbarrier, tma
from course_lib.kernels.hopper import named


@gluon.jit
def barriers(N: gl.constexpr, ARRIVALS: gl.constexpr):
    """N mbarriers in shared memory, each of which flips after so many arrivals."""
    found = gl.allocate_shared_memory(gl.int64, [N, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(N):
        mbarrier.init(found.index(i), count=ARRIVALS)
    return found


@aggregate
class Ring:
    """BUFFERS tiles, used in turn: tile n lies in buffer n % BUFFERS, which is filled and emptied once for each n // BUFFERS.

    ``full`` flips when TMA has brought all bytes, ``empty`` when every reader has released the buffer.
    """

    tiles: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    BUFFERS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, tiles, full, empty, BUFFERS):
        self.tiles = tiles
        self.full = full
        self.empty = empty
        self.BUFFERS = gl.constexpr(BUFFERS)

    @gluon.jit
    def fill(self, n, desc, at):
        """Producer: wait until the buffer is empty, then issue the load of the block at ``at``."""
        buffer = n % self.BUFFERS
        mbarrier.wait(self.empty.index(buffer), ((n // self.BUFFERS) & 1) ^ 1)  # of a fresh barrier, phase 1 has passed
        mbarrier.expect(self.full.index(buffer), desc.block_type.nbytes)
        tma.async_copy_global_to_shared(desc, at, self.full.index(buffer), self.tiles.index(buffer))

    @gluon.jit
    def wait(self, n, ROWS: gl.constexpr, COLS: gl.constexpr):
        """Consumer: tile n, [ROWS, COLS] in shared memory, once it is there."""
        buffer = n % self.BUFFERS
        mbarrier.wait(self.full.index(buffer), (n // self.BUFFERS) & 1)
        return self.tiles.index(buffer).reshape([ROWS, COLS])

    @gluon.jit
    def release(self, n):
        """Consumer: done with tile n. wgmma reads as TMA writes, asynchronously; after loads of the threads' own,
        ``fence_async_shared`` comes first."""
        mbarrier.arrive(self.empty.index(n % self.BUFFERS), count=1)


@gluon.jit
def make_ring(desc, BUFFERS: gl.constexpr, READERS: gl.constexpr):
    """A ring for blocks of ``desc``, each read by READERS warpgroups."""
    tiles = gl.allocate_shared_memory(
        desc.dtype, [BUFFERS, 1, 1, desc.block_type.shape[2], desc.block_type.shape[3]], desc.layout
    )
    return Ring(tiles, barriers(BUFFERS, 1), barriers(BUFFERS, READERS), BUFFERS)


@aggregate
class NamedRing:
    """A ``Ring`` whose readers give buffers back at named barriers, of which the first is FIRST, so that a wait can be held behind it."""

    tiles: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    BUFFERS: gl.constexpr
    FIRST: gl.constexpr
    THREADS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, tiles, full, BUFFERS, FIRST, THREADS):
        self.tiles = tiles
        self.full = full
        self.BUFFERS = gl.constexpr(BUFFERS)
        self.FIRST = gl.constexpr(FIRST)
        self.THREADS = gl.constexpr(THREADS)

    @gluon.jit
    def fill(self, n, desc, at):
        buffer = n % self.BUFFERS
        if n >= self.BUFFERS:
            named.sync(self.FIRST + buffer, self.THREADS)
        mbarrier.expect(self.full.index(buffer), desc.block_type.nbytes)
        tma.async_copy_global_to_shared(desc, at, self.full.index(buffer), self.tiles.index(buffer))

    @gluon.jit
    def wait(self, n, ROWS: gl.constexpr, COLS: gl.constexpr):
        buffer = n % self.BUFFERS
        mbarrier.wait(self.full.index(buffer), (n // self.BUFFERS) & 1)
        return self.tiles.index(buffer).reshape([ROWS, COLS])

    @gluon.jit
    def release(self, n):
        named.arrive(self.FIRST + n % self.BUFFERS, self.THREADS)

    @gluon.jit
    def release_after(self, n, x):
        """Consumer: done with tile n, once x is known (``named.arrive_after``)."""
        named.arrive_after(self.FIRST + n % self.BUFFERS, x, self.THREADS)


@gluon.jit
def make_named_ring(desc, BUFFERS: gl.constexpr, READERS: gl.constexpr, FIRST: gl.constexpr):
    """A named ring for blocks of ``desc``, filled by one warp and read by READERS warpgroups.

    No mbarrier that nobody waits for: the compiler would lay something else in its place (TMA's tiles, the counter's answer), and
    what lies on a barrier that was made and not invalidated may be lost.
    """
    gl.static_assert(BUFFERS <= 4, "a ring has four named barriers")
    tiles = gl.allocate_shared_memory(
        desc.dtype, [BUFFERS, 1, 1, desc.block_type.shape[2], desc.block_type.shape[3]], desc.layout
    )
    return NamedRing(tiles, barriers(BUFFERS, 1), BUFFERS, FIRST, 128 * READERS + 32)


@aggregate
class QueryRing:
    """BUFFERS blocks of queries, used in turn as in a ``Ring``: Q with L, and dO with delta, which may arrive later."""

    q: gl.shared_memory_descriptor
    do: gl.shared_memory_descriptor
    L: gl.shared_memory_descriptor
    delta: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    BUFFERS: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, q, do, L, delta, q_full, do_full, empty, BUFFERS):
        self.q = q
        self.do = do
        self.L = L
        self.delta = delta
        self.q_full = q_full
        self.do_full = do_full
        self.empty = empty
        self.BUFFERS = gl.constexpr(BUFFERS)

    @gluon.jit
    def fill_q(self, n, desc, at, L_desc, row):
        """Producer: wait until the buffer is empty, then issue the loads of Q at ``at`` and of L from ``row`` on."""
        buffer = n % self.BUFFERS
        full = self.q_full.index(buffer)
        mbarrier.wait(self.empty.index(buffer), ((n // self.BUFFERS) & 1) ^ 1)
        mbarrier.expect(full, desc.block_type.nbytes + L_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(desc, at, full, self.q.index(buffer))
        tma.async_copy_global_to_shared(L_desc, [row], full, self.L.index(buffer))

    @gluon.jit
    def fill_do(self, n, desc, at, delta_desc, row):
        """Producer: then the loads of dO and delta."""
        buffer = n % self.BUFFERS
        full = self.do_full.index(buffer)
        mbarrier.expect(full, desc.block_type.nbytes + delta_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(desc, at, full, self.do.index(buffer))
        tma.async_copy_global_to_shared(delta_desc, [row], full, self.delta.index(buffer))

    @gluon.jit
    def wait_q(self, n, ROWS: gl.constexpr, COLS: gl.constexpr):
        """Consumer: (Q [ROWS, COLS], L [ROWS]) of block n in shared memory, once they are there."""
        buffer = n % self.BUFFERS
        mbarrier.wait(self.q_full.index(buffer), (n // self.BUFFERS) & 1)
        return self.q.index(buffer).reshape([ROWS, COLS]), self.L.index(buffer)

    @gluon.jit
    def wait_do(self, n, ROWS: gl.constexpr, COLS: gl.constexpr):
        """Consumer: (dO [ROWS, COLS], delta [ROWS]) of block n in shared memory, once they are there."""
        buffer = n % self.BUFFERS
        mbarrier.wait(self.do_full.index(buffer), (n // self.BUFFERS) & 1)
        return self.do.index(buffer).reshape([ROWS, COLS]), self.delta.index(buffer)

    @gluon.jit
    def release(self, n):
        """Consumer: done with block n."""
        mbarrier.arrive(self.empty.index(n % self.BUFFERS), count=1)


@gluon.jit
def make_query_ring(desc, numbers_desc, BUFFERS: gl.constexpr):
    """A ring for blocks of ``desc``, Q's and dO's, each read by two warpgroups, with blocks of ``numbers_desc``, L's and delta's."""
    ROWS: gl.constexpr = desc.block_type.shape[2]
    COLS: gl.constexpr = desc.block_type.shape[3]
    q = gl.allocate_shared_memory(desc.dtype, [BUFFERS, 1, 1, ROWS, COLS], desc.layout)
    do = gl.allocate_shared_memory(desc.dtype, [BUFFERS, 1, 1, ROWS, COLS], desc.layout)
    L = gl.allocate_shared_memory(gl.float32, [BUFFERS, ROWS], numbers_desc.layout)
    delta = gl.allocate_shared_memory(gl.float32, [BUFFERS, ROWS], numbers_desc.layout)
    return QueryRing(q, do, L, delta, barriers(BUFFERS, 1), barriers(BUFFERS, 1), barriers(BUFFERS, 2), BUFFERS)


@aggregate
class Queue:
    """Messages of four numbers from the producer to the consumers; two may be under way."""

    numbers: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, numbers, full, empty):
        self.numbers = numbers
        self.full = full
        self.empty = empty

    @gluon.jit
    def put(self, n, message):
        """Producer: send message n."""
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
        mbarrier.wait(self.empty.index(n % 2), ((n // 2) & 1) ^ 1)
        for i in gl.static_range(4):
            self.numbers.index(n % 2 * 4 + i).store(gl.full([1], 0, gl.int32, layout) + message[i])
        mbarrier.arrive(self.full.index(n % 2), count=1)

    @gluon.jit
    def get(self, n):
        """Consumer: message n, once it is there."""
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
        mbarrier.wait(self.full.index(n % 2), (n // 2) & 1)
        first = gl.max(self.numbers.index(n % 2 * 4).load(layout), 0)
        second = gl.max(self.numbers.index(n % 2 * 4 + 1).load(layout), 0)
        third = gl.max(self.numbers.index(n % 2 * 4 + 2).load(layout), 0)
        fourth = gl.max(self.numbers.index(n % 2 * 4 + 3).load(layout), 0)
        mbarrier.arrive(self.empty.index(n % 2), count=1)
        return first, second, third, fourth


@gluon.jit
def make_queue(READERS: gl.constexpr):
    """A queue that READERS warpgroups read, each of them every message."""
    numbers = gl.allocate_shared_memory(gl.int32, [8, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    return Queue(numbers, barriers(2, 1), barriers(2, READERS))

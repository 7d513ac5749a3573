"""Rungs 7 to 10, in Gluon: warps with different work, two matmuls in flight, warpgroups that take turns, a late wait.

One warp (the producer; one thread of it) issues the TMA loads of tiles; warpgroups of 128 threads (the consumers), each
with 64 rows of Q, multiply and take the softmax. Sources: FlashAttention-3 (arXiv 2407.08608): Algorithm 1 is ``IN_FLIGHT=1``, Algorithm 2,
where S of the next block is issued before P V of this one, 2; its appendix B.3 is 3. ``PING_PONG`` is in section 3.1.
``LATE`` is not in the paper: ``loops.late_wait``.
"""

from course_lib.kernels import LOG2E, aggregate, fence_async_shared, gl, gluon, tma, warpgroup_mma
from course_lib.kernels.hopper import named
from course_lib.kernels.hopper.loops import late_wait, one_after_another, overlapped, three_matmuls
from course_lib.kernels.hopper.rings import NamedRing, Ring, make_named_ring, make_queue, make_ring

ROWS = gl.constexpr(64)  # of Q for a consumer: wgmma multiplies 64 rows


@gluon.jit
def tile(t, blocks, heads, at_once, CAUSAL: gl.constexpr):
    """(head, block of rows) of tile t: ``at_once`` heads, whose K and V fit L2; of these the longest rows first."""
    first = t // (at_once * blocks) * at_once
    here = gl.minimum(at_once, heads - first)
    rest = t - first * blocks
    block = rest // here
    if CAUSAL:
        block = blocks - 1 - block
    return first + rest % here, block


@gluon.jit
def producer(
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, TRANSPOSED: gl.constexpr, q_desc, k_desc, v_desc,
    q_rings, k_ring, v_ring, queue, counter_ptr, blocks, heads, per_batch, group, at_once, n_k, offset,
):  # fmt: skip
    """Choose this program's tiles of O; issue the loads of their tiles of Q, K and V as far ahead as the rings allow.

    TRANSPOSED: V is [B, H, D, N], as matmuls of 8-bit numbers want it.
    """
    t, n, step = gl.program_id(0), 0, 0
    while t < blocks * heads:
        head, block = tile(t, blocks, heads, at_once, CAUSAL)
        b, h, start, end = head // per_batch, head % per_batch, block * BLOCK_M, n_k
        if CAUSAL:
            end = gl.maximum(0, gl.minimum(n_k, start + BLOCK_M + offset))
        total = (end + BLOCK_N - 1) // BLOCK_N
        queue.put(n, (b, h, start, total))
        # One ring per consumer: each waits for its own 64 rows of Q only, and gives them back when its O has left.
        for i in gl.static_range(len(q_rings)):
            q_rings[i].fill(n, q_desc, [b, h, start + i * ROWS, 0])
        for j in range(total - 1, -1, -1):  # the last block first: with a mask, all masked blocks come first
            # K before V: S needs K a softmax earlier than O needs V, so that V has this long to arrive.
            k_ring.fill(step, k_desc, [b, h // group, j * BLOCK_N, 0])
            if TRANSPOSED:
                v_ring.fill(step, v_desc, [b, h // group, 0, j * BLOCK_N])
            else:
                v_ring.fill(step, v_desc, [b, h // group, j * BLOCK_N, 0])
            step += 1
        # Only now: a tile that was chosen long before its turn would wait here while another program has nothing to do.
        # Relaxed: the counter orders no other access to memory, so none need be waited for.
        t, n = gl.num_programs(0) + gl.atomic_add(counter_ptr, 1, sem="relaxed"), n + 1
    queue.put(n, (0, 0, 0, -1))  # no more tiles


@aggregate
class Warpgroup:
    """What a consumer works with: the rings, its turn, and the things that it does with a block of keys."""

    k_ring: Ring | NamedRing
    v_ring: Ring | NamedRing
    n_k: gl.tensor
    offset: gl.tensor
    scale: gl.tensor
    ME: gl.constexpr
    BLOCK_D: gl.constexpr
    BLOCK_N: gl.constexpr
    CAUSAL: gl.constexpr
    CONSUMERS: gl.constexpr
    PING_PONG: gl.constexpr
    S_LAYOUT: gl.constexpr
    O_LAYOUT: gl.constexpr
    SUM_LAYOUT: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, k_ring, v_ring, n_k, offset, scale, ME, BLOCK_D, BLOCK_N, CAUSAL, CONSUMERS, PING_PONG):
        self.k_ring = k_ring
        self.v_ring = v_ring
        self.n_k = n_k
        self.offset = offset
        self.scale = scale
        self.ME = gl.constexpr(ME)
        self.BLOCK_D = gl.constexpr(BLOCK_D)
        self.BLOCK_N = gl.constexpr(BLOCK_N)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.CONSUMERS = gl.constexpr(CONSUMERS)
        self.PING_PONG = gl.constexpr(PING_PONG)
        self.S_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16]))
        self.O_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16]))
        # Four threads share a row of S. Each keeps a sum of its own, l [64, 4], until the tile is done: they exchange nothing before.
        self.SUM_LAYOUT = gl.constexpr(
            gl.DistributedLinearLayout(
                reg_bases=[[8, 0]], lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp_bases=[[16, 0], [32, 0]],
                block_bases=[], shape=[64, 4],
            )
        )  # fmt: skip

    @gluon.jit
    def scores(self, q, k):
        """Issue S = Q Kᵀ; the warps go on."""
        # wgmma needs an accumulator's registers; use_acc=False makes it overwrite them, so the zeros cost nothing.
        zero = gl.zeros([ROWS, self.BLOCK_N], gl.float32, layout=self.S_LAYOUT)
        return warpgroup_mma(q, k.permute((1, 0)), zero, use_acc=False, is_async=True)

    @gluon.jit
    def weights(self, s, m, l, rows, j, clear):
        """(P in fp32, m, l, correction) after block j of keys: the online softmax, in powers of two."""
        if j >= clear:
            keys = j * self.BLOCK_N + gl.arange(0, self.BLOCK_N, layout=gl.SliceLayout(0, self.S_LAYOUT))
            seen = (keys < self.n_k)[None, :]
            if self.CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + self.offset)
            s = gl.where(seen, s, -float("inf"))
        m_new = gl.maximum(m, gl.max(s, 1))
        shift = gl.where(m_new > -float("inf"), m_new * self.scale, 0.0)  # a row may have seen no key yet
        p = gl.exp2(s * self.scale - shift[:, None])
        correction = gl.exp2(m * self.scale - shift)
        own = gl.convert_layout(
            gl.sum(gl.sum(p.reshape([ROWS, self.BLOCK_N // 8, 4, 2]), 3), 1), self.SUM_LAYOUT, assert_trivial=True
        )
        l = l * gl.convert_layout(correction, gl.SliceLayout(1, self.SUM_LAYOUT))[:, None] + own
        return p, m_new, l, gl.convert_layout(correction, gl.SliceLayout(1, self.O_LAYOUT))[:, None]

    @gluon.jit
    def operand(self, p):
        """P as wgmma's left operand, in 16 bits: it stays in registers, in the order in which S came."""
        return gl.convert_layout(p.to(self.k_ring.tiles.dtype), gl.DotOperandLayout(0, self.O_LAYOUT, 2))

    @gluon.jit
    def softmax(self, s, m, l, rows, j, clear):
        """(P as an operand, m, l, correction) after block j of keys."""
        p, m, l, correction = self.weights(s, m, l, rows, j, clear)
        return self.operand(p), m, l, correction

    @gluon.jit
    def values(self, p, acc, step):
        """Issue acc + P V for the block of this step, once it is there; the warps go on."""
        return warpgroup_mma(p, self.v_ring.wait(step, self.BLOCK_N, self.BLOCK_D), acc, is_async=True)

    @gluon.jit
    def keys(self, step):
        """K of this step, once it is there."""
        return self.k_ring.wait(step, self.BLOCK_N, self.BLOCK_D)

    @gluon.jit
    def take_turn(self):
        if self.PING_PONG:
            named.sync(named.TURNS + self.ME, 256)  # of this warpgroup and of the one before

    @gluon.jit
    def give_turn(self):
        if self.PING_PONG:
            named.arrive(named.TURNS + (self.ME + 1) % self.CONSUMERS, 256)


@gluon.jit
def _consumer(
    ME: gl.constexpr, BLOCK_D: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, IN_FLIGHT: gl.constexpr,
    CONSUMERS: gl.constexpr, PING_PONG: gl.constexpr, LATE: gl.constexpr, q_ring, k_ring, v_ring, queue, o_desc, L_ptr,
    per_batch, n_q, n_k, offset, scale,
):  # fmt: skip
    """Rows ME · 64 … of each tile of O: S, its softmax, P V, block of keys by block of keys, the last block first."""
    mine = Warpgroup(k_ring, v_ring, n_k, offset, scale, ME, BLOCK_D, BLOCK_N, CAUSAL, CONSUMERS, PING_PONG)
    if PING_PONG and ME == 0:
        named.arrive(named.TURNS, 256)  # the first turn is the first one's
    n, step = 0, 0
    b, h, start, total = queue.get(0)
    while total >= 0:
        start += ME * ROWS
        clear = n_k  # keys that all of these rows see
        if CAUSAL:
            clear = gl.maximum(0, gl.minimum(n_k, start + offset + 1))
        clear = clear // BLOCK_N
        rows = start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, mine.S_LAYOUT))
        m = gl.full([ROWS], -float("inf"), gl.float32, layout=gl.SliceLayout(1, mine.S_LAYOUT))
        l = gl.zeros([ROWS, 4], gl.float32, layout=mine.SUM_LAYOUT)
        acc = gl.zeros([ROWS, BLOCK_D], gl.float32, layout=mine.O_LAYOUT)
        q = q_ring.wait(n, ROWS, BLOCK_D)
        if IN_FLIGHT == 1:
            acc, m, l, step = one_after_another(mine, q, acc, m, l, rows, clear, total, step)
        elif LATE:
            acc, m, l, step = late_wait(mine, q, acc, m, l, rows, clear, total, step)
        elif IN_FLIGHT == 2:
            acc, m, l, step = overlapped(mine, q, acc, m, l, rows, clear, total, step)
        else:
            acc, m, l, step = three_matmuls(mine, q, acc, m, l, rows, clear, total, step)
        l = gl.convert_layout(gl.sum(l, 1), gl.SliceLayout(1, mine.S_LAYOUT))
        l = gl.where(m > -float("inf"), l, 1.0)  # a row that saw no key: its acc is 0 and its L is -inf
        inverse = gl.convert_layout(1 / l, gl.SliceLayout(1, mine.O_LAYOUT))
        q.store((acc * inverse[:, None]).to(q.dtype))  # these rows of Q are done with: their place takes those of O
        # The threads stored O to shared memory; TMA reads it through the async proxy, which sees their stores after a fence only.
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [b, h, start, 0], q_ring.tiles.index(n % q_ring.BUFFERS))
        L = m * (scale / LOG2E) + gl.log2(l) / LOG2E
        gl.store(L_ptr + (b * per_batch + h).to(gl.int64) * n_q + rows, L, mask=rows < n_q)
        tma.store_wait(0)  # TMA has read all of O: only now may the producer load the next Q over it
        q_ring.release(n)
        n += 1
        b, h, start, total = queue.get(n)


@gluon.jit(do_not_specialize=["heads", "per_batch", "group", "at_once", "n_q", "n_k", "offset"])
def specialised_kernel(
    q_desc, k_desc, v_desc, o_desc, L_ptr, counter_ptr, heads, per_batch, group, at_once, n_q, n_k, offset, scale,
    BLOCK_D: gl.constexpr, BLOCK_N: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    IN_FLIGHT: gl.constexpr, PING_PONG: gl.constexpr, LATE: gl.constexpr,
):  # fmt: skip
    """A persistent program: tiles of CONSUMERS × 64 rows, the next one from a counter in memory (0 at the start).

    q and o [B, H, Nq, D], k and v [B, H / group, Nk, D] by descriptors of [1, 1, 64 or BLOCK_N, BLOCK_D] blocks; L [B, H, Nq].
    2 consumers have 240 registers per thread, 3 have 160; the producer gives most of its own away.
    """
    gl.static_assert(
        CONSUMERS == 2 or CONSUMERS == 3, "two or three warpgroups compute: the rings wait for each of them"
    )
    gl.static_assert(
        IN_FLIGHT < 3 or STAGES >= 2, "with one buffer, K of the block after the next waits for V of this one"
    )
    BLOCK_M: gl.constexpr = CONSUMERS * ROWS
    blocks = gl.cdiv(n_q, BLOCK_M)
    if LATE:
        k_ring = make_named_ring(k_desc, STAGES, CONSUMERS, named.K_EMPTY)
        v_ring = make_named_ring(v_desc, STAGES, CONSUMERS, named.V_EMPTY)
    else:
        k_ring, v_ring = make_ring(k_desc, STAGES, CONSUMERS), make_ring(v_desc, STAGES, CONSUMERS)
    q0, q1 = make_ring(q_desc, 2, 1), make_ring(q_desc, 2, 1)
    q2 = q1
    if CONSUMERS == 3:
        q2 = make_ring(q_desc, 2, 1)
    queue = make_queue(CONSUMERS)
    # The barriers were initialised by the threads; without the fence TMA's first bytes could meet them uninitialised.
    fence_async_shared()
    mine = (k_ring, v_ring, queue, o_desc, L_ptr, per_batch, n_q, n_k, offset, scale)
    issued = (k_ring, v_ring, queue, counter_ptr, blocks, heads, per_batch, group, at_once, n_k, offset)
    # Registers per thread, for the warpgroups after the first, which keeps the rest. All start with equal parts, 3 · 168 or 4 · 128;
    # setmaxnreg then moves the producer's to the consumers: 24 + 2 · 240 = 504, 32 + 3 · 160 = 512. A consumer needs them for S and
    # O in fp32, 64 and 64 registers for 128 keys at D = 128, and for P; the producer's one thread holds a few indices.
    # The producer is one warp: of four, some went on with an old answer of the counter where processes took turns on a GPU, and the
    # kernel did not end. (That answer lay on barriers that were made and never waited for.)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (_consumer, (0, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, CONSUMERS, PING_PONG, LATE, q0) + mine),
                (_consumer, (1, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, CONSUMERS, PING_PONG, LATE, q1) + mine),
                (producer, (BLOCK_M, BLOCK_N, CAUSAL, False, q_desc, k_desc, v_desc, (q0, q1)) + issued),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consumer, (0, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, CONSUMERS, PING_PONG, LATE, q0) + mine),
                (_consumer, (1, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, CONSUMERS, PING_PONG, LATE, q1) + mine),
                (_consumer, (2, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, CONSUMERS, PING_PONG, LATE, q2) + mine),
                (producer, (BLOCK_M, BLOCK_N, CAUSAL, False, q_desc, k_desc, v_desc, (q0, q1, q2)) + issued),
            ],
            [4, 4, 1],
            [160, 160, 32],
        )

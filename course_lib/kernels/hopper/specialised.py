"""Rungs 7 to 9, in Gluon: warps with different work, two matmuls in flight, warpgroups that take turns.

One warp (the producer; one thread of it) issues the TMA loads of tiles; warpgroups of 128 threads (the consumers), each
with 64 rows of Q, multiply and take the softmax. Sources: FlashAttention-3 (arXiv 2407.08608): Algorithm 1 is ``IN_FLIGHT=1``, Algorithm 2,
where S of the next block is issued before P V of this one, 2; its appendix B.3 is 3. ``PING_PONG`` is in section 3.1.
"""

from course_lib.kernels import LOG2E, aggregate, fence_async_shared, gl, gluon, tma, warpgroup_mma, warpgroup_mma_wait
from course_lib.kernels.hopper.rings import Ring, Turns, make_queue, make_ring, make_turns

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
    """What a consumer works with: the rings, its turn, and the four things that it does with a block of keys."""

    k_ring: Ring
    v_ring: Ring
    turns: Turns
    n_k: gl.tensor
    offset: gl.tensor
    scale: gl.tensor
    ME: gl.constexpr
    BLOCK_D: gl.constexpr
    BLOCK_N: gl.constexpr
    CAUSAL: gl.constexpr
    PING_PONG: gl.constexpr
    S_LAYOUT: gl.constexpr
    O_LAYOUT: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, k_ring, v_ring, turns, n_k, offset, scale, ME, BLOCK_D, BLOCK_N, CAUSAL, PING_PONG):
        self.k_ring = k_ring
        self.v_ring = v_ring
        self.turns = turns
        self.n_k = n_k
        self.offset = offset
        self.scale = scale
        self.ME = gl.constexpr(ME)
        self.BLOCK_D = gl.constexpr(BLOCK_D)
        self.BLOCK_N = gl.constexpr(BLOCK_N)
        self.CAUSAL = gl.constexpr(CAUSAL)
        self.PING_PONG = gl.constexpr(PING_PONG)
        self.S_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16]))
        self.O_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16]))

    @gluon.jit
    def scores(self, q, k):
        """Issue S = Q Kᵀ; the warps go on."""
        # wgmma needs an accumulator's registers; use_acc=False makes it overwrite them, so the zeros cost nothing.
        zero = gl.zeros([ROWS, self.BLOCK_N], gl.float32, layout=self.S_LAYOUT)
        return warpgroup_mma(q, k.permute((1, 0)), zero, use_acc=False, is_async=True)

    @gluon.jit
    def softmax(self, s, m, l, rows, j, clear):
        """(P, m, l, correction) after block j of keys: the online softmax, in powers of two."""
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
        l = l * correction + gl.sum(p, 1)
        # P stays in registers: as a left operand of 16 bits wgmma takes it from there, in the order in which S came.
        p = gl.convert_layout(p.to(self.k_ring.tiles.dtype), gl.DotOperandLayout(0, self.O_LAYOUT, 2))
        return p, m_new, l, gl.convert_layout(correction, gl.SliceLayout(1, self.O_LAYOUT))[:, None]

    @gluon.jit
    def values(self, p, acc, step):
        """Issue acc + P V for the block of this step, once it is there; the warps go on."""
        return warpgroup_mma(p, self.v_ring.wait(step, self.BLOCK_N, self.BLOCK_D), acc, is_async=True)

    @gluon.jit
    def keys(self, step):
        """K of this step, once it is there."""
        return self.k_ring.wait(step, self.BLOCK_N, self.BLOCK_D)

    @gluon.jit
    def take_turn(self, step):
        if self.PING_PONG:
            self.turns.take(step, self.ME)

    @gluon.jit
    def give_turn(self):
        if self.PING_PONG:
            self.turns.give(self.ME)


@gluon.jit
def _one_after_another(mine, q, acc, m, l, rows, clear, total, step):
    """S, softmax, P V; S, softmax, P V: the other warpgroups keep the tensor cores busy, or nobody does."""
    for j in range(total - 1, -1, -1):
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)  # S is there, so wgmma has read K: its buffer is refilled during the softmax
        p, m, l, correction = mine.softmax(s, m, l, rows, j, clear)
        o_token = mine.values(p, acc * correction, step)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        step += 1
    return acc, m, l, step


@gluon.jit
def _overlapped(mine, q, acc, m, l, rows, clear, total, step):
    """S of the next block is issued before P V of this one: the softmax of the next may run while P V is under way.

    The assembler does not let it: it waits for both matmuls before the first exponential (lecture 11 shows where).
    """
    if total > 0:
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)
        p, m, l, correction = mine.softmax(s, m, l, rows, total - 1, clear)
        for j in range(total - 2, -1, -1):
            k = mine.keys(step + 1)
            mine.take_turn(step)
            s_token = mine.scores(q, k)
            o_token = mine.values(p, acc, step)
            mine.give_turn()  # both are issued: the other warpgroup may issue its own while this one takes exponentials
            # wgmmas complete in order: at most one pending means that S, the older, is there; P V may still be under way.
            s = warpgroup_mma_wait(1, deps=[s_token])
            mine.k_ring.release(step + 1)
            p, m, l, correction = mine.softmax(s, m, l, rows, j, clear)
            # The P V under way is weighted by the maximum of before, as O is: both are rescaled, so O has to wait for it.
            acc = warpgroup_mma_wait(0, deps=[o_token])
            mine.v_ring.release(step)
            acc = acc * correction
            step += 1
        mine.take_turn(step)
        o_token = mine.values(p, acc, step)
        mine.give_turn()
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        step += 1
    return acc, m, l, step


@gluon.jit
def _three_matmuls(mine, q, acc, m, l, rows, clear, total, step):
    """As FlashAttention-3's appendix B.3: S of the block after the next is under way, too, during the softmax."""
    if total < 3:
        acc, m, l, step = _one_after_another(mine, q, acc, m, l, rows, clear, total, step)
    else:
        s_token = mine.scores(q, mine.keys(step))
        s = warpgroup_mma_wait(0, deps=[s_token])
        mine.k_ring.release(step)
        p, m, l, correction = mine.softmax(s, m, l, rows, total - 1, clear)
        s_token = mine.scores(q, mine.keys(step + 1))
        for j in range(total - 2, 0, -1):
            o_token = mine.values(p, acc, step)
            next_token = mine.scores(q, mine.keys(step + 2))
            # P V and the S after this one were issued later: both may be pending.
            s = warpgroup_mma_wait(2, deps=[s_token])
            mine.k_ring.release(step + 1)
            p, m, l, correction = mine.softmax(s, m, l, rows, j, clear)
            acc = warpgroup_mma_wait(1, deps=[o_token])
            mine.v_ring.release(step)
            acc = acc * correction
            s_token = next_token
            step += 1
        o_token = mine.values(p, acc, step)
        s = warpgroup_mma_wait(1, deps=[s_token])
        mine.k_ring.release(step + 1)
        p, m, l, correction = mine.softmax(s, m, l, rows, 0, clear)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step)
        o_token = mine.values(p, acc * correction, step + 1)
        acc = warpgroup_mma_wait(0, deps=[o_token])
        mine.v_ring.release(step + 1)
        step += 2
    return acc, m, l, step


@gluon.jit
def _consumer(
    ME: gl.constexpr, BLOCK_D: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, IN_FLIGHT: gl.constexpr,
    PING_PONG: gl.constexpr, q_ring, k_ring, v_ring, queue, turns, o_desc, L_ptr, per_batch, n_q, n_k, offset, scale,
):  # fmt: skip
    """Rows ME · 64 … of each tile of O: S, its softmax, P V, block of keys by block of keys, the last block first."""
    mine = Warpgroup(k_ring, v_ring, turns, n_k, offset, scale, ME, BLOCK_D, BLOCK_N, CAUSAL, PING_PONG)
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
        l = gl.full([ROWS], 0.0, gl.float32, layout=gl.SliceLayout(1, mine.S_LAYOUT))
        acc = gl.zeros([ROWS, BLOCK_D], gl.float32, layout=mine.O_LAYOUT)
        q = q_ring.wait(n, ROWS, BLOCK_D)
        if IN_FLIGHT == 1:
            acc, m, l, step = _one_after_another(mine, q, acc, m, l, rows, clear, total, step)
        elif IN_FLIGHT == 2:
            acc, m, l, step = _overlapped(mine, q, acc, m, l, rows, clear, total, step)
        else:
            acc, m, l, step = _three_matmuls(mine, q, acc, m, l, rows, clear, total, step)
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
    IN_FLIGHT: gl.constexpr, PING_PONG: gl.constexpr,
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
    k_ring, v_ring = make_ring(k_desc, STAGES, CONSUMERS), make_ring(v_desc, STAGES, CONSUMERS)
    q0, q1 = make_ring(q_desc, 2, 1), make_ring(q_desc, 2, 1)
    q2 = q1
    if CONSUMERS == 3:
        q2 = make_ring(q_desc, 2, 1)
    queue = make_queue(CONSUMERS)
    # No barrier that nobody waits for: the compiler would lay something else in its place (TMA's tiles, the counter's answer), and
    # what lies on a barrier that was made and not invalidated may be lost.
    turns = Turns(queue.full, CONSUMERS)
    if PING_PONG:
        turns = make_turns(CONSUMERS)
    # The barriers were initialised by the threads; without the fence TMA's first bytes could meet them uninitialised.
    fence_async_shared()
    mine = (k_ring, v_ring, queue, turns, o_desc, L_ptr, per_batch, n_q, n_k, offset, scale)
    issued = (k_ring, v_ring, queue, counter_ptr, blocks, heads, per_batch, group, at_once, n_k, offset)
    # Registers per thread, for the warpgroups after the first, which keeps the rest. All start with equal parts, 3 · 168 or 4 · 128;
    # setmaxnreg then moves the producer's to the consumers: 24 + 2 · 240 = 504, 32 + 3 · 160 = 512. A consumer needs them for S and
    # O in fp32, 64 and 64 registers for 128 keys at D = 128, and for P; the producer's one thread holds a few indices.
    # The producer is one warp: of four, some went on with an old answer of the counter where processes took turns on a GPU, and the
    # kernel did not end. (That answer lay on barriers of ``turns``, which were made without ping-pong, too.)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (_consumer, (0, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, PING_PONG, q0) + mine),
                (_consumer, (1, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, PING_PONG, q1) + mine),
                (producer, (BLOCK_M, BLOCK_N, CAUSAL, False, q_desc, k_desc, v_desc, (q0, q1)) + issued),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consumer, (0, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, PING_PONG, q0) + mine),
                (_consumer, (1, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, PING_PONG, q1) + mine),
                (_consumer, (2, BLOCK_D, BLOCK_N, CAUSAL, IN_FLIGHT, PING_PONG, q2) + mine),
                (producer, (BLOCK_M, BLOCK_N, CAUSAL, False, q_desc, k_desc, v_desc, (q0, q1, q2)) + issued),
            ],
            [4, 4, 1],
            [160, 160, 32],
        )

"""The backward pass for Hopper, in Gluon: five matmuls for a block of keys and a block of queries, all in one kernel.

    Sᵀ = K Qᵀ      Pᵀ = exp(scale Sᵀ - L)       dV += Pᵀ dO
    dPᵀ = V dOᵀ    dSᵀ = Pᵀ ∘ (dPᵀ - delta)     dK += dSᵀ Q      dQ += dS K

Keys are stationary, queries are streamed. A tile is 128 keys; two consumers (warpgroups) hold 64 of them each, with their dK and
dV as accumulators; Pᵀ and dSᵀ stay in registers, where they are the left operands of dV and dK. dQ needs dS of all 128 keys,
so each consumer also writes its dSᵀ to shared memory, multiplies half of dQ, one block late, and adds it to memory.
A producer issues TMA loads. Sources: FlashAttention-2 (arXiv 2307.08691), Algorithm 2; FlashAttention-3 (arXiv 2407.08608), section 3.1.
"""

from course_lib.kernels import (
    aggregate,
    async_atomic_add,
    fence_async_shared,
    gl,
    gluon,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from course_lib.kernels.hopper.rings import QueryRing, barriers, make_query_ring, make_queue, make_ring
from course_lib.kernels.hopper.specialised import tile

KEYS = gl.constexpr(64)  # of a consumer: wgmma multiplies 64 rows
TILE = gl.constexpr(128)  # keys of both


@gluon.jit
def _visited(start, offset, n_k, steps, BLOCK_M: gl.constexpr):
    """(first, clear) of the keys from ``start`` on: the first block of queries that sees one; from ``clear`` on all see all.

    Keys that nobody sees visit the last block, all masked.
    """
    first = gl.minimum(gl.maximum(0, start - offset) // BLOCK_M, steps - 1)
    clear = gl.minimum(gl.cdiv(gl.maximum(0, start + TILE - 1 - offset), BLOCK_M), steps)
    if start + TILE > n_k:
        clear = steps
    return first, clear


@gluon.jit
def _producer(
    BLOCK_M: gl.constexpr, q_desc, L_desc, do_desc, delta_desc, k_desc, v_desc, ring, k_ring, v_ring, queue, counter_ptr,
    blocks, heads, per_batch, group, at_once, n_q, n_k, offset,
):  # fmt: skip
    """Choose this program's tiles; load their K and V once, and for each head of the group all queries that see them."""
    t, n, step = gl.program_id(0), 0, 0
    steps = gl.cdiv(n_q, BLOCK_M)
    while t < blocks * heads:
        head, block = tile(t, blocks, heads, at_once, False)  # a causal head's first keys have the most queries
        b, h, start = head // per_batch, head % per_batch, block * TILE
        first, clear = _visited(start, offset, n_k, steps, BLOCK_M)
        queue.put(n, (head, start, first, clear))
        for member in range(group):
            row = (head * group + member) * steps * BLOCK_M  # of L and delta, where heads are padded to whole blocks
            for i in range(first, steps):
                at = i * BLOCK_M
                ring.fill_q(step, q_desc, [b, h * group + member, at, 0], L_desc, row + at)
                if (member == 0) & (i == first):  # after Q, whose buffer is free before those of K and V
                    k_ring.fill(2 * n, k_desc, [b, h, start, 0])
                    k_ring.fill(2 * n + 1, k_desc, [b, h, start + KEYS, 0])
                    v_ring.fill(2 * n, v_desc, [b, h, start, 0])
                    v_ring.fill(2 * n + 1, v_desc, [b, h, start + KEYS, 0])
                ring.fill_do(step, do_desc, [b, h * group + member, at, 0], delta_desc, row + at)
                step += 1
        # Only now: a tile that was chosen long before its turn would wait here while another program has nothing to do.
        t, n = gl.num_programs(0) + gl.atomic_add(counter_ptr, 1, sem="relaxed"), n + 1
    queue.put(n, (-1, 0, 0, 0))  # no more tiles


@aggregate
class Warpgroup:
    """What a consumer works with, and what it does with a block of queries. Scores are transposed: [keys, queries]."""

    ring: QueryRing
    k: gl.shared_memory_descriptor  # [2, 1, 1, 64, D]: both consumers' keys
    v: gl.shared_memory_descriptor
    ds: gl.shared_memory_descriptor  # [4, 64, BLOCK_M]: of each consumer two buffers for its dSᵀ
    written: gl.shared_memory_descriptor  # flips when both consumers have written dSᵀ of a block
    read: gl.shared_memory_descriptor  # … have read it: the dQ of the block is done
    sums: gl.shared_memory_descriptor  # BY_TMA: [4, 128, 32], fp32, of each consumer two buffers for its half of dQ
    dq_desc: gl.nvidia.hopper.tma.tensor_descriptor
    dq_ptr: gl.tensor
    n_k: gl.tensor
    offset: gl.tensor
    scale: gl.tensor
    ME: gl.constexpr
    BLOCK_D: gl.constexpr
    BLOCK_M: gl.constexpr
    FOLDED: gl.constexpr
    BY_TMA: gl.constexpr
    DQ_COLS: gl.constexpr
    S_LAYOUT: gl.constexpr
    KV_LAYOUT: gl.constexpr
    DQ_LAYOUT: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, ring, k, v, ds, written, read, sums, dq_desc, dq_ptr, n_k, offset, scale, ME, BLOCK_D, BLOCK_M, FOLDED
    ):
        self.ring = ring
        self.k = k
        self.v = v
        self.ds = ds
        self.written = written
        self.read = read
        self.sums = sums
        self.dq_desc = dq_desc
        self.dq_ptr = dq_ptr
        self.n_k = n_k
        self.offset = offset
        self.scale = scale
        self.ME = gl.constexpr(ME)
        self.BLOCK_D = gl.constexpr(BLOCK_D)
        self.BLOCK_M = gl.constexpr(BLOCK_M)
        self.FOLDED = gl.constexpr(FOLDED)
        self.BY_TMA = gl.constexpr(BLOCK_D == 128)
        dq_cols = BLOCK_M * BLOCK_D // 128  # a consumer's half of dQ: 64 rows of 128, or half the columns of 64 rows
        self.DQ_COLS = gl.constexpr(dq_cols)
        self.S_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16]))
        self.KV_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16]))
        self.DQ_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, dq_cols, 16]))

    @gluon.jit
    def times(self, x, y, numbers, PLUS: gl.constexpr):
        """Issue x yᵀ for this consumer's keys: Sᵀ = K Qᵀ or dPᵀ = V dOᵀ. PLUS: and a number for each query."""
        start = gl.zeros([KEYS, self.BLOCK_M], gl.float32, layout=self.S_LAYOUT)
        if PLUS:
            start += numbers.load(gl.SliceLayout(0, self.S_LAYOUT))[None, :]
        x = x.index(self.ME).reshape([KEYS, self.BLOCK_D])
        return warpgroup_mma(x, y.permute((1, 0)), start, use_acc=PLUS, is_async=True)

    @gluon.jit
    def probabilities(self, s, L, first_key, first_query, masked):
        """Pᵀ = exp(scale Sᵀ - L), in powers of two. L is +inf, and P 0, beyond the last query and where it sees no key."""
        s = s * self.scale
        if not self.FOLDED:
            s -= L.load(gl.SliceLayout(0, self.S_LAYOUT))[None, :]
        p = gl.exp2(s)
        if masked:
            keys = first_key + self.ME * KEYS + gl.arange(0, KEYS, layout=gl.SliceLayout(1, self.S_LAYOUT))
            # key j is seen from query j - offset on, a key beyond the last by none
            seen_from = gl.where(keys < self.n_k, keys - self.offset - first_query, self.BLOCK_M)
            queries = gl.arange(0, self.BLOCK_M, layout=gl.SliceLayout(0, self.S_LAYOUT))
            p = gl.where(seen_from[:, None] <= queries[None, :], p, 0.0)
        return p

    @gluon.jit
    def left(self, x):
        """Pᵀ or dSᵀ as the left operand of a matmul, in the registers where it is."""
        return gl.convert_layout(x, gl.DotOperandLayout(0, self.KV_LAYOUT, 2))

    @gluon.jit
    def exchange(self, ds, step, FIRST: gl.constexpr):
        """Write dSᵀ of this step; return when both consumers have written that of the step before.

        An mbarrier tells a phase only from the one before it, so each wait names the last phase that this consumer has not
        left behind: of ``read`` two steps back, as dQ is one step late, but one step back where a head begins.
        """
        mbarrier.wait(self.read.index(0), (step - 1 if FIRST else step) & 1)
        self.ds.index(2 * self.ME + step % 2).store(ds)
        fence_async_shared()  # for wgmma, and for TMA, which may refill where L and delta were read
        mbarrier.wait(self.written.index(0), (step - 1) & 1)
        mbarrier.arrive(self.written.index(0), count=1)

    @gluon.jit
    def dqueries(self, step):
        """Issue this consumer's half of dQ = dS K for this step, over the keys of both."""
        HALF: gl.constexpr = self.ME * 64
        ds0, ds1 = self.ds.index(step % 2), self.ds.index(2 + step % 2)
        k0, k1 = self.k.index(0).reshape([KEYS, self.BLOCK_D]), self.k.index(1).reshape([KEYS, self.BLOCK_D])
        if self.BLOCK_M == 128:
            ds0, ds1 = ds0.slice(HALF, 64, 1), ds1.slice(HALF, 64, 1)
        else:
            k0, k1 = k0.slice(HALF, 64, 1), k1.slice(HALF, 64, 1)
        dq = gl.zeros([64, self.DQ_COLS], gl.float32, layout=self.DQ_LAYOUT)
        dq = warpgroup_mma(ds0.permute((1, 0)), k0, dq, use_acc=False, is_async=True)
        return warpgroup_mma(ds1.permute((1, 0)), k1, dq, is_async=True)

    @gluon.jit
    def add(self, dq, block, step):
        """Add this consumer's half of dQ to memory, in the order in which a warpgroup's registers hold it; dS has been read.

        So four neighbours of a thread are stored or added (red.v4.f32) at once, and a warp adds to 512 bytes without gaps.
        """
        COLS: gl.constexpr = self.DQ_COLS
        dq = dq.reshape([4, 2, 8, COLS // 8, 4, 2]).permute((3, 0, 2, 4, 1, 5)).reshape([COLS * 2, 32])
        if self.BY_TMA:
            mbarrier.arrive(self.read.index(0), count=1)
            buffer = self.sums.index(2 * self.ME + step % 2)
            tma.store_wait(1)  # what was in it has left
            buffer.store(dq)
            fence_async_shared()
            async_atomic_add(self.dq_desc, [(2 * block + self.ME) * (2 * COLS), 0], buffer)
        else:
            rows = gl.arange(0, COLS * 2, layout=gl.SliceLayout(1, dq.type.layout))
            cols = gl.arange(0, 32, layout=gl.SliceLayout(0, dq.type.layout))
            half = (2 * block + self.ME).to(gl.int64) * (64 * COLS)
            gl.atomic_add(self.dq_ptr + half + rows[:, None] * 32 + cols[None, :], dq, sem="relaxed")
            mbarrier.arrive(
                self.read.index(0), count=1
            )  # here, as before the additions it costs 5 % (a short run on an H200)


@gluon.jit
def _block(mine, dk, dv, step, block, first_key, first_query, masked, FIRST: gl.constexpr):
    """(dk, dv) with one more block of queries; dQ of the block before, unless this is the FIRST of its head."""
    q, L = mine.ring.wait_q(step, mine.BLOCK_M, mine.BLOCK_D)
    s_token = mine.times(mine.k, q, L, mine.FOLDED)  # Sᵀ = K Qᵀ, FOLDED: - L / scale
    do, delta = mine.ring.wait_do(step, mine.BLOCK_M, mine.BLOCK_D)
    dp_token = mine.times(mine.v, do, delta, True)  # dPᵀ - delta = V dOᵀ - delta
    s = warpgroup_mma_wait(1, deps=[s_token])
    p = mine.probabilities(s, L, first_key, first_query, masked)
    p16 = mine.left(p.to(q.dtype))
    dp = warpgroup_mma_wait(0, deps=[dp_token])
    ds = (p * dp).to(q.dtype)
    mine.exchange(ds, step, FIRST)
    if FIRST:
        dv_token = warpgroup_mma(p16, do, dv, is_async=True)  # dV += Pᵀ dO
        dk_token = warpgroup_mma(mine.left(ds), q, dk, is_async=True)  # dK += dSᵀ Q
    else:
        dq_token = mine.dqueries(step - 1)  # dQ += dS K
        dv_token = warpgroup_mma(p16, do, dv, is_async=True)
        dk_token = warpgroup_mma(mine.left(ds), q, dk, is_async=True)
        dq = warpgroup_mma_wait(2, deps=[dq_token])
        mine.add(dq, block - 1, step - 1)
    dk, dv = warpgroup_mma_wait(0, deps=[dk_token, dv_token])
    mine.ring.release(step)
    return dk, dv


@gluon.jit
def _consumer(
    ME: gl.constexpr, BLOCK_D: gl.constexpr, BLOCK_M: gl.constexpr, FOLDED: gl.constexpr, GROUPED: gl.constexpr,
    ring, k_ring, v_ring, ds, written, read, sums, out, queue, dq_desc, dq_ptr, dk_desc, dv_desc, per_batch, group, n_q, n_k, offset,
    scale_log2, scale,
):  # fmt: skip
    """dK and dV of keys ME · 64 … of each tile, head by head of the group, block of queries by block of queries."""
    mine = Warpgroup(
        ring, k_ring.tiles, v_ring.tiles, ds, written, read, sums, dq_desc, dq_ptr, n_k, offset, scale_log2, ME, BLOCK_D, BLOCK_M, FOLDED,
    )  # fmt: skip
    steps = gl.cdiv(n_q, BLOCK_M)
    n, step = 0, 0
    head, first_key, first, clear = queue.get(0)
    while head >= 0:
        dk = gl.zeros([KEYS, BLOCK_D], gl.float32, layout=mine.KV_LAYOUT)
        dv = gl.zeros([KEYS, BLOCK_D], gl.float32, layout=mine.KV_LAYOUT)
        k_ring.wait(2 * n, KEYS, BLOCK_D)
        k_ring.wait(2 * n + 1, KEYS, BLOCK_D)
        v_ring.wait(2 * n + ME, KEYS, BLOCK_D)
        if mine.BY_TMA:
            tma.store_wait(0)  # dV and dK of the tile before have left their place, which is that of dQ's sums
        members = group if GROUPED else 1
        for member in range(members):
            here = (head * group + member) * steps  # blocks of queries, counted over all heads
            since = step - first
            dk, dv = _block(mine, dk, dv, step, here + first, first_key, first * BLOCK_M, first < clear, True)
            for i in range(first + 1, clear):
                dk, dv = _block(mine, dk, dv, since + i, here + i, first_key, i * BLOCK_M, True, False)
            for i in range(gl.maximum(first + 1, clear), steps):
                dk, dv = _block(mine, dk, dv, since + i, here + i, first_key, i * BLOCK_M, False, False)
            step = since + steps
            mbarrier.wait(written.index(0), (step - 1) & 1)
            dq = warpgroup_mma_wait(0, deps=[mine.dqueries(step - 1)])
            if member == members - 1:  # before dQ is added: the next tile's K and V take their time
                k_ring.release(2 * n)
                k_ring.release(2 * n + 1)
                v_ring.release(2 * n + ME)
            mine.add(dq, here + steps - 1, step - 1)
        tma.store_wait(0)  # what was there last, dV and dK or dQ's sums, has left
        b, h = head // per_batch, head % per_batch
        out.index(2 * ME).reshape([KEYS, BLOCK_D]).store(dv.to(out.dtype))
        out.index(2 * ME + 1).reshape([KEYS, BLOCK_D]).store((dk * scale).to(out.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dv_desc, [b, h, first_key + ME * KEYS, 0], out.index(2 * ME))
        tma.async_copy_shared_to_global(dk_desc, [b, h, first_key + ME * KEYS, 0], out.index(2 * ME + 1))
        n += 1
        head, first_key, first, clear = queue.get(n)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["heads", "per_batch", "group", "at_once", "n_q", "n_k", "offset"])
def backward_kernel(
    q_desc, L_desc, do_desc, delta_desc, k_desc, v_desc, dk_desc, dv_desc, dq_desc, dq_ptr, counter_ptr, heads, per_batch, group,
    at_once, n_q, n_k, offset, scale_log2, scale, BLOCK_D: gl.constexpr, BLOCK_M: gl.constexpr, BUFFERS: gl.constexpr,
    FOLDED: gl.constexpr, GROUPED: gl.constexpr,
):  # fmt: skip
    """A persistent program: tiles of 128 keys of a head of k and v, the next one from a counter in memory (0 at the start).

    By descriptors, q and do [B, H, Nq, D] in blocks of BLOCK_M rows, k, v, dk, dv [B, H / group, Nk, D] in blocks of 64, and
    L and delta [B · H · steps · BLOCK_M], steps = ⌈Nq / BLOCK_M⌉. dq is fp32 in blocks of 128 × 32 (``Warpgroup.add``), not
    scaled, 0 at the start.
    ``heads``: those of k and v, over the batch. dP's accumulator starts from delta, which comes as -delta. FOLDED: that of S from
    L, which comes as -L / scale; otherwise as L · log2 e. L is +inf (FOLDED: -inf) where P has to be 0.
    """
    blocks = gl.cdiv(n_k, TILE)
    k_ring, v_ring = make_ring(k_desc, 2, 2), make_ring(v_desc, 2, 1)
    ring = make_query_ring(q_desc, L_desc, BUFFERS)
    ds = gl.allocate_shared_memory(q_desc.dtype, [4, KEYS, BLOCK_M], gl.NVMMASharedLayout(128, 16, 2))
    out = gl.allocate_shared_memory(q_desc.dtype, [4, 1, 1, KEYS, BLOCK_D], dk_desc.layout)
    # TMA adds dQ at D = 128: from where dV and dK will lie, as there is no more room. At D = 64 threads add it themselves, which costs
    # less than what TMA's way does (0.89 to 0.98 times the speed in short runs on an H200).
    sums = out
    if BLOCK_D == 128:
        sums = out._reinterpret(gl.float32, [4, 128, 32], dq_desc.layout)
    written, read = barriers(1, 2), barriers(1, 2)
    queue = make_queue(2)
    fence_async_shared()  # TMA sees the barriers
    mine = (
        ring, k_ring, v_ring, ds, written, read, sums, out, queue, dq_desc, dq_ptr, dk_desc, dv_desc, per_batch, group, n_q, n_k, offset,
        scale_log2, scale,
    )  # fmt: skip
    issued = (q_desc, L_desc, do_desc, delta_desc, k_desc, v_desc, ring, k_ring, v_ring)
    # The producer is four warps, where ``specialised_kernel`` says why its own is one: here one makes the consumers spill more, and costs
    # 2 to 8 % (short runs on an H200). While processes shared a GPU this kernel has always ended; nothing lies on its barriers.
    gl.warp_specialize(
        [
            (_consumer, (0, BLOCK_D, BLOCK_M, FOLDED, GROUPED) + mine),
            (_consumer, (1, BLOCK_D, BLOCK_M, FOLDED, GROUPED) + mine),
            (
                _producer,
                (BLOCK_M,) + issued + (queue, counter_ptr, blocks, heads, per_batch, group, at_once, n_q, n_k, offset),
            ),
        ],
        [4, 4],
        [240, 24],
    )

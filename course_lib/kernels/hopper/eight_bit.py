"""The specialised kernel with two matmuls in flight, for 8-bit numbers.

Tensor cores take 8-bit operands from shared memory only with the summed dimension last: so V comes transposed. A thread's share of P
as an operand is not its share of S; the keys of V are stored in the order in which P lies. Sums of e4m3 products keep 13 bits
below the largest addend (recording eight_bit_sums): so P V of each block is summed by itself and added to O in float32.
Source: FlashAttention-3 (arXiv 2407.08608), section 3.3, whose kernel transposes and permutes V on the way.
"""

from course_lib.kernels import LOG2E, fence_async_shared, gl, gluon, tma, warpgroup_mma, warpgroup_mma_wait
from course_lib.kernels.hopper import named
from course_lib.kernels.hopper.rings import make_named_ring, make_queue, make_ring
from course_lib.kernels.hopper.specialised import ROWS, producer


@gluon.jit
def _packed(p, O_LAYOUT: gl.constexpr):
    """P [64, N], float32, as e4m3, four numbers in an int32 [64, N / 4], which are a thread's part of the operand.

    Written out, as the compiler carries tensors of 8 bits from iteration to iteration with one number in a register.
    """
    ROWS: gl.constexpr = p.shape[0]
    N: gl.constexpr = p.shape[1]
    p = p.reshape([ROWS, N // 16, 2, 4, 2]).permute((0, 1, 3, 2, 4)).reshape([ROWS, N])
    p = gl.convert_layout(p, gl.DotOperandLayout(0, O_LAYOUT, 4), assert_trivial=True)  # no thread gives anything away
    even, odd = p.reshape([ROWS, N // 4, 2, 2]).split()
    a, c = even.split()
    b, d = odd.split()
    return gl.inline_asm_elementwise(
        """{
            .reg .b16 low, high;
            cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;
            cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;
            mov.b32 $0, {low, high};
        }""",
        "=r,r,r,r,r", [a, b, c, d], dtype=gl.int32, is_pure=True, pack=1,
    )  # fmt: skip


@gluon.jit
def _operand(packed, O_LAYOUT: gl.constexpr):
    """[64, N] in e4m3 of what ``_packed`` made: the same registers."""
    ROWS: gl.constexpr = packed.shape[0]
    N: gl.constexpr = packed.shape[1] * 4
    four = packed[:, :, None].broadcast_to([ROWS, N // 4, 4]).reshape([ROWS, N])
    four = gl.convert_layout(four, gl.DotOperandLayout(0, O_LAYOUT, 4), assert_trivial=True)
    return gl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r,r,r,r", [four], dtype=gl.float8e4nv, is_pure=False, pack=4
    )


@gluon.jit
def _softmax(
    s, m, l, rows, j, clear, n_k, offset, scale, shift, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, s_layout: gl.constexpr,
    o_layout: gl.constexpr,
):  # fmt: skip
    """(P · 2^shift, m, l, correction) after block j of keys; m in powers of two, scaled; l [64, 4]: each thread's own sum."""
    scale = gl.maximum(scale, 1e-37)  # above 0: masked scores stay -inf
    if j >= clear:
        keys = j * BLOCK_N + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, s_layout))
        seen = (keys < n_k)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + offset)
        s = gl.where(seen, s, -float("inf"))
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    base = gl.where(m_new > -float("inf"), m_new, 0.0)
    p = gl.exp2(s * scale - (base - shift)[:, None])
    correction = gl.exp2(m - base)
    own = gl.sum(gl.sum(p.reshape([ROWS, BLOCK_N // 8, 4, 2]), 3), 1)
    l = l * gl.convert_layout(correction, gl.SliceLayout(1, l.type.layout))[:, None] + gl.convert_layout(
        own * gl.exp2(-shift), l.type.layout, assert_trivial=True
    )
    return _packed(p, o_layout), m_new, l, gl.convert_layout(correction, gl.SliceLayout(1, o_layout))[:, None]


@gluon.jit
def _consumer(
    ME: gl.constexpr, BLOCK_D: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, q_ring, k_ring,
    v_ring, queue, o_smem, o_desc, L_ptr, qs_ptr, ks_ptr, shift_ptr, top_ptr, per_batch, group, n_q, n_k, offset, scale,
):  # fmt: skip
    """Rows ME · 64 … of each tile of O."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 32])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 32])
    # A thread's part of [64, 4]: one number of each of its two rows.
    l_layout: gl.constexpr = gl.DistributedLinearLayout(
        reg_bases=[[8, 0]], lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp_bases=[[16, 0], [32, 0]], block_bases=[],
        shape=[64, 4],
    )  # fmt: skip
    n, step = 0, 0
    b, h, start, total = queue.get(0)
    while total >= 0:
        start += ME * ROWS
        clear = n_k
        if CAUSAL:
            clear = gl.maximum(0, gl.minimum(n_k, start + offset + 1))
        clear = clear // BLOCK_N
        rows = start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, s_layout))
        m = gl.full([ROWS], -float("inf"), gl.float32, layout=gl.SliceLayout(1, s_layout))
        l = gl.zeros([ROWS, 4], gl.float32, layout=l_layout)
        acc = gl.zeros([ROWS, BLOCK_D], gl.float32, layout=o_layout)
        zero = gl.zeros([ROWS, BLOCK_N], gl.float32, layout=s_layout)
        zero_o = gl.zeros([ROWS, BLOCK_D], gl.float32, layout=o_layout)
        head, kv_head = b * per_batch + h, b * (per_batch // group) + h // group
        kv = kv_head * ((n_k + BLOCK_N - 1) // BLOCK_N)
        # Rows beyond the last have no block of their own.
        q_scale = scale * gl.load(qs_ptr + head * ((n_q + ROWS - 1) // ROWS) + gl.minimum(start, n_q - 1) // ROWS)
        q = q_ring.wait(n, ROWS, BLOCK_D)
        if total > 0:
            k = k_ring.wait(step, BLOCK_N, BLOCK_D).permute((1, 0))
            s_token = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
            k_scale, shift = gl.load(ks_ptr + kv + total - 1), gl.load(shift_ptr + kv + total - 1)
            s = warpgroup_mma_wait(0, deps=[s_token])
            k_ring.release(step)
            p, m, l, correction = _softmax(
                s, m, l, rows, total - 1, clear, n_k, offset, q_scale * k_scale, shift, BLOCK_N, CAUSAL, s_layout, o_layout
            )  # fmt: skip
            for j in range(total - 2, -1, -1):
                operand = _operand(p, o_layout)
                k = k_ring.wait(step + 1, BLOCK_N, BLOCK_D).permute((1, 0))
                s_token = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
                v = v_ring.wait(step, BLOCK_D, BLOCK_N).permute((1, 0))
                o_token = warpgroup_mma(operand, v, zero_o, use_acc=False, is_async=True)
                k_scale, shift = gl.load(ks_ptr + kv + j), gl.load(shift_ptr + kv + j)
                s = warpgroup_mma_wait(1, deps=[s_token])
                before, factor = p, correction
                p, m, l, correction = _softmax(
                    s, m, l, rows, j, clear, n_k, offset, q_scale * k_scale, shift, BLOCK_N, CAUSAL, s_layout, o_layout
                )
                k_ring.release_after(step + 1, m)  # keeps the wait for P V behind the new maximum
                o, _ = warpgroup_mma_wait(0, deps=[o_token, before])
                v_ring.release(step)
                acc = acc * factor + o
                step += 1
            v = v_ring.wait(step, BLOCK_D, BLOCK_N).permute((1, 0))
            o_token = warpgroup_mma(_operand(p, o_layout), v, zero_o, use_acc=False, is_async=True)
            acc = acc * correction + warpgroup_mma_wait(0, deps=[o_token])
            v_ring.release(step)
            step += 1
        q_ring.release(n)
        l = gl.convert_layout(gl.sum(l, 1), gl.SliceLayout(1, s_layout))
        l = gl.where(l == 0, 1.0, l)  # a row that saw no key; NaN stays
        inverse = gl.convert_layout(gl.load(top_ptr + kv_head) / l, gl.SliceLayout(1, o_layout))
        tma.store_wait(0)  # what the last tile left in o_smem is on its way
        o_smem.index(ME).reshape([ROWS, BLOCK_D]).store((acc * inverse[:, None]).to(o_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [b, h, start, 0], o_smem.index(ME))
        gl.store(L_ptr + head.to(gl.int64) * n_q + rows, (m + gl.log2(l)) / LOG2E, mask=rows < n_q)
        n += 1
        b, h, start, total = queue.get(n)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["heads", "per_batch", "group", "at_once", "n_q", "n_k", "offset"])
def eight_bit_kernel(
    q_desc, k_desc, v_desc, o_desc, L_ptr, counter_ptr, qs_ptr, ks_ptr, shift_ptr, top_ptr, heads, per_batch, group, at_once,
    n_q, n_k, offset, scale, BLOCK_D: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    """A persistent program of two consumers, as ``specialised_kernel``; q_scale for 64 rows, the others for BLOCK_N keys."""
    gl.static_assert(STAGES >= 2, "with one buffer no load runs ahead")
    BLOCK_M: gl.constexpr = 2 * ROWS
    blocks = gl.cdiv(n_q, BLOCK_M)
    k_ring, v_ring = (
        make_named_ring(k_desc, STAGES, 2, named.K_EMPTY),
        make_named_ring(v_desc, STAGES, 2, named.V_EMPTY),
    )
    q0, q1 = make_ring(q_desc, 2, 1), make_ring(q_desc, 2, 1)
    o_smem = gl.allocate_shared_memory(o_desc.dtype, [2, 1, 1, ROWS, BLOCK_D], o_desc.layout)
    queue = make_queue(2)
    fence_async_shared()
    mine = (
        k_ring,
        v_ring,
        queue,
        o_smem,
        o_desc,
        L_ptr,
        qs_ptr,
        ks_ptr,
        shift_ptr,
        top_ptr,
        per_batch,
        group,
        n_q,
        n_k,
        offset,
        scale,
    )
    asked = (k_ring, v_ring, queue, counter_ptr, blocks, heads, per_batch, group, at_once, n_k, offset)
    gl.warp_specialize(
        [
            (_consumer, (0, BLOCK_D, BLOCK_N, CAUSAL, q0) + mine),
            (_consumer, (1, BLOCK_D, BLOCK_N, CAUSAL, q1) + mine),
            (producer, (BLOCK_M, BLOCK_N, CAUSAL, True, q_desc, k_desc, v_desc, (q0, q1)) + asked),
        ],
        [4, 1],
        [240, 24],
    )

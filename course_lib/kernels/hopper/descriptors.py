"""Rungs 5 and 6, with TMA descriptors: tiles whose loads one thread issues; a persistent grid with a queue of tiles.

A descriptor holds a tensor's address, shape and strides; TMA turns (head, row, column) into addresses, and rows
beyond the end are zeros. Sources: FlashAttention-3 (arXiv 2407.08608), section 3.1; Hopper tuning guide, "TMA".
"""

from course_lib.kernels import LOG2E, tl, triton


@triton.jit
def _tile(t, blocks, heads, at_once, CAUSAL: tl.constexpr):
    """(head, block of rows) of tile t: ``at_once`` heads, whose K and V fit L2; of these the longest rows first."""
    first = t // (at_once * blocks) * at_once
    here = tl.minimum(at_once, heads - first)
    rest = t - first * blocks
    block = rest // here
    if CAUSAL:
        block = blocks - 1 - block
    return first + rest % here, block


@triton.jit
def _block(
    q, acc, m, l, k_desc, v_desc, kv_head, start, rows, n_k, offset, scale, BLOCK_N: tl.constexpr, D: tl.constexpr,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    k = k_desc.load([kv_head, start, 0]).reshape(BLOCK_N, D)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [BLOCK_M, BLOCK_N], in powers of two
    if MASKED:
        keys = start + tl.arange(0, BLOCK_N)
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + offset)
        s = tl.where(seen, s, -float("inf"))
    m_new = tl.maximum(m, tl.max(s, 1))
    shift = tl.where(m_new > -float("inf"), m_new, 0.0) if MASKED else m_new
    p = tl.exp2(s - shift[:, None])
    correction = tl.exp2(m - shift)
    l = l * correction + tl.sum(p, 1)
    v = v_desc.load([kv_head, start, 0]).reshape(BLOCK_N, D)
    acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None], input_precision="ieee")
    return acc, m_new, l


@triton.jit(do_not_specialize=["heads", "group", "at_once", "n_q", "n_k", "offset"])
def descriptor_kernel(
    q_desc, k_desc, v_desc, o_desc, L_ptr, counter_ptr, heads, group, at_once, n_q, n_k, offset, scale, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """One program per tile; or, persistent, tile after tile, the next one from a counter in memory (0 at the start).

    q and o [H, Nq, D], k and v [H / group, Nk, D] by descriptors of [1, BLOCK, D] blocks, L [H, Nq].
    """
    blocks = tl.cdiv(n_q, BLOCK_M)
    t = tl.program_id(0)
    while t < blocks * heads:
        head, block = _tile(t, blocks, heads, at_once, CAUSAL) if PERSISTENT else (t // blocks, t % blocks)
        rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
        q = q_desc.load([head, block * BLOCK_M, 0]).reshape(BLOCK_M, D)
        acc = tl.zeros([BLOCK_M, D], tl.float32)
        m = tl.full([BLOCK_M], -float("inf"), tl.float32)
        l = tl.zeros([BLOCK_M], tl.float32)
        clear, end = n_k, n_k
        if CAUSAL:
            end = tl.maximum(0, tl.minimum(n_k, (block + 1) * BLOCK_M + offset))
            clear = tl.maximum(0, tl.minimum(n_k, block * BLOCK_M + offset + 1))
        clear = clear // BLOCK_N * BLOCK_N
        for start in range(0, clear, BLOCK_N):
            acc, m, l = _block(
                q, acc, m, l, k_desc, v_desc, head // group, start, rows, n_k, offset, scale, BLOCK_N, D, CAUSAL, False
            )
        for start in range(clear, end, BLOCK_N):
            acc, m, l = _block(
                q, acc, m, l, k_desc, v_desc, head // group, start, rows, n_k, offset, scale, BLOCK_N, D, CAUSAL, True
            )
        l = tl.where(m > -float("inf"), l, 1.0)
        o = (acc / l[:, None]).to(o_desc.dtype)
        o_desc.store([head, block * BLOCK_M, 0], o.reshape(1, BLOCK_M, D))
        tl.store(L_ptr + head.to(tl.int64) * n_q + rows, m / LOG2E + tl.log(l), mask=rows < n_q)
        t = tl.num_programs(0) + tl.atomic_add(counter_ptr, 1) if PERSISTENT else blocks * heads

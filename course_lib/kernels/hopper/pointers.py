"""Rungs 1 to 4, with pointers: the Online kernel for many heads; powers of two; blocks to fit; a causal loop in two parts.

Sources: FlashAttention-2 (arXiv 2307.08691), Algorithm 1 and section 3.1 (causal masking by blocks).
"""

from course_lib.kernels import LOG2E, tl, triton


@triton.jit
def _block(
    q, acc, m, l, k_ptr, v_ptr, start, rows, n_k, offset, scale, D: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, EXP2: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One block of keys: (acc, m, l) after it. ``MASKED``: it may hold keys that some row does not see."""
    keys = start + tl.arange(0, BLOCK_N)
    at = keys[:, None] * D + tl.arange(0, D)[None, :]
    if MASKED:
        k = tl.load(k_ptr + at, mask=keys[:, None] < n_k, other=0.0)  # [BLOCK_N, D]
        v = tl.load(v_ptr + at, mask=keys[:, None] < n_k, other=0.0)  # [BLOCK_N, D]
    else:
        k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [BLOCK_M, BLOCK_N]
    if MASKED:
        seen = keys[None, :] < n_k
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None] + offset)
        s = tl.where(seen, s, -float("inf"))
    m_new = tl.maximum(m, tl.max(s, 1))
    shift = tl.where(m_new > -float("inf"), m_new, 0.0) if MASKED else m_new  # a row may have seen no key yet
    if EXP2:  # scale holds log2 e, and scores are powers of two
        p = tl.exp2(s - shift[:, None])
        correction = tl.exp2(m - shift)
    else:
        p = tl.exp(s - shift[:, None])
        correction = tl.exp(m - shift)
    l = l * correction + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None], input_precision="ieee")
    return acc, m_new, l


@triton.jit
def pointer_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, L_ptr, group, n_q, n_k, offset, scale, D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EXP2: tl.constexpr, SKIP_BLOCKS: tl.constexpr,
):  # fmt: skip
    """One program: one block of queries of one head. q and o [H, Nq, D], k and v [H / group, Nk, D], L [H, Nq]."""
    blocks = tl.cdiv(n_q, BLOCK_M)
    block, head = tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    at = head * n_q * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < n_q, other=0.0)  # [BLOCK_M, D]
    k_ptr += head // group * n_k * D
    v_ptr += head // group * n_k * D
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    clear, end = 0, n_k
    if SKIP_BLOCKS:  # blocks that all rows see need no mask, blocks that no row sees need no visit
        clear = n_k
        if CAUSAL:
            end = tl.maximum(0, tl.minimum(n_k, (block + 1) * BLOCK_M + offset))
            clear = tl.maximum(0, tl.minimum(n_k, block * BLOCK_M + offset + 1))
        clear = clear // BLOCK_N * BLOCK_N
        for start in range(0, clear, BLOCK_N):
            acc, m, l = _block(
                q, acc, m, l, k_ptr, v_ptr, start, rows, n_k, offset, scale, D, BLOCK_N, CAUSAL, EXP2, False
            )
    for start in range(clear, end, BLOCK_N):
        acc, m, l = _block(q, acc, m, l, k_ptr, v_ptr, start, rows, n_k, offset, scale, D, BLOCK_N, CAUSAL, EXP2, True)
    l = tl.where(m > -float("inf"), l, 1.0)  # a row that saw no key: its acc is 0 and its L is -inf
    tl.store(o_ptr + at, (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < n_q)
    L = m / LOG2E + tl.log(l) if EXP2 else m + tl.log(l)
    tl.store(L_ptr + head * n_q + rows, L, mask=rows < n_q)

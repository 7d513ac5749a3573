from course_lib.kernels import tl, triton


@triton.jit
def right_with_k_transposed(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    here = rows[:, None] < n_q
    kv_ptr = (head - head % group) // group * n_k * D
    q = tl.load(q_ptr + head * n_q * D + rows[:, None] * D + dims[None, :], mask=here, other=0.0) * scale
    acc = tl.zeros([BLOCK, D], tl.float32)
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK], tl.float32)
    for start in range(0, tl.cdiv(n_k, BLOCK)):
        keys = start * BLOCK + tl.arange(0, BLOCK)
        kt = tl.load(k_ptr + kv_ptr + keys[None, :] * D + dims[:, None], mask=keys[None, :] < n_k, other=0.0)
        s = tl.where(keys[None, :] < n_k, tl.dot(q, kt, input_precision="ieee"), float("-inf"))
        new = tl.maximum(tl.max(s, axis=1), m)
        p = tl.exp(s - new[:, None])
        c = tl.exp(m - new)
        m = new
        v = tl.load(v_ptr + kv_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        acc = tl.dot(p, v, acc * c[:, None], input_precision="ieee")
        l = l * c + tl.sum(p, axis=1)
    tl.store(o_ptr + head * n_q * D + rows[:, None] * D + dims[None, :], acc / l[:, None], mask=here)


@triton.jit
def wrong_only_the_head(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """the other still shows once a spike has passed"""
    head, rows, dims = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q_at = (head * n_q + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=rows[:, None] < n_q, other=0.0)
    acc, l = tl.zeros([BLOCK, D], tl.float32), tl.zeros([BLOCK], tl.float32)
    m = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, n_k, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        kv_at = (head // group * n_k + keys[:, None]) * D + dims[None, :]
        k = tl.load(k_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=keys[:, None] < n_k, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(keys[None, :] < n_k, s, -float("inf"))
        m_new = tl.max(s, 1)
        p, correction = tl.exp(s - m_new[:, None]), tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + q_at, acc / l[:, None], mask=rows[:, None] < n_q)

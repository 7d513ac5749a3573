from course_lib.kernels import tl, triton


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr, OF_BLOCK: tl.constexpr
):
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
        new = tl.max(s, axis=1) if OF_BLOCK else tl.maximum(tl.max(s, axis=1), m)
        p = tl.exp(s - new[:, None])
        c = tl.exp(m - new)
        m = new
        v = tl.load(v_ptr + kv_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        acc = tl.dot(p, v, acc * c[:, None], input_precision="ieee")
        l = l * c + tl.sum(p, axis=1)
    tl.store(o_ptr + head * n_q * D + rows[:, None] * D + dims[None, :], acc / l[:, None], mask=here)


@triton.jit
def right_with_k_transposed(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D, BLOCK, False)


@triton.jit
def wrong_only_the_head(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """the other still shows once a spike has passed"""
    _attention(q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, group, scale, D, BLOCK, True)

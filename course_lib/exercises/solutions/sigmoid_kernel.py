"""Solution of sigmoid_kernel."""

SOURCE = '''
@triton.jit
def sigmoid_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, n_q, n_k, scale, bias,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """O [n_q, DV] = sigmoid(scale · Q Kᵀ + bias) V, float32; BLOCK_M rows of O per program."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims, wide = tl.arange(0, D), tl.arange(0, DV)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n_q, other=0.0)
    acc = tl.zeros([BLOCK_M, DV], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n_k, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * DV + wide[None, :], mask=keys[:, None] < n_k, other=0.0)
        x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale + bias
        p = 1 / (1 + tl.exp(-x))
        acc = tl.dot(p, v, acc, input_precision="ieee")
    tl.store(o_ptr + rows[:, None] * DV + wide[None, :], acc, mask=rows[:, None] < n_q)
'''

EXPLANATION = """
Neither a maximum nor a sum: a weight is final when its score is known, so no block has to know of another, and the kernel is Lite without
its one wrong line. Keys beyond the end have the weight sigmoid(bias), but their rows of V are zeros. For large x, e^x / (1 + e^x)
is ∞ / ∞; 1 / (1 + e^(−x)) has no such place, because its exponential overflows only where the weight is 0. What softmax costs is just this:
its weights have to sum to 1, and so each depends on all the others.
"""

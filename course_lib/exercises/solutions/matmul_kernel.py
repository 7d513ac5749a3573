"""Solution of matmul_kernel."""

SOURCE = '''
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """C [M, N] = A [M, K] Bᵀ with B [N, K], float32; one tile of C per program."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0)
        b = tl.load(b_ptr + cols[None, :] * K + inner[:, None], mask=(inner[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))
'''

EXPLANATION = """
One line differs from the lecture's kernel: in the address of B the column of C counts rows of B, cols · K, and the inner index goes along
them. The tile in the program is [inner, cols] all the same, because a table of addresses may have any order. Along K the masks
matter most: without them the last tiles go on with the first numbers of the next rows, and their products join the sum without any error.
Along M and N a wrong number would only land outside of C, where the store's mask drops it.
"""

"""Solution of launch_it."""

SOURCE = '''
def launch_it(kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, shared_bytes: int) -> torch.Tensor:
    """O [batch, n_q, heads, d] from one launch of the kernel, in q's format."""
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    batch, n_q, heads, d = q.shape
    n_k, kv_heads = k.shape[1], k.shape[2]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    width = 16
    while width < d:
        width *= 2
    row = width * q.element_size()
    stages = max(1, min(4, (shared_bytes - 32 * row) // (2 * 16 * row)))
    strides = [stride for x in (q, k, v, o) for stride in x.stride()[:3]]
    kernel[(-(-n_q // 32), batch * heads)](
        q, k, v, o, heads, heads // kv_heads, n_q, n_k, d, d**-0.5, *strides,
        CAUSAL=causal, D=width, BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=stages,
    )
    return o
'''

EXPLANATION = """
A launcher is dull until it is wrong: most of its mistakes pass a test with one head of 128 tokens, one after another in memory. Strides
belong to a tensor and not to a shape, so they are asked of each, O included; slices and transposes keep the shape and change them. The
grid rounds up, because a ragged block needs a program, too. A stage more than fits is refused by a GPU at the launch, a stage less costs
time that nobody sees. To run it on tensors of your own: `launch_it(batched.attention_kernel, q, k, v, True, 99 * 1024)`.
"""

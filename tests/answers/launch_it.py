import math

import torch

from course_lib.kernels import triton


def right_with_named_strides(kernel, q, k, v, causal, shared_bytes):
    parts = [x.contiguous() if x.stride(3) > 1 else x for x in (q, k, v)]
    q, k, v = parts
    b, m, h, d = q.shape
    _, n, g, _ = k.shape
    o = torch.zeros(q.shape).to(q)
    width = max(16, triton.next_power_of_2(d))
    stages = 1
    while stages < 4 and (32 + (stages + 1) * 32) * width * q.dtype.itemsize <= shared_bytes:
        stages += 1
    where = ()
    for x in (q, k, v, o):
        batch, row, head, _ = x.stride()
        where += (batch, row, head)
    sizes = {"D": width, "BLOCK_M": 32, "BLOCK_N": 16}
    grid = lambda sizes: (triton.cdiv(m, sizes["BLOCK_M"]), b * h, 1)  # noqa: E731 - as Triton's tutorials write it
    kernel[grid](
        q, k, v, o, h, h // g, m, n, d, 1 / math.sqrt(d), *where, CAUSAL=causal, **sizes, num_stages=stages, num_warps=4
    )
    return o


def right_all_at_the_end(kernel, q, k, v, causal, shared_bytes):
    for i, x in enumerate((q, k, v)):
        if x.stride(3) != 1:
            made = x.clone(memory_format=torch.contiguous_format)
            return right_all_at_the_end(kernel, *(q, k, v)[:i], made, *(q, k, v)[i + 1 :], causal, shared_bytes)
    heads, d = q.size(2), q.size(3)
    D = 16 if d < 16 else 2 ** math.ceil(math.log2(d))
    tile = D * q.element_size() * 32
    o = q.new_full(q.shape, 0)
    kernel[((q.size(1) + 31) // 32, q.size(0) * heads)](
        q, k, v, o, heads, heads // k.size(2), q.size(1), k.size(1), d, d**-0.5,
        q.stride(0), q.stride(1), q.stride(2), k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2), o.stride(0), o.stride(1), o.stride(2),
        causal, D, 32, 16, num_warps=4, num_stages=sorted((1, shared_bytes // tile - 1, 4))[1],
    )  # fmt: skip
    return o


def wrong_all_contiguous(kernel, q, k, v, causal, shared_bytes):
    """so that nobody has to"""
    return right_all_at_the_end(kernel, *(x.contiguous() for x in (q, k, v)), causal, shared_bytes)

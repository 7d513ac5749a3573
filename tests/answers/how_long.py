BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops):
    shapes = {
        "add": [("n",)] * 3,
        "matmul": [("m", "k"), ("k", "n"), ("m", "n")],
        "attention": [("heads", "queries", "d")] * 2 + [("kv_heads", "keys", "d")] * 2,
    }[kernel]
    moved = 0
    for shape in shapes:
        numbers = 1
        for name in shape:
            numbers *= sizes[name]
        moved += numbers * BYTES[dtype]
    flop = {"add": 1, "matmul": 2, "attention": 4}[kernel]
    for name, size in sizes.items():
        if name not in ("kv_heads", "causal"):
            flop *= size
    if sizes.get("causal"):
        flop *= (sizes["keys"] + 1) / (2 * sizes["keys"])
    return max(moved / tb_per_s, flop / tflops) * 1e-6


def right_with_the_softmax(kernel, sizes, dtype, tb_per_s, tflops):
    """Five operations per score more, and an add that costs no arithmetic at all."""
    beta, rate = tb_per_s * 1e12, tflops * 1e12
    e = BYTES[dtype]
    if kernel == "add":
        t = 3 * e * sizes["n"] / beta
    elif kernel == "matmul":
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        t = max(e * (m * k + k * n + m * n) / beta, 2 * m * n * k / rate)
    else:
        h, g, n, m, d, causal = (sizes[x] for x in ("heads", "kv_heads", "queries", "keys", "d", "causal"))
        scores = h * n * m * (0.5 if causal else 1)
        t = max(e * 2 * (h * n + g * m) * d / beta, scores * (4 * d + 5) / rate)
    return t * 1e6


def wrong_added(kernel, sizes, dtype, tb_per_s, tflops):
    """they overlap"""
    both = (right_by_tensors(kernel, sizes, dtype, a, b) for a, b in ((tb_per_s, 1e9), (1e9, tflops)))
    return sum(both)


def wrong_ignores_the_mask(kernel, sizes, dtype, tb_per_s, tflops):
    """without the causal half"""
    if kernel == "attention":
        sizes = dict(sizes, causal=0)
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)

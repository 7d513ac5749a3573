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


def wrong_ridge(kernel, sizes, dtype, tb_per_s, tflops):
    """from the bytes alone"""
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, 1e9)


def wrong_no_kv_heads(kernel, sizes, dtype, tb_per_s, tflops):
    """brings its own K and V"""
    if kernel == "attention":
        sizes = dict(sizes, kv_heads=sizes["heads"])
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)


def wrong_milliseconds(kernel, sizes, dtype, tb_per_s, tflops):
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops) / 1000


def wrong_ignores_the_mask(kernel, sizes, dtype, tb_per_s, tflops):
    """without the causal half"""
    if kernel == "attention":
        sizes = dict(sizes, causal=0)
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)


def wrong_half_of_both(kernel, sizes, dtype, tb_per_s, tflops):
    """halves the bytes, too"""
    if sizes.get("causal"):
        return right_by_tensors(kernel, dict(sizes, causal=0), dtype, tb_per_s, tflops) / 2
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)


def wrong_constant(kernel, sizes, dtype, tb_per_s, tflops):
    return 440.0


def _least(kernel, sizes, dtype, tb_per_s, tflops, numbers):
    """What is left of the right time, if so many numbers travel."""
    return max(numbers * BYTES[dtype] / tb_per_s * 1e-6, right_by_tensors(kernel, sizes, dtype, 1e9, tflops))


def wrong_without_c(kernel, sizes, dtype, tb_per_s, tflops):
    """if C is forgotten"""
    if kernel == "matmul":
        return _least(kernel, sizes, dtype, tb_per_s, tflops, (sizes["m"] + sizes["n"]) * sizes["k"])
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)


def wrong_without_o(kernel, sizes, dtype, tb_per_s, tflops):
    """if O is forgotten"""
    if kernel == "attention":
        rows = sizes["heads"] * sizes["queries"] + 2 * sizes["kv_heads"] * sizes["keys"]
        return _least(kernel, sizes, dtype, tb_per_s, tflops, rows * sizes["d"])
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)


def wrong_kv_heads_of_q(kernel, sizes, dtype, tb_per_s, tflops):
    """as few heads as K and V"""
    if kernel == "attention":
        rows = 2 * sizes["kv_heads"] * (sizes["queries"] + sizes["keys"])
        return _least(kernel, sizes, dtype, tb_per_s, tflops, rows * sizes["d"])
    return right_by_tensors(kernel, sizes, dtype, tb_per_s, tflops)

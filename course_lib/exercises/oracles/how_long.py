"""Lecture 01: what how_long is checked by."""

import math
import random
from collections.abc import Iterable
from typing import Any

from course_lib import data
from course_lib.exercises.base import Case
from course_lib.exercises.oracles import variants

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def _case(kernel: str, dtype: str, gpu: str, **sizes: int) -> Case:
    found = data.gpu(gpu)
    rates = (found.hbm_bytes_per_s / 1e12, round(found.flops_per_s(dtype) / 1e12, 1))
    return Case(f"{kernel} in {dtype} on the {gpu}", (kernel, sizes, dtype, *rates))


def _attention(dtype: str, gpu: str, heads: int, kv_heads: int, queries: int, keys: int, d: int, causal: int) -> Case:
    return _case(
        "attention", dtype, gpu, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, d=d, causal=causal
    )


def cases() -> Iterable[Case]:
    yield _case("matmul", "fp16", "A100-40", m=4096, n=4096, k=4096)
    yield _case("add", "fp16", "A100-40", n=10_000_000)
    yield _case("add", "fp32", "H100", n=10_000_000)
    yield _case("matmul", "bf16", "H200", m=64, n=8192, k=8192)
    yield _case("matmul", "fp8", "H100", m=2048, n=8192, k=512)
    yield _attention("fp16", "A100-80", 16, 16, 4096, 4096, 64, 0)
    yield _attention("bf16", "H200", 32, 8, 1, 100_000, 128, 0)
    yield _attention("bf16", "H100", 32, 8, 8192, 8192, 128, 1)
    yield _attention("bf16", "H100", 32, 8, 4096, 64, 128, 0)
    yield _case("matmul", "fp16", "A100-40", m=8192, n=8192, k=32)
    yield _attention("fp16", "RTX 4090", 256, 256, 256, 256, 64, 1)
    yield _attention("fp16", "A100-40", 12, 12, 400, 400, 64, 0)


def drawn(draw: random.Random) -> Iterable[Case]:
    """Cases that no copy of the course holds: for grading."""
    gpus = ("V100", "A100-40", "RTX 4090", "L40S", "H100", "H200")
    for _ in range(8):
        kernel = draw.choice(("add", "matmul", "attention"))
        gpu, dtype = draw.choice(gpus), draw.choice(("fp16", "fp32"))
        if kernel == "add":
            yield _case("add", dtype, gpu, n=draw.randint(10**6, 10**9))
        elif kernel == "matmul":
            yield _case("matmul", dtype, gpu, **{name: 2 ** draw.randint(5, 13) for name in "mnk"})
        else:
            kv_heads, keys = draw.choice((1, 4, 8)), 2 ** draw.randint(10, 15)
            causal = draw.randint(0, 1)
            queries = keys if causal else draw.choice((1, 16, 4096))
            yield _attention(dtype, gpu, kv_heads * draw.choice((1, 4)), kv_heads, queries, keys, 64, causal)


def expected(kernel: str, sizes: dict[str, int], dtype: str, tb_per_s: float, tflops: float) -> float:
    """Tensor by tensor, and product by product."""
    shapes: list[tuple[int, ...]]
    if kernel == "attention":
        H, G, n, m, d = (sizes[name] for name in ("heads", "kv_heads", "queries", "keys", "d"))
        shapes = [(H, n, d), (G, m, d), (G, m, d), (H, n, d)]
        scores = H * (n * (n + 1) // 2 if sizes["causal"] else n * m)
        operations = scores * (2 * d + 2 * d)
    elif kernel == "matmul":
        shapes = [(sizes[one], sizes[other]) for one, other in ("mk", "kn", "mn")]
        operations = 2 * math.prod(sizes.values())
    else:
        shapes, operations = [(sizes["n"],)] * 3, sizes["n"]
    moved = sum(math.prod(shape) for shape in shapes) * BYTES[dtype]
    return max(moved / (tb_per_s * 1e6), operations / (tflops * 1e6))


def _how_long(kernel, sizes, dtype, tb_per_s, tflops, bug):
    """From a list of tensors, as (times that it counts, numbers), and the operations; ``bug`` changes some of them."""
    s: dict[str, Any] = dict(sizes)
    once = 0 if bug == "no output" or bug == f"no output of {kernel}" else 1
    if kernel == "add":
        numbers, operations = (2 if bug == "add moves 2" else 2 + once) * s["n"], s["n"]
    elif kernel == "matmul":
        numbers = s["m"] * s["k"] + s["k"] * s["n"] + once * s["m"] * s["n"]
        operations = s["m"] * s["n"] * s["k"] * (1 if bug in ("fused", "fused in matmul") else 2)
    else:
        heads = 1 if bug == "one head" else s["heads"]
        shared = {"one head": 1, "each its own": heads}.get(bug, s["kv_heads"])
        scores = heads * s["queries"] * s["keys"]
        numbers = (1 + once) * (shared if bug == "Q and O shared" else heads) * s["queries"] * s["d"]
        numbers += (1 if bug == "K alone" else 2) * shared * s["keys"] * s["d"]
        numbers += 4 * scores if bug == "S and P" else 0
        scores = scores * s["kv_heads"] / s["heads"] if bug == "scores shared" else scores
        operations = scores * s["d"] * (2 if bug in ("fused", "one matmul") else 4)
        if s["causal"] and bug != "no mask":
            operations /= 2
            numbers /= 2 if bug == "half the bytes" else 1
    size = {"always 2": 2, "always 4": 4, "1 for all": 1, "fp8 as 2": max(2, BYTES[dtype])}.get(bug) or BYTES[dtype]
    moving, computing = numbers * size / (tb_per_s * 1e6), operations / (tflops * 1e6)
    found = {
        "bytes": moving,
        "operations": computing,
        "sum": moving + computing,
        "shorter": min(moving, computing),
    }.get(bug, max(moving, computing))
    return found / {"seconds": 1e6, "milliseconds": 1e3}.get(bug, 1)


WRONG = variants(
    _how_long,
    {
        "from the bytes alone: a kernel can be short of arithmetic, too": "bytes",
        "from the operations alone: most kernels wait for their bytes": "operations",
        "from the sum of the two times: they overlap, so the longer one counts": "sum",
        "from the shorter of the two times: they overlap, so the longer one counts": "shorter",
        "if a matmul has m · n · k operations: a multiplication and an addition are two": "fused in matmul",
        "if attention computes as many heads of scores as K has: each head of Q has its own": "scores shared",
        "if an add moves two vectors: it reads two and writes one": "add moves 2",
        "if a multiplication and its addition count as one operation: data sheets count two": "fused",
        "if attention is taken for one matmul: QKᵀ and PV are two": "one matmul",
        "if the output is forgotten: it crosses, too": "no output",
        "if C is forgotten: with a short k it is the largest of the three": "no output of matmul",
        "if O is forgotten: it is as large as Q": "no output of attention",
        "if Q and O have as few heads as K and V: they have `heads`": "Q and O shared",
        "with 2 bytes for every number: fp32 has 4, fp8 has 1": "always 2",
        "with 2 bytes for a number in fp8: it has 1": "fp8 as 2",
        "with 4 bytes for every number: 16-bit formats have 2": "always 4",
        "if numbers are taken for bytes: multiply by the bytes of a number": "1 for all",
        "without the causal half: scores above the diagonal are not computed": "no mask",
        "if a causal mask halves the bytes, too: all of Q, K, V and O is still needed": "half the bytes",
        "for one head instead of all": "one head",
        "if each head of Q brings its own K and V: it shares them, and they cross once": "each its own",
        "if V is forgotten: it is as large as K": "K alone",
        "if S and P cross as in standard attention: flash attention keeps them on the chip": "S and P",
        "in milliseconds: return µs": "milliseconds",
        "in seconds: return µs": "seconds",
    },
)

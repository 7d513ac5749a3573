"""The kernels of lectures 02 to 06: softmax, matmul, one head, loop orders."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from course_lib.instruments import measure
from course_lib.instruments.peers import plain_attention, sdpa
from course_lib.model import cost, reference


def softmax_passes() -> list[dict[str, Any]]:
    """Softmax in three and in two passes and the fused average, fp32, over row lengths: seconds for each.

    Every shape holds 2^30 elements (4 GB), far beyond any L2, so that what differs is the length of one row.
    """
    from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average

    rows = []
    total = 2**30
    x_all = torch.randn(total, device="cuda")
    for power in measure.progress(range(10, 23), "row length"):
        n = 2**power
        x = x_all.view(-1, n)
        v = torch.randn(n, device="cuda")
        block = min(n, 8192)
        calls: dict[str, Callable[..., torch.Tensor]] = {
            "offline": lambda x, v, block=block: offline_softmax(x, block),
            "online": lambda x, v, block=block: online_softmax(x, block),
            "fused": lambda x, v, block=block: softmax_average(x, v, block),
            "torch": lambda x, v: torch.softmax(x, dim=-1),
        }
        oracle = reference.softmax(x[:4])
        for name, call in calls.items():
            error = measure.max_error(call(x[:4], v), oracle @ v.double() if name == "fused" else oracle)
            time = measure.seconds(partial(call, x, v))
            row = {"n": n, "rows": total // n, "block": block, "algorithm": name}
            rows.append(row | {"seconds": time.median, "max_error": error})
    copy = torch.empty_like(x_all)
    seconds = measure.seconds(lambda: copy.copy_(x_all)).median
    row = {"n": total, "rows": 1, "block": 0, "algorithm": "copy"}
    return [*rows, row | {"seconds": seconds, "max_error": 0.0}]


def attention_one_head() -> list[dict[str, Any]]:
    """One head, d = 64, N = 64 … 16,384, fp32 and fp16: seconds, largest error against float64, peak memory, each version."""
    from course_lib.kernels.lite import flash_lite
    from course_lib.kernels.online import flash_online

    versions: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.dtype, ...], dict[str, Any]]] = {
        "standard": (plain_attention, (torch.float32, torch.float16), {}),
        "sdpa": (sdpa, (torch.float32, torch.float16), {}),
        "lite": (flash_lite, (torch.float32, torch.float16), {"input_precision": "tf32"}),
        "online, tf32": (flash_online, (torch.float32,), {"input_precision": "tf32"}),
        "online": (flash_online, (torch.float32, torch.float16), {"input_precision": "ieee"}),
    }
    rows = []
    for power in measure.progress(range(6, 15), "N"):
        n, d = 2**power, 64
        torch.manual_seed(0)
        inputs = [torch.randn(n, d, device="cuda") for _ in range(3)]
        for dtype in (torch.float32, torch.float16):
            q, k, v = (x.to(dtype) for x in inputs)
            oracle = reference.attention(q, k, v)
            for name, (attention, dtypes, options) in versions.items():
                if dtype not in dtypes:
                    continue
                call = partial(attention, q, k, v, **options)
                row = {"n": n, "d": d, "dtype": str(dtype).removeprefix("torch."), "algorithm": name}
                row |= {"max_error": measure.max_error(call(), oracle), "peak_bytes": measure.peak_bytes(call)}
                rows.append(row | {"seconds": measure.seconds(call, repeats=25, graph=True).median})
    return rows


def parallelism() -> list[dict[str, Any]]:
    """fp16, N = 1,024, d = 64: one head with ever smaller blocks of queries, then ever more heads, ours and torch's."""
    from course_lib.kernels.loop_orders import flash_v2

    n, d, rows = 1024, 64, []

    def row(algorithm: str, heads: int, block_m: int, call: Callable[[], Any]) -> None:
        time = measure.seconds(call, repeats=25, graph=True).median
        row = {"algorithm": algorithm, "heads": heads, "block_m": block_m}
        row |= {"programs": heads * n // block_m if block_m else 0, "seconds": time}
        rows.append(row | {"tflops": heads * cost.attention_flops(n, d).matmul / time / 1e12})

    for power in measure.progress(range(9), "heads"):
        heads = 2**power
        q, k, v = (torch.randn(heads, n, d, device="cuda", dtype=torch.float16) for _ in range(3))
        for block_m in (16, 32, 64, 128) if heads == 1 else (64,):
            row("V2", heads, block_m, partial(flash_v2, q, k, v, block_m))
        row("sdpa", heads, 0, partial(sdpa, q, k, v))
    return rows


# Heads and lengths: a GPU that is mostly idle, one that is full, and three working sets well beyond the L2's 60 MB.
LOOP_ORDER_SHAPES = ((1, 4096), (1, 16_384), (16, 4096), (256, 1024), (64, 4096), (16, 16_384))


def loop_orders() -> list[dict[str, Any]]:
    """fp16, d = 64, 64 x 64 blocks: standard, V1, running, V2 and torch's fused attention, with one or many programs per head.

    Ours twice: with loads that run ahead (num_stages=3, Triton's default) and without (1).
    """
    from course_lib.kernels.loop_orders import flash_running, flash_v1, flash_v2

    ours: dict[str, Callable[..., Any]] = {
        "V1": flash_v1,
        "V1, parallel": partial(flash_v1, split=None),
        "running": flash_running,
        "V2, one per head": partial(flash_v2, split=1),
        "V2": flash_v2,
    }
    versions: dict[tuple[str, int], Callable[..., Any]] = {
        (name, stages): partial(call, num_stages=stages) for name, call in ours.items() for stages in (3, 1)
    }
    versions |= {("standard", 0): plain_attention, ("sdpa", 0): sdpa}
    rows = []
    for heads, n in measure.progress(LOOP_ORDER_SHAPES, "heads, N"):
        torch.manual_seed(0)
        q, k, v = (torch.randn(heads, n, 64, device="cuda", dtype=torch.float16) for _ in range(3))
        oracle = reference.attention(q[0], k[0], v[0])
        for (name, stages), attention in versions.items():
            output = attention(q, k, v)
            error = measure.max_error((output[0] if isinstance(output, tuple) else output)[0], oracle)
            del output
            time = measure.seconds(partial(attention, q, k, v), repeats=9, warm_up=2, graph=True)
            row = {"algorithm": name, "heads": heads, "n": n, "num_stages": stages}
            rows.append(row | {"seconds": time.median, "max_error": error})
    return rows


def loop_orders_counters() -> list[dict[str, Any]]:
    """Bytes at L1, L2 and DRAM, time and occupancy of each kernel, by ncu, for working sets well beyond the L2.

    Ours with num_stages=3, and V1, V1 split and V2 without loads that run ahead (1), too: other programs.
    """
    from course_lib.instruments.counters import counters

    stages = {"standard": 0, "V1": 3, "V1, parallel": 3, "running": 3, "V2": 3}
    todo = [(heads, n, case, s) for heads, n in LOOP_ORDER_SHAPES[3:] for case, s in stages.items()]
    todo += [(heads, n, case, 1) for heads, n in LOOP_ORDER_SHAPES[3:] for case in ("V1", "V1, parallel", "V2")]
    return [
        {"algorithm": case, "heads": heads, "n": n, "num_stages": s, **row}
        for heads, n, case, s in measure.progress(todo, "ncu")
        for row in counters(case, heads, n, num_stages=s)
    ]


def matmul_tiles() -> list[dict[str, Any]]:
    """C [4096, 4096] in fp16 by square tiles of 16 … 256, and by cuBLAS: seconds, error against float64, TFLOP/s."""
    from course_lib.kernels.matmul import tiled_matmul

    n = 4096
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    oracle = a.double() @ b.double()
    calls: dict[int, Callable[[], torch.Tensor]] = {}
    for block in (16, 32, 64, 128, 256):
        calls[block] = partial(tiled_matmul, a, b, block, block, 32)
    calls[0] = lambda: a @ b
    rows = []
    for block, call in calls.items():
        time = measure.seconds(call, repeats=15).median
        error = measure.max_error(call(), oracle)
        name = "tiled" if block else "cuBLAS"
        row = {"n": n, "algorithm": name, "block": block, "seconds": time}
        rows.append(row | {"tflops": 2 * n**3 / time / 1e12, "max_error": error})
    return rows

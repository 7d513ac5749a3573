"""Measurements worth keeping: run on a GPU, checked against float64, written to data/measured/<device>/ with provenance.

python -m course_lib.recordings [name …]
"""

import argparse
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from course_lib import measure, reference, runtime


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
            rows.append(
                {
                    "n": n,
                    "rows": total // n,
                    "block": block,
                    "algorithm": name,
                    "seconds": time.median,
                    "max_error": error,
                }
            )
    copy = torch.empty_like(x_all)
    rows.append(
        {
            "n": total,
            "rows": 1,
            "block": 0,
            "algorithm": "copy",
            "seconds": measure.seconds(lambda: copy.copy_(x_all)).median,
            "max_error": 0.0,
        }
    )
    return rows


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as three lines of torch, [N, d]: the peer that every flash kernel is compared with."""
    return torch.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=-1) @ v


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's own fused attention on one head [N, d]."""
    return torch.nn.functional.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])[0, 0]


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
                rows.append(
                    {
                        "n": n,
                        "d": d,
                        "dtype": str(dtype).removeprefix("torch."),
                        "algorithm": name,
                        "max_error": measure.max_error(call(), oracle),
                        "peak_bytes": measure.peak_bytes(call),
                        "seconds": measure.seconds(call, repeats=25, graph=True).median,
                    }
                )
    return rows


def parallelism() -> list[dict[str, Any]]:
    """fp16, N = 1,024, d = 64: our kernel with ever smaller blocks of queries, torch's fused one with ever more heads."""
    from course_lib.kernels.online import flash_online

    n, d, rows = 1024, 64, []
    q, k, v = (torch.randn(n, d, device="cuda", dtype=torch.float16) for _ in range(3))
    flops = 4 * n * n * d
    for block_m in (16, 32, 64, 128):
        call = partial(flash_online, q, k, v, block_m=block_m)
        time = measure.seconds(call, repeats=25, graph=True).median
        rows.append(
            {
                "vary": "block_m",
                "value": block_m,
                "programs": n // block_m,
                "seconds": time,
                "tflops": flops / time / 1e12,
            }
        )
    for power in range(9):
        heads = 2**power
        x, y, z = (torch.randn(1, heads, n, d, device="cuda", dtype=torch.float16) for _ in range(3))
        call = partial(torch.nn.functional.scaled_dot_product_attention, x, y, z)
        time = measure.seconds(call, repeats=25, graph=True).median
        rows.append(
            {"vary": "heads", "value": heads, "programs": 0, "seconds": time, "tflops": heads * flops / time / 1e12}
        )
    return rows


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
        rows.append(
            {
                "n": n,
                "algorithm": name,
                "block": block,
                "seconds": time,
                "tflops": 2 * n**3 / time / 1e12,
                "max_error": error,
            }
        )
    return rows


RECORDINGS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "softmax_passes": softmax_passes,
    "attention_one_head": attention_one_head,
    "parallelism": parallelism,
    "matmul_tiles": matmul_tiles,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.recordings", description="Re-run the course's recorded measurements on this GPU."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"which (default: all): {', '.join(RECORDINGS)}")
    names = parser.parse_args().names or list(RECORDINGS)
    for name in names:
        if name not in RECORDINGS:
            parser.error(f"{name!r} is not a recording; choose from {', '.join(RECORDINGS)}")
    if runtime.lane() != "GPU":
        print("Recordings need a CUDA GPU; this machine is on the lane:", runtime.lane(), file=sys.stderr)
        return 1
    for name in names:
        path = measure.record(name, RECORDINGS[name](), command=f"python -m course_lib.recordings {name}")
        print(f"{name} -> {path.relative_to(path.parents[3])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

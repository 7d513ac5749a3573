"""What a number format, a row's alignment and a place to keep a number cost on the GPU."""

from functools import partial
from typing import Any

import torch

from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.kernels import portable
from course_lib.model import reference


def number_formats() -> list[dict[str, Any]]:
    """Online and plain torch on one head of 16,384 × 64 in each format: seconds, errors for scores near 1 and near 10."""
    from course_lib.instruments.peers import plain_attention
    from course_lib.kernels.online import flash_online

    n, d, few = 16_384, 64, 512  # the error is that of the first few queries
    kinds = {
        "fp32": (torch.float32, "ieee"),
        "tf32": (torch.float32, "tf32"),
        "fp16": (torch.float16, "ieee"),
        "bf16": (torch.bfloat16, "ieee"),
    }
    rows = []
    for scale in measure.progress((1.0, 10.0), "scale of Q"):
        torch.manual_seed(0)
        inputs = [torch.randn(n, d, device="cuda") for _ in range(3)]
        inputs[0] *= scale
        exact = reference.attention(inputs[0][:few], inputs[1], inputs[2])
        for name, (dtype, precision) in kinds.items():
            q, k, v = (x.to(dtype) for x in inputs)
            rounded = reference.attention(q[:few], k, v)
            for algorithm, call in (
                ("online", partial(flash_online, input_precision=precision)),
                ("standard", plain_attention),
            ):
                torch.backends.cuda.matmul.fp32_precision = "tf32" if name == "tf32" else "ieee"
                o = call(q, k, v)[:few]
                time = measure.seconds(partial(call, q, k, v), repeats=15, graph=True).median
                row = {"algorithm": algorithm, "format": name, "scale": scale, "n": n, "d": d, "seconds": time}
                row |= {"max_error": measure.max_error(o, rounded), "rms_error": measure.rms_error(o, rounded)}
                rows.append(row | {"input_rms_error": measure.rms_error(rounded, exact)})
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    return rows


def load_widths() -> list[dict[str, Any]]:
    """The portable kernels of attention(), fp16, 32 × 16 heads of 1,024: rows that start on 16 bytes, and rows that do not."""
    rows = []
    for d in measure.progress((32, 40, 64, 72, 96, 128), "head size"):
        for stride in (d, d + 8, d + 1):
            q, k, v, do = (
                torch.randn(32, 16, 1024, stride, device="cuda", dtype=torch.float16)[..., :d] for _ in range(4)
            )
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            o = attention(*leaves)
            run = partial(portable.launch_forward, q, k, v, causal=False, offset=0, scale=d**-0.5, softcap=0.0)
            forward = measure.seconds(run, repeats=15, graph=True).median
            call = partial(torch.autograd.grad, o, leaves, do, retain_graph=True)
            backward = measure.seconds(call, repeats=15, warm_up=3).median
            row = {"d": d, "row_stride": stride, "forward_seconds": forward, "backward_seconds": backward}
            rows.append(row | {"forward_tflops": 4 * 32 * 16 * 1024**2 * d / forward / 1e12})
    return rows


def registers() -> list[dict[str, Any]]:
    """Cycles for one answer, and bytes a cycle of one SM, of registers and of shared memory."""
    from course_lib.kernels import latency

    rows = []
    for place, asm, bytes_each in (
        ("registers", latency.REGISTER_RATE, 3 * 4),  # an FMA reads three numbers
        ("shared memory", latency.SHARED_RATE, 16),
    ):
        warps = 32
        ticks = latency.cycles(asm, warps)
        rows.append({"place": place, "what": "bytes a cycle", "warps": warps, "steps": latency.STEPS, "cycles": ticks,
                     "value": 32 * warps * latency.STEPS * bytes_each / ticks})  # fmt: skip
    for place, asm in (("registers", latency.REGISTER_LATENCY), ("shared memory", latency.SHARED_LATENCY)):
        ticks = latency.cycles(asm, 1)
        rows.append({"place": place, "what": "cycles for one answer", "warps": 1, "steps": latency.STEPS, "cycles": ticks,
                     "value": ticks / latency.STEPS})  # fmt: skip
    return rows

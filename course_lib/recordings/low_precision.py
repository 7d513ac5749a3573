"""Lecture 12: the 8-bit forward kernels beside the 16-bit ones; errors on numbers with outliers; what the GPU's units did."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.instruments.peers import fused, plain_attention
from course_lib.kernels import eight_bit, operands
from course_lib.kernels.hopper import forward
from course_lib.model import quantize, reference
from course_lib.recordings.training import HIDDEN, TOKENS, flops


def eight_bit_speed() -> list[dict[str, Any]]:
    """bf16 and e4m3, 16,384 tokens of 2,048 numbers, N = 1,024 … 16k, interleaved: seconds, TFLOP/s, rms error relative to O's.

    '8 bits' is the kernel on operands that are there; '… from 16 bits' rotates and quantises first. TFLOP/s as the papers count.
    Raises RuntimeError where an error is not that of its format.
    """
    rows = []
    shapes = itertools.product((64, 128), (False, True), (1024, 2048, 4096, 8192, 16_384))
    for d, causal, n in measure.progress(list(shapes), "d, causal, N"):
        torch.manual_seed(0)
        q, k, v = (torch.randn(TOKENS // n, HIDDEN // d, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        v = (v + 1) * (1 + torch.arange(n, device="cuda")[:, None] // 128 % 4)  # a mean, and blocks of different scales
        sign = quantize.signs(d).cuda()
        x = operands.quantise(q, k, v, sign)
        in_order = operands.quantise(q, k, v, sign, permuted=False)
        calls: dict[str, Callable[[], Any]] = {
            "attention()": partial(attention, q, k, v, causal=causal),
            "cuDNN": partial(fused, "cuDNN", q, k, v, causal),
            "8 bits": partial(eight_bit.forward, x, causal),
            "8 bits, from 16 bits": partial(eight_bit.attention, q, k, v, sign, causal),
            "8 bits, Triton": partial(eight_bit.forward, x, causal, kernel="Triton"),
            "8 bits, Triton, keys in order": partial(eight_bit.forward, in_order, causal, kernel="Triton"),
            "8 bits, Triton, one sum": partial(eight_bit.forward, x, causal, kernel="Triton", fp32_accumulate=False),
        }
        a, b, c = (torch.stack([y[0, 0], y[-1, -1]]).double() for y in (q, k, v))
        exact = plain_attention(a, b, c, causal)
        errors = {}
        for name, call in calls.items():
            o = _output(call)
            o = torch.stack([o[0, 0], o[-1, -1]])
            errors[name] = measure.rms_error(o, exact) / float(exact.square().mean().sqrt())
            if errors[name] > (0.04 if "8 bits" in name else 0.005) and "one sum" not in name:
                raise RuntimeError(f"{name} is wrong at d = {d}, causal = {causal}, N = {n}: {errors[name]:.1e}")
        for name, time in measure.seconds_interleaved(calls).items():
            row = {"algorithm": name, "d": d, "causal": causal, "n": n, "seconds": time.median, "quarter": time.quarter}
            row |= {"three_quarters": time.three_quarters, "relative_rms_error": errors[name]}
            rows.append(row | {"tflops": round(flops(n, causal) / time.median / 1e12, 1)})
    return rows


def _output(call: Callable[[], Any]) -> torch.Tensor:
    o = call()
    return o[0] if isinstance(o, tuple) else o


def eight_bit_errors() -> list[dict[str, Any]]:
    """The table 3 of FlashAttention-3: rms error against float64 of 7 ways, one head, d = 128, N = 1,024 … 16k, 8 seeds.

    Inputs N(0, 1) + N(0, 100) · Bernoulli(0.001). 'kernel' is the Hopper kernel with block scales and rotation; the four other
    8-bit ways are computed in float64 with rounded operands. ``worst``: the share of the squared error in the worst 1 % of the rows.
    """
    d = 128
    rows: list[dict[str, Any]] = []
    sign = quantize.signs(d).cuda()
    for n, seed in measure.progress(list(itertools.product((1024, 2048, 4096, 8192, 16_384), range(8))), "N, seed"):
        q, k, v = (x.cuda() for x in quantize.outliers(n, d, seed=seed))
        exact = reference.attention(q, k, v)
        a, b, c = (x.half()[None, None] for x in (q, k, v))
        narrow = partial(quantize.eight_bit_attention, q, k, v, block=128)
        ways: dict[str, Callable[[], Any]] = {
            "fp16, plain": partial(plain_attention, a, b, c),
            "fp16, flash": partial(attention, a, b, c),
            "fp8, one scale": partial(narrow, per="tensor"),
            "fp8, block scales and rotation": partial(narrow, sign=sign),
            "fp8, one scale and rotation": partial(narrow, per="tensor", sign=sign),
            "fp8, block scales": narrow,
            "kernel": partial(eight_bit.attention, a, b, c, sign),
        }
        for way, call in ways.items():
            error = (_output(call).view(n, d).double() - exact).square().mean(dim=1)
            if way == "kernel" and not 0.8 < float(error.mean().sqrt()) / rows[-3]["rms_error"] < 1.25:
                raise RuntimeError(
                    f"the kernel is wrong at N = {n}, seed {seed}: rms error {float(error.mean().sqrt()):.1e}"
                )
            worst = float(error.topk(n // 100).values.sum() / error.sum())
            rows.append(
                {"way": way, "n": n, "d": d, "seed": seed, "rms_error": float(error.mean().sqrt()), "worst": worst}
            )
    return rows


def eight_bit_sums() -> list[dict[str, Any]]:
    """What is kept of 127 small products beside a large one, 2^6 … 2^24 times each of them, in q · k as the kernels sum it.

    With one key a row's L is its score. Of e4m3 and bf16 on Hopper's tensor cores; 1 if all is kept.
    """
    rows, d, device = [], 128, "cuda"
    for power in measure.progress(range(6, 25), "power"):
        small = 2.0 ** ((16 - power) // 2), 2.0 ** ((17 - power) // 2)
        q, k = (torch.full((1, 1, 64, d), x, device=device) for x in small)
        q[..., 0], k[..., 0] = 256.0, 256.0
        k, one = k[:, :, :1].contiguous(), torch.ones(1, 1, 1, device=device)
        v = torch.ones(1, 1, d, 128, device=device).to(torch.float8_e4m3fn)
        a, b = (operands.Rows(y.to(torch.float8_e4m3fn), one) for y in (q, k))
        x = operands.Operands(a, b, operands.Values(v, one, one[0]), 1, torch.bfloat16, True)
        for form, L in (
            ("e4m3", eight_bit.forward(x, kernel="Hopper")[1]),
            ("bf16", forward("overlap", q.bfloat16(), k.bfloat16(), k.bfloat16())[1]),
        ):
            kept = (float(L[0, 0, 0]) * d**0.5 - 2.0**16) / (127 * 2.0 ** (16 - power))
            rows.append({"format": form, "power": power, "kept": round(kept, 3)})
    return rows


def eight_bit_long_rows() -> list[dict[str, Any]]:
    """O over what it should be, all weights equal and V = 0.875, one head, d = 128: P V accumulated in fp32 or on the tensor cores."""
    rows, d = [], 128
    for n in measure.progress([2**p for p in range(10, 17)], "N"):
        q, v = torch.zeros(1, 1, 128, d, device="cuda").half(), torch.full((1, 1, n, d), 0.875, device="cuda").half()
        x = operands.quantise(q, torch.ones_like(v), v)
        for accumulator, o in (
            ("Hopper, fp32", eight_bit.forward(x, kernel="Hopper")[0]),
            ("Triton, fp32", eight_bit.forward(x, kernel="Triton")[0]),
            ("Triton, tensor cores", eight_bit.forward(x, kernel="Triton", fp32_accumulate=False)[0]),
        ):
            rows.append({"accumulator": accumulator, "n": n, "ratio": round(float(o.double().mean()) / 0.875, 4)})
    return rows


def eight_bit_counters() -> list[dict[str, Any]]:
    """The busy units of the forward kernels, 32 heads of 8,192 × 128, by ncu: shares of their peaks, instructions, time, clock, waits."""
    from course_lib.instruments.counters import counters

    return [
        {"algorithm": case, "heads": 32, "n": 8192, "d": 128, **row}
        for case in measure.progress(("attention()", "8 bits", "8 bits, Triton"), "ncu")
        for row in counters(case, 32, 8192, 128, stalls=True)
        if row["kernel"] in ("specialised_kernel", "eight_bit_kernel", "forward_kernel")
    ]

"""The ladder of lecture 11: every rung beside its peers, and what blocks, warps and stages do to three of them."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import torch

from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.instruments.peers import FUSED, fused, plain_attention
from course_lib.kernels.hopper import RUNGS, THREE_MATMULS, Rung, forward
from course_lib.recordings.training import HIDDEN, TOKENS, flops

LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)


def _inputs(d: int, n: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(TOKENS // n, HIDDEN // d, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def _rate(n: int, causal: bool, seconds: float) -> float:
    """TFLOP/s as the papers count."""
    return flops(n, causal) / seconds / 1e12


def compile_together(launch: Callable[..., None], jobs: Iterable[tuple[Any, ...]]) -> None:
    """Fill the caches on disk: ``launch(*job)`` in as many processes as there are cores; who cannot compile fails again, in its turn."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(launch, *job) for job in jobs]:
            done.exception()


def _launch_once(rung: Rung, d: int, causal: bool) -> None:
    x = torch.randn(1, 16, 1024, d, device="cuda", dtype=torch.bfloat16)
    forward(rung, x, x, x, causal)
    torch.cuda.synchronize()


def forward_ladder() -> list[dict[str, Any]]:
    """bf16, 16,384 tokens of 2,048 numbers, N = 512 … 16k: every rung, three matmuls, attention(), cuDNN, FA2, plain torch.

    Each answer is held against float64 first, in the first and the last head: its rms error is at most plain torch's, for a
    fused kernel does not round S and P to bf16 in memory. Raises RuntimeError where one is not.
    """
    shapes = list(itertools.product((64, 128), (False, True), LENGTHS))
    compile_together(_launch_once, itertools.product((*RUNGS.values(), THREE_MATMULS), (64, 128), (False, True)))
    rows = []
    for d, causal, n in measure.progress(shapes, "d, causal, N"):
        q, k, v = _inputs(d, n)
        calls: dict[str, Callable[[], Any]] = {
            "standard": partial(plain_attention, q, k, v, causal),
            **{name: partial(fused, name, q, k, v, causal) for name in FUSED},
            **{name: partial(forward, name, q, k, v, causal) for name in RUNGS},
            THREE_MATMULS.name: partial(forward, THREE_MATMULS, q, k, v, causal),
            "attention()": partial(attention, q, k, v, causal=causal),
        }
        a, b, c = (torch.stack([x[0, 0], x[-1, -1]]) for x in (q, k, v))
        oracle = plain_attention(a.double(), b.double(), c.double(), causal)
        usual = plain_attention(a, b, c, causal)
        plain, errors, rms = measure.max_error(usual, oracle), {}, {}
        for name, call in calls.items():
            output = call()
            o = output[0] if isinstance(output, tuple) else output
            output = torch.stack([o[0, 0], o[-1, -1]])
            errors[name], rms[name] = measure.max_error(output, oracle), measure.rms_error(output, oracle)
            del output, o
            if rms[name] > measure.rms_error(usual, oracle):
                raise RuntimeError(f"{name} is wrong at d = {d}, causal = {causal}, N = {n}: rms error {rms[name]:.1e}")
        for name, time in measure.seconds_interleaved(calls).items():
            row = {"algorithm": name, "d": d, "causal": causal, "n": n, "seconds": time.median, "quarter": time.quarter}
            row |= {"three_quarters": time.three_quarters, "tflops": round(_rate(n, causal, time.median), 1)}
            row |= {"max_error": errors[name], "plain_error": plain}
            rows.append(row | {"rms_error": rms[name], "plain_rms_error": measure.rms_error(usual, oracle)})
        del calls, q, k, v
        torch.cuda.empty_cache()
    return rows


def forward_blocks() -> list[dict[str, Any]]:
    """bf16, N = 4,096: TFLOP/s of three rungs over blocks, warps and stages; 0 where they do not fit the SM."""
    tilings = list(itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3, 4)))
    rungs = {
        (name, tiling): RUNGS[name]._replace(
            blocks=(tiling[:2],) * 2, num_warps=(tiling[2],) * 2, num_stages=(tiling[3],) * 2
        )
        for name in ("tuned", "causal block skipping", "TMA")
        for tiling in tilings
    }
    compile_together(_launch_once, itertools.product(rungs.values(), (64, 128), (False, True)))
    rows, n = [], 4096
    for d, causal in measure.progress(list(itertools.product((64, 128), (False, True))), "d, causal"):
        q, k, v = _inputs(d, n)
        a, b, c = (x[0, 0] for x in (q, k, v))
        oracle = plain_attention(a.double(), b.double(), c.double(), causal)
        allowed = measure.rms_error(plain_attention(a, b, c, causal), oracle)
        calls: dict[str, Callable[[], Any]] = {}
        for (name, tiling), rung in rungs.items():
            call = partial(forward, rung, q, k, v, causal)
            try:
                error = measure.rms_error(call()[0][0, 0], oracle)
            except ValueError:  # more shared memory than an SM has
                continue
            if error > allowed:
                raise RuntimeError(f"{name} is wrong with {tiling}, d = {d}, causal = {causal}: rms error {error:.1e}")
            calls[str((name, *tiling))] = call
        times = measure.seconds_interleaved(calls, rounds=5, burst=2e-3)
        for name, (block_m, block_n, warps, stages) in rungs:
            key = str((name, block_m, block_n, warps, stages))
            row = {"algorithm": name, "d": d, "causal": causal, "n": n, "block_m": block_m, "block_n": block_n}
            row |= {"num_warps": warps, "num_stages": stages}
            rows.append(row | {"tflops": round(_rate(n, causal, times[key].median), 1) if key in times else 0.0})
    return rows


def ring() -> list[dict[str, Any]]:
    """Column sums of 1.04 GB of fp16, one program per SM, through rings of 1 … 24 tiles of 8 KB: seconds, GB/s, error."""
    from course_lib.kernels.hopper.pieces import ring_sums

    programs = torch.cuda.get_device_properties("cuda").multi_processor_count
    x = torch.randn(programs * 64 * 960, 64, device="cuda", dtype=torch.float16)
    oracle, rows = x.double().sum(0), []
    for buffers in measure.progress((1, 2, 3, 4, 6, 8, 12, 16, 24), "buffers"):
        error = measure.max_error(ring_sums(x, buffers), oracle)
        time = measure.seconds(partial(ring_sums, x, buffers), repeats=15, graph=True).median
        row = {
            "buffers": buffers,
            "tile_bytes": 64 * 64 * 2,
            "programs": programs,
            "bytes": x.numel() * 2,
            "seconds": time,
        }
        rows.append(row | {"gb_per_s": round(x.numel() * 2 / time / 1e9, 1), "max_error": error})
    return rows

"""The capstone's steps on a GPU: of training at long contexts, and of generation, with and without a cache.

Each recording takes its share of BUDGET seconds; what no longer fits is left out with a printed line.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from course_lib import gpt, runtime
from course_lib.gpt.training import loss_of
from course_lib.instruments import measure
from course_lib.recordings.capstone import by_backend, clean, log, new_model, own_dtype

BUDGET = {"context": 80.0, "generation": 40.0}  # seconds
Sizes = dict[str, int]
SMALL_WIDTHS: tuple[Sizes, ...] = ({"n_layer": 1, "n_head": 2, "n_embd": 32},)
WIDTHS: tuple[Sizes, ...] = ({"n_layer": 6, "n_head": 6, "n_embd": 384}, {"n_layer": 4, "n_head": 8, "n_embd": 1024})
TOKENS, CONTEXTS = 65_536, (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
FLASH: gpt.Attend = partial(by_backend, SDPBackend.FLASH_ATTENTION)


def _none(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return v


def capstone_context(small: bool = False) -> list[dict[str, Any]]:
    """Seconds and peak memory of a training step of 65,536 characters by context and width, and of its parts alone.

    attention(), SDPA, its FlashAttention-2, plain torch, and no attention at all (o is v), with bf16 autocast and AdamW. The parts,
    forward and backward: attention of all layers, and the matmuls of all layers; and AdamW. ``fits`` is False, and the numbers 0,
    where memory did not suffice.
    """
    widths = SMALL_WIDTHS if small else WIDTHS
    contexts, tokens = ((16, 32), 64) if small else (CONTEXTS, TOKENS)
    attends = {**gpt.ATTENTIONS, "none": _none} | ({"SDPA flash": FLASH} if runtime.mode() == "GPU" else {})
    end = time.perf_counter() + BUDGET["context"]
    rows: list[dict[str, Any]] = []
    matmuls = [_matmul_seconds(width, tokens, small) for width in widths]
    for t, (width, multiplied), (name, attend) in itertools.product(
        contexts, zip(widths, matmuls, strict=True), attends.items()
    ):
        if time.perf_counter() > end or (name == "plain" and t > 8192):
            log(f"{name} at {t:,} of width {width['n_embd']} is left out")
            continue
        row = {**width, "t": t, "batch": tokens // t, "tokens": tokens, "attention": name, "matmul_seconds": multiplied}
        rows.append(row | _step(attend, width, t, tokens // t, small))
        log(f"{width['n_embd']} wide, {t:,}, {name}: {rows[-1]['seconds'] * 1e3:.2f} ms a step")
    return rows


def _step(attend: gpt.Attend, width: Sizes, t: int, batch: int, small: bool) -> dict[str, Any]:
    try:
        return _measured_step(attend, width, t, batch, 1 if small else 5)
    except torch.OutOfMemoryError:
        return {"fits": False, "seconds": 0.0, "attention_seconds": 0.0, "optimiser_seconds": 0.0, "peak_bytes": 0}
    finally:
        clean()


def _measured_step(attend: gpt.Attend, width: Sizes, t: int, batch: int, repeats: int) -> dict[str, Any]:
    device, dtype = runtime.device(), own_dtype()
    before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
    model = new_model(attend, 0, {**width, "block_size": t})
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    tokens = gpt.load_text(whole=True).train[: batch * (t + 1)].view(batch, t + 1).to(device)
    step, peak = partial(_trains, model, optimiser, tokens, dtype), 0
    whole = measure.seconds(step, repeats=repeats, warm_up=2, wall=True).median
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        step()
        peak = torch.cuda.max_memory_allocated() - before
    update = measure.seconds(optimiser.step, repeats=repeats).median
    shape, alone = (batch, width["n_head"], t, width["n_embd"] // width["n_head"]), 0.0
    del model, optimiser, step
    clean()
    if attend is not _none:
        q, k, v, do = (torch.randn(shape, device=device, dtype=dtype).requires_grad_() for _ in range(4))
        call = partial(_attends, attend, q, k, v, do.detach())
        alone = measure.seconds(call, repeats=repeats, warm_up=2).median * width["n_layer"]
    return {"fits": True, "seconds": whole, "attention_seconds": alone, "optimiser_seconds": update, "peak_bytes": peak}


def _matmul_seconds(width: Sizes, tokens: int, small: bool) -> float:
    """Of the matmuls of all layers, forward and backward."""
    like: Any = {"device": runtime.device(), "dtype": own_dtype()}
    c = width["n_embd"]
    found = 0.0
    for wide, out in ((c, 3 * c), (c, c), (c, 4 * c), (4 * c, c)):
        x, w = (torch.randn(rows, wide, **like).requires_grad_() for rows in (tokens, out))
        dy = torch.randn(tokens, out, **like)
        call = partial(_multiplies, x, w, dy)
        found += measure.seconds(call, repeats=1 if small else 9).median
    return found * width["n_layer"]


def _multiplies(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> Any:
    return torch.autograd.grad(torch.nn.functional.linear(x, w), (x, w), dy)


def _trains(model: gpt.GPT, optimiser: torch.optim.Optimizer, tokens: torch.Tensor, dtype: torch.dtype) -> None:
    optimiser.zero_grad()
    loss_of(model, tokens, dtype).backward()
    optimiser.step()


def _attends(attend: gpt.Attend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> Any:
    return torch.autograd.grad(attend(q, k, v), (q, k, v), do)


def capstone_generation(small: bool = False) -> list[dict[str, Any]]:
    """Seconds for one new character of each sequence, with KVCache and without, in bf16, and the bytes that a step has to read.

    Weights do not matter to the clock: both models of ``capstone_context`` are taken as they start.
    """
    end = time.perf_counter() + BUDGET["generation"]
    rows: list[dict[str, Any]] = []
    widths = SMALL_WIDTHS if small else WIDTHS
    cells = ((1, 16),) if small else ((1, 1024), (1, 4096), (1, 16_384), (1, 65_536), (16, 1024), (16, 4096))
    for width, (batch, context) in itertools.product(widths, cells):
        model = new_model(gpt.ATTENTIONS["attention"], 0, {**width, "block_size": context})
        model = model.to(torch.bfloat16 if runtime.mode() == "GPU" else torch.float32)
        idx = gpt.load_text(whole=True).train[: batch * context].view(batch, context).to(runtime.device())
        size = model.lm_head.weight.element_size()
        kept = 2 * width["n_layer"] * batch * context * width["n_embd"] * size
        for how, new in (("cache", 4 if small else 48), ("no cache", 2 if small else 8)):
            if time.perf_counter() > end:
                log(f"{how} at {batch} × {context:,} of width {width['n_embd']} is left out")
                continue
            following = gpt.stream(model, idx, cache="KVCache" if how == "cache" else None, room=new + 3)
            row: dict[str, Any] = {
                **width,
                "parameters": model.parameter_count,
                "batch": batch,
                "context": context,
                "how": how,
                "new": new,
            }
            rows.append(row | {"seconds": _each(following, new), "bytes": model.parameter_count * size + kept})
            log(f"{width['n_embd']} wide, {batch} × {context:,}, {how}: {rows[-1]['seconds'] * 1e3:.3f} ms a step")
            del following
            clean()
    return rows


def _each(following: Iterator[torch.Tensor], new: int) -> float:
    """Seconds by the wall clock from one character to the next, the first three apart."""
    wait: Callable[[], Any] = torch.cuda.synchronize if runtime.mode() == "GPU" else lambda: None
    for _ in range(3):
        next(following)
    wait()
    begin = time.perf_counter()
    for _ in range(new):
        next(following)
    wait()
    return (time.perf_counter() - begin) / new

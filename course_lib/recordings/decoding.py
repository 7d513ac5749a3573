"""Decoding on this GPU: decode() and attention() beside torch's fused attention and FlexAttention, over batches and lengths."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex

from course_lib import runtime
from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.kernels.decoding import decode, splits_for
from course_lib.model.decoding import decode_traffic

HEADS, HEADS_K, D = 32, 8, 128
BATCHES, LENGTHS = (1, 16, 64, 128), (4096, 8192, 32_768, 131_072)
SHARE = 0.25  # of the GPU's memory: the most that K and V of a cell take
LOOP = 10e-3  # seconds that a loop of eager calls takes at least
WRONG = 0.02  # rms error as a share of the rms of what is right; rounding to bf16 makes 0.002 to 0.004
OURS, PAGED, SDPA, FLEX = "decode()", "decode(), pages of 16", "SDPA", "FlexAttention"


def decoding_speed(small: bool = False) -> list[dict[str, Any]]:
    """bf16, 32 heads of queries on 8 of 128: seconds of one step's attention in replayed graphs and in eager calls, and the bytes moved.

    decode() with a contiguous cache, with pages of 16 and 256 in shuffled order, and unsplit; attention(); torch's SDPA with
    ``enable_gqa``; compiled FlexAttention; a copy of K and V, whose bytes are read and written. All of a cell in alternating turns. Each
    answer is held against float64 in the first and the last head of a sequence. A peer that is wrong or raises is left out with a printed
    line; raises RuntimeError where one of ours is. ``small``: on the CPU in fp16, one cell of few keys, to see that it runs.
    """
    rows: list[dict[str, Any]] = []
    cells = [(1, 40)] if small else [(b, n) for b in BATCHES for n in LENGTHS if _bytes(b, n) <= _most()]
    begin = time.perf_counter()
    for batch, n in cells:
        rows += _cell(batch, n, small)
        print(f"{time.perf_counter() - begin:4.0f} s: {batch} × {n:,}", flush=True)
    return rows


def _bytes(batch: int, n: int) -> int:
    return 2 * batch * n * HEADS_K * D * 2


def _most() -> float:
    """Bytes that K and V of a cell take at most: what is beside them, copies and pages, needs room as well."""
    return SHARE * torch.cuda.get_device_properties(0).total_memory


def _cell(batch: int, n: int, small: bool) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    device, dtype = runtime.device(), torch.float16 if small else torch.bfloat16
    q = torch.randn(batch, HEADS, 1, D, device=device).to(dtype)
    k, v = (_filled(batch, n, device, dtype) for _ in "kv")
    calls = _calls(q, k, v, small)
    right = [_right(q, k, v, head) for head in (0, HEADS - 1)]
    rows: list[dict[str, Any]] = []
    for name in list(calls):
        try:
            error = (
                max(_error(calls[name](), x, head) for x, head in zip(right, (0, HEADS - 1), strict=True))
                if name != "copy"
                else 0.0
            )
            if not error <= WRONG:
                raise RuntimeError(f"its error is {error:.3f} of what is right")
        except Exception as error:
            if name.startswith(("decode", "attention")):
                raise RuntimeError(f"{name} fails at {batch} × {n:,}: {error}") from error
            print(f"{name} is left out: {batch} × {n:,}: {error}", flush=True)
            del calls[name]
    moved = decode_traffic(
        [n] * batch, HEADS, HEADS_K, D, dtype, block_m=16, block_n=64, splits=splits_for(q, HEADS_K, n)
    ).total_bytes
    for how, found in _timed(calls, small):
        for name, timing in found.items():
            row = {
                "algorithm": name,
                "how": how,
                "batch": batch,
                "n": n,
                "splits": splits_for(q, HEADS_K, n),
                "kv_bytes": _bytes(batch, n),
            }
            row |= {"bytes": 2 * _bytes(batch, n) if name == "copy" else moved, "seconds": timing.median}
            rows.append(row | {"quarter": timing.quarter, "three_quarters": timing.three_quarters})
    return rows


def _filled(batch: int, n: int, device: torch.device | str, dtype: torch.dtype) -> torch.Tensor:
    """[batch, heads, n, d] of normal numbers, made a sequence at a time: in float32 all of it would not fit."""
    x = torch.empty(batch, HEADS_K, n, D, device=device, dtype=dtype)
    for sequence in x:
        sequence.copy_(torch.randn(HEADS_K, n, D, device=device))
    return x


def _calls(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, small: bool) -> dict[str, Callable[[], Any]]:
    batch, n = k.shape[0], k.shape[2]
    lengths = torch.full((batch,), n, dtype=torch.int32, device=q.device)
    calls: dict[str, Callable[[], Any]] = {
        OURS: partial(decode, q, k, v, lengths, longest=n),
        "decode(), unsplit": partial(decode, q, k, v, lengths, splits=1),
        "attention()": partial(attention, q, k, v),
        SDPA: partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, enable_gqa=True),
    }
    for page in () if not small and 2 * _bytes(batch, n) > _most() else (16, 256):
        if n % page == 0 or small:
            pools, table = _paged(k, v, page)
            calls[f"decode(), pages of {page}"] = partial(
                decode, q, pools[0], pools[1], lengths, block_table=table, longest=n
            )
    if not small:
        torch._dynamo.reset()
        calls[FLEX] = partial(torch.compile(flex.flex_attention, dynamic=False), q, k, v, enable_gqa=True)
        to = torch.empty_like(k), torch.empty_like(v)
        calls["copy"] = lambda: (to[0].copy_(k), to[1].copy_(v))
    return calls


def _paged(k: torch.Tensor, v: torch.Tensor, page: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The same cache as pools of pages in shuffled order, NaN behind the last token, and the table."""
    batch, heads_k, n, d = k.shape
    slots = -(-n // page)
    order = torch.randperm(batch * slots, device=k.device)
    table = order.view(batch, slots).int()
    pools = []
    for x in (k, v):
        pool = torch.full((batch * slots, heads_k, page, d), torch.nan, dtype=x.dtype, device=x.device)
        for b in range(batch):
            whole = n // page
            pool[table[b, :whole].long()] = x[b, :, : whole * page].reshape(heads_k, whole, page, d).transpose(0, 1)
            if n % page:
                pool[int(table[b, -1]), :, : n % page] = x[b, :, whole * page :]
        pools.append(pool)
    return pools, table


def _right(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, head: int) -> torch.Tensor:
    """Attention of this head of the last sequence in float64, [d]."""
    h = head // (HEADS // HEADS_K)
    scores = k[-1, h].double() @ q[-1, head, 0].double() * D**-0.5
    return torch.softmax(scores, 0) @ v[-1, h].double()


def _error(found: Any, right: torch.Tensor, head: int) -> float:
    return measure.rms_error(found[-1, head, 0], right) / float(right.square().mean().sqrt())


def _timed(calls: dict[str, Callable[[], Any]], small: bool) -> Iterator[tuple[str, dict[str, measure.Timing]]]:
    if small:
        yield "eager", {name: measure.seconds(call, repeats=1, warm_up=0) for name, call in calls.items()}
        return
    yield "graphs", measure.seconds_interleaved(calls, rounds=9)
    counts, loops = {}, {}
    for name, call in calls.items():
        counts[name] = max(3, round(LOOP / measure.seconds(call, repeats=3).median))
        loops[name] = partial(_loop, call, counts[name])
    found = measure.seconds_interleaved(loops, rounds=9, graph=False)
    yield "eager", {name: measure.Timing(*(x / counts[name] for x in timing)) for name, timing in found.items()}


def _loop(call: Callable[[], Any], count: int) -> None:
    for _ in range(count):
        call()

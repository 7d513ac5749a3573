"""Decoding on this GPU: decode() and attention() beside torch's fused attention, over batches, lengths and numbers of splits."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention import flex_attention as flex

from course_lib import runtime
from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.kernels import tl, triton
from course_lib.kernels.decoding import decode, splits_for, tile_of
from course_lib.model.decoding import decode_traffic
from course_lib.recordings.capstone import clean
from course_lib.recordings.hopper import compile_together

HEADS, HEADS_K, D = 32, 8, 128
BATCHES, LENGTHS = (1, 16, 64, 128), (4096, 8192, 32_768, 131_072)
SHARE = 0.45  # of the GPU's memory: the most that K and V of a cell take, or that its pages take
FLEX_CELLS = ((1, 131_072), (64, 4096), (128, 4096))  # compiled anew in each
RAGGED = [4096] * 63 + [131_072]  # as many keys as 95 sequences of 4,096
COUNTS = {
    (1, 131_072): (8, 12, 15, 16, 17, 18, 20, 24, 32, 33, 34, 40, 49, 50, 64, 66, 99, 128),
    (64, 4096): (1, 2, 3, 4, 6, 8, 12),
}
LOOP, ROUNDS = 10e-3, 9  # seconds that a loop of eager calls takes at least; how often each is timed
WRONG = 0.02  # rms error as a share of the rms of what is right; rounding to bf16 makes 0.002 to 0.004
OURS, PAGED, SDPA, FLEX = "decode()", "decode(), pages of 16", "SDPA", "FlexAttention"

Calls = dict[str, Callable[[], Any]]


def decoding_speed(small: bool = False) -> list[dict[str, Any]]:
    """bf16, 32 heads of queries on 8 of 128: seconds of one step's attention in replayed graphs and in eager calls, and the bytes moved.

    An eager call's are those of a loop of calls, from the GPU's first to its last, for each; *host*: what Python took to hand over
    the same loops, for each call. Where the GPU is the faster of the two, both are the same.

    decode() with a contiguous cache, with pages of 16 and 256 in shuffled order, and unsplit; attention(); torch's SDPA with
    ``enable_gqa``, and with FlashAttention-2; compiled FlexAttention in three cells; *read*, a kernel that does no more than read K and V.
    All of a cell in alternating turns. ``kernel`` is what a peer launched, by its profile. Each answer is held against float64 in
    the first and the last head of a sequence. A peer that is wrong or raises is left out with a printed line; raises RuntimeError
    where one of ours is. ``small``: on the CPU in fp16, one cell of few keys, to see that it runs.
    """
    rows: list[dict[str, Any]] = []
    cells = [(1, 40)] if small else [(b, n) for b in BATCHES for n in LENGTHS if _bytes(b, n) <= _most()]
    begin = time.perf_counter()
    if not small:
        compile_together(_compile, [(page, splits) for page in (0, 16, 256) for splits in (1, 2, 32)])
    for batch, n in cells:
        rows += _cell(batch, n, small)
        clean()
        print(f"{time.perf_counter() - begin:4.0f} s: {batch} × {n:,}", flush=True)
    return rows


def decoding_splits(small: bool = False) -> list[dict[str, Any]]:
    """bf16, 32 heads of queries on 8 of 128: seconds of decode() in replayed graphs, over the number of splits, and for a ragged batch.

    Of the batch whose lengths are ``RAGGED``: unsplit, with 16 splits for each sequence, with splits by length in one piece and in
    pages of 16. Beside it as many keys in equal sequences, and SDPA. ``keys`` are those of all sequences. Checks, and ``small``, as
    ``decoding_speed``.
    """
    rows: list[dict[str, Any]] = []
    lengths = [40] * 3 + [200] if small else RAGGED
    equal = [(sum(lengths) // lengths[0], lengths[0])]
    for batch, n in [*({} if small else COUNTS), *equal]:
        q, k, v = _inputs([n] * batch, small)
        given = torch.full((batch,), n, dtype=torch.int32, device=q.device)
        calls: Calls = {str(s): partial(decode, q, k, v, given, splits=s) for s in COUNTS.get((batch, n), ())}
        calls |= {OURS: partial(decode, q, k, v, given, longest=n)} | {SDPA: _sdpa(q, k, v)}
        rows += _counted(calls, _answers(q, k, v, [n] * batch), [n] * batch, q, small)
        del q, k, v, calls
        clean()
    q, k, v = _inputs(lengths, small)
    given = torch.tensor(lengths, dtype=torch.int32, device=q.device)
    known = partial(decode, longest=max(lengths), total=sum(lengths))
    k_pages, v_pages, table = _paged(k, v, 16, lengths)
    calls = {str(s): partial(decode, q, k, v, given, splits=s) for s in (1, 16)}
    calls |= {OURS: partial(known, q, k, v, given)}
    calls |= {PAGED: partial(known, q, k_pages, v_pages, given, block_table=table)}
    return rows + _counted(calls, _answers(q, k, v, lengths), lengths, q, small)


def _counted(calls: Calls, right: Any, lengths: Sequence[int], q: torch.Tensor, small: bool) -> list[dict[str, Any]]:
    _keep_right(calls, right, f"{len(lengths)} × {max(lengths):,}")
    even, rows = len(set(lengths)) > 1, []
    chosen = splits_for(q, HEADS_K, sum(lengths) // len(lengths), even)
    for _, found in _timed(calls, small, only_graphs=True):
        for name, timing in found.items():
            row = {"algorithm": OURS if name.isdigit() else name, "chosen": not name.isdigit()}
            row |= {"splits": int(name) if name.isdigit() else chosen, "batch": len(lengths), "keys": sum(lengths)}
            rows.append(row | {"longest": max(lengths)} | _seconds(timing))
    return rows


def _seconds(timing: measure.Timing) -> dict[str, float]:
    return {"seconds": timing.median, "quarter": timing.quarter, "three_quarters": timing.three_quarters}


def _bytes(batch: int, n: int) -> int:
    return 2 * batch * n * HEADS_K * D * 2


def _most() -> float:
    """Bytes that K and V of a cell take at most: what is beside them needs room as well."""
    return SHARE * torch.cuda.get_device_properties(0).total_memory


def _compile(page: int, splits: int) -> None:
    q, k, v = _inputs([512] * 2, small=False)
    given, table = torch.full((2,), 512, dtype=torch.int32, device=q.device), None
    if page:
        k, v, table = _paged(k, v, page, [512] * 2)
    decode(q, k, v, given, block_table=table, splits=splits)
    torch.cuda.synchronize()


def _cell(batch: int, n: int, small: bool) -> list[dict[str, Any]]:
    lengths = [n] * batch
    q, k, v = _inputs(lengths, small)
    calls = _calls(q, k, v, small)
    _keep_right(calls, _answers(q, k, v, lengths), f"{batch} × {n:,}")
    if not small:
        calls["read"] = _reading(k, v)
    splits, tile = splits_for(q, HEADS_K, n), tile_of(q, HEADS // HEADS_K)
    cost = decode_traffic(
        lengths, HEADS, HEADS_K, D, q.dtype, block_m=tile.block_m, block_n=tile.block_n, splits=splits
    )
    kernels = {name: _kernels(call) for name, call in calls.items() if not small and name.startswith((SDPA, FLEX))}
    rows = []
    for how, found in _timed(calls, small):
        for name, timing in found.items():
            row = {
                "algorithm": name,
                "how": how,
                "batch": batch,
                "n": n,
                "splits": splits,
                "kv_bytes": _bytes(batch, n),
            }
            row |= {"bytes": _bytes(batch, n) if name == "read" else cost.total_bytes, "kernel": kernels.get(name, "")}
            rows.append(row | _seconds(timing))
    return rows


def _inputs(lengths: Sequence[int], small: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, and k and v with NaN behind each sequence's last token, made a sequence at a time: in float32 all of it would not fit."""
    torch.manual_seed(0)
    device, dtype = runtime.device(), torch.float16 if small else torch.bfloat16
    q = torch.randn(len(lengths), HEADS, 1, D, device=device).to(dtype)
    k, v = (torch.empty(len(lengths), HEADS_K, max(lengths), D, device=device, dtype=dtype) for _ in "kv")
    for x in (k, v):
        for sequence, n in zip(x, lengths, strict=True):
            sequence[:, :n] = torch.randn(HEADS_K, n, D, device=device).to(dtype)
            sequence[:, n:] = torch.nan
    return q, k, v


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], Any]:
    return partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, enable_gqa=True)


def _calls(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, small: bool) -> Calls:
    batch, n = k.shape[0], k.shape[2]
    lengths = torch.full((batch,), n, dtype=torch.int32, device=q.device)
    calls: Calls = {
        OURS: partial(decode, q, k, v, lengths, longest=n),
        "decode(), unsplit": partial(decode, q, k, v, lengths, splits=1),
        "attention()": partial(attention, q, k, v),
        SDPA: _sdpa(q, k, v),
    }
    for page in () if not small and 2 * _bytes(batch, n) > _most() else (16, 256):
        k_pages, v_pages, table = _paged(k, v, page, [n] * batch)
        calls[f"decode(), pages of {page}"] = partial(
            decode, q, k_pages, v_pages, lengths, block_table=table, longest=n
        )
    if not small:
        calls["SDPA, FlashAttention-2"] = partial(_flash, calls[SDPA])
    if (batch, n) in FLEX_CELLS:
        torch._dynamo.reset()
        calls[FLEX] = partial(torch.compile(flex.flex_attention, dynamic=False), q, k, v, enable_gqa=True)
    return calls


def _flash(call: Callable[[], Any]) -> Any:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return call()


@triton.jit
def _read(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, 0))


def _reading(*tensors: torch.Tensor) -> Callable[[], Any]:
    """Reads all elements of these contiguous tensors once, and keeps the largest of each block."""
    block = 2**13
    largest = [x.new_empty(x.numel() // block) for x in tensors]

    def call() -> None:
        for x, out in zip(tensors, largest, strict=True):
            _read[(len(out),)](x, out, BLOCK=block, num_warps=8)

    return call


def _kernels(call: Callable[[], Any]) -> str:
    """The names of the kernels that a call launches, without their arguments, the longest-lasting first."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        call()
        torch.cuda.synchronize()
    found = [event for event in profiled.key_averages() if event.device_time_total > 0]
    found.sort(key=lambda event: -event.device_time_total)
    return ", ".join(event.key.partition("(")[0].partition("<")[0].removeprefix("void ") for event in found)


def _paged(
    k: torch.Tensor, v: torch.Tensor, page: int, lengths: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same cache as pools of pages in shuffled order, NaN behind the last tokens, and the table."""
    slots = [-(-n // page) for n in lengths]
    order = torch.randperm(sum(slots), device=k.device).int()
    table = torch.full((len(lengths), max(slots)), -1, dtype=torch.int32, device=k.device)
    pools = [
        torch.full((sum(slots), k.shape[1], page, k.shape[3]), torch.nan, dtype=k.dtype, device=k.device) for _ in "kv"
    ]
    for b, (n, own) in enumerate(zip(lengths, order.split(slots), strict=True)):
        table[b, : len(own)] = own
        whole = n // page
        for x, pool in zip((k, v), pools, strict=True):
            pool[own[:whole].long()] = x[b, :, : whole * page].unflatten(1, (whole, page)).transpose(0, 1)
            if n % page:
                pool[int(own[-1]), :, : n % page] = x[b, :, whole * page : n]
    return pools[0], pools[1], table


def _answers(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: Sequence[int]
) -> dict[tuple[int, int], torch.Tensor]:
    """Attention in float64, [d], by sequence and head: the first head and the last, in the first sequence and the last."""
    places = [(b, head) for b in (0, len(lengths) - 1) for head in (0, HEADS - 1)]
    return {(b, head): _right(q[b], k[b, :, : lengths[b]], v[b, :, : lengths[b]], head) for b, head in places}


def _right(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, head: int) -> torch.Tensor:
    h = head // (HEADS // HEADS_K)
    scores = k[h].double() @ q[head, 0].double() * D**-0.5
    return torch.softmax(scores, 0) @ v[h].double()


def _keep_right(calls: Calls, answers: dict[tuple[int, int], torch.Tensor], label: str) -> None:
    """Drop who is wrong or raises, with a printed line; RuntimeError if it is one of ours."""
    for name in list(calls):
        try:
            o = calls[name]()
            error = max(
                measure.rms_error(o[b, head, 0], right) / float(right.square().mean().sqrt())
                for (b, head), right in answers.items()
            )
            if not error <= WRONG:
                raise RuntimeError(f"its error is {error:.3f} of what is right")
        except Exception as error:
            if not name.startswith((SDPA, FLEX)):
                raise RuntimeError(f"{name} fails at {label}: {error}") from error
            print(f"{name} is left out: {label}: {error}", flush=True)
            del calls[name]


def _timed(calls: Calls, small: bool, only_graphs: bool = False) -> Iterator[tuple[str, dict[str, measure.Timing]]]:
    if small:
        yield "eager", {name: measure.seconds(call, repeats=1, warm_up=0) for name, call in calls.items()}
        return
    yield "graphs", measure.seconds_interleaved(calls, rounds=ROUNDS)
    if only_graphs:
        return
    counts, loops = {}, {}
    host: dict[str, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        counts[name] = max(3, round(LOOP / measure.seconds(call, repeats=3).median))
        loops[name] = partial(_loop, call, counts[name], host[name])
    found = measure.seconds_interleaved(loops, rounds=ROUNDS, graph=False)
    yield "eager", {name: measure.Timing(*(x / counts[name] for x in timing)) for name, timing in found.items()}
    # Those before the last rounds warmed up.
    yield "host", {name: measure.Timing.of(samples[-ROUNDS:]) for name, samples in host.items()}


def _loop(call: Callable[[], Any], count: int, host: list[float]) -> None:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    host.append((time.perf_counter() - begin) / count)

"""What a call of attention() costs the host, the thread that runs Python, whatever the GPU then does.

Calls follow one another without waiting, few enough that the GPU's queue does not fill; then all are waited for.
"""

import contextlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.attention import sdpa_kernel

from course_lib import attention as module
from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.instruments.peers import FUSED
from course_lib.kernels.fast_launch import Replayed
from course_lib.show.tables import Table

SHAPES = ((1, 2, 64, 64), (1, 16, 1024, 128), (4, 16, 2048, 128))  # [B, H, N, D]: tiny; usual ones
BURST, ROUNDS = 20, 40  # calls between two waits; how often
# A backward pass runs on a thread of autograd's own, which has to be woken; on one thread it runs where it is asked for.
MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "forward": contextlib.nullcontext,
    "forward and backward": contextlib.nullcontext,
    "forward and backward, one thread": partial(torch.autograd.set_multithreading_enabled, False),
}


def attention_host() -> list[dict[str, Any]]:
    """Microseconds of the host for a call, bf16, without a mask: without autograd, with it, and with the backward pass (``MODES``).

    Beside torch's own attention, and beside what attention() was made of before: launches by Triton's binder, with and
    without an operator of torch's library around them.
    """
    rows = []
    for shape in measure.progress(SHAPES, "shape"):
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        do, options = torch.randn_like(q), (False, 0, shape[3] ** -0.5, 0.0)
        repeated = Replayed(module.launch_forward, options)
        calls: dict[str, Callable[[], Any]] = {"attention()": partial(attention, q, k, v)}
        calls |= {name: partial(torch.nn.functional.scaled_dot_product_attention, q, k, v) for name in FUSED}
        calls["an operator, Triton's launch"] = partial(_by_operator, q, k, v)
        parts: dict[str, Callable[[], Any]] = {
            "Triton's launch alone": partial(module.launch_forward, q, k, v, *options),
            "the repeated launch alone": partial(repeated, (), (q, k, v)),
        }
        for mode, within in MODES.items():
            for name, call in (calls | (parts if mode == "no_grad" else {})).items():
                run = partial(_backward, call, (q, k, v), do) if "backward" in mode else call
                chosen = sdpa_kernel(FUSED[name]) if name in FUSED else contextlib.nullcontext()
                with chosen, within():
                    low, middle, high = microseconds(run)
                b, h, n, d = shape
                rows.append(
                    {"batch": b, "heads": h, "n": n, "d": d, "mode": mode, "algorithm": name}
                    | {"host_us": round(middle, 1), "quarter_us": round(low, 1), "three_quarters_us": round(high, 1)}
                )
    return rows


def _by_operator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return module._forward(q, k, v, *module.attention_options(q, k, v, False, None, None, 0))[0]


def _backward(call: Callable[[], torch.Tensor], leaves: tuple[torch.Tensor, ...], do: torch.Tensor) -> None:
    torch.autograd.grad(call(), leaves, do)


def microseconds(call: Callable[[], Any]) -> list[float]:
    """Of the host for a call: quartiles over the rounds of the mean over a burst."""
    samples = []
    for _ in range(ROUNDS + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(BURST):
            call()
        samples.append((time.perf_counter() - begin) / BURST * 1e6)
    return statistics.quantiles(samples[3:], n=4)


def table(rows: list[dict[str, Any]]) -> Table:
    """Microseconds by what was called (rows) and shape and mode (columns)."""
    cells = {((row["batch"], row["heads"], row["n"], row["d"], row["mode"]), row["algorithm"]): row for row in rows}
    columns = list(dict.fromkeys(column for column, _ in cells))
    names = list(dict.fromkeys(row["algorithm"] for row in rows))
    headers = ["host, µs a call", *(f"{list(column[:4])} {column[4]}" for column in columns)]
    found = [[cells.get((column, name), {}).get("host_us", "") for column in columns] for name in names]
    return Table(headers, [[name, *line] for name, line in zip(names, found, strict=True)])

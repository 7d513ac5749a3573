"""attention() forward and backward beside the fused attentions that torch brings, and in a model that trains."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from course_lib import gpt
from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.instruments.peers import FUSED, fused, plain_attention
from course_lib.publish import notebooks

TOKENS, HIDDEN = 16_384, 2048  # of each cell: batch × N and heads × d


def flops(n: int, causal: bool) -> float:
    """Of the two matmuls of attention on such a cell, as the papers count: 4 N² d per head, half of it under a causal mask."""
    return 4 * TOKENS * n * HIDDEN * (0.5 if causal else 1)


def _torchs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _ours(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    o = attention(q, k, v, causal=causal)
    assert isinstance(o, torch.Tensor)
    return o


def _results(
    attend: Callable[..., torch.Tensor], tensors: list[torch.Tensor], do: torch.Tensor, causal: bool
) -> list[torch.Tensor]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    o = attend(*leaves, causal)
    return [o.detach(), *torch.autograd.grad(o, leaves, do.to(o.dtype))]


def _errors(
    attend: Callable[..., torch.Tensor],
    oracle: list[torch.Tensor],
    tensors: list[torch.Tensor],
    do: torch.Tensor,
    causal: bool,
) -> list[float]:
    """Largest errors of O, dQ, dK, dV of the first head; the others are the same program on other numbers."""
    found = _results(attend, [x[:1, :1] for x in tensors], do[:1, :1], causal)
    return [measure.max_error(mine, right) for mine, right in zip(found, oracle, strict=True)]


def attention_speed() -> list[dict[str, Any]]:
    """bf16, 16,384 tokens of 2,048 numbers, N = 1k, 4k, 16k: seconds forward and backward, interleaved, TFLOP/s, and errors.

    FLOPs as the papers count them (``flops``), 2.5 times as much backward.
    """
    versions: dict[str, Callable[..., torch.Tensor]] = {"attention": _ours} | {
        name: partial(fused, name) for name in FUSED
    }
    shapes = [(d, causal, n) for d in (64, 128) for causal in (False, True) for n in (1024, 4096, 16_384)]
    rows = []
    for d, causal, n in measure.progress(shapes, "d, causal, N"):
        torch.manual_seed(0)
        shape = (TOKENS // n, HIDDEN // d, n, d)
        *tensors, do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        oracle = _results(plain_attention, [x[:1, :1].double() for x in tensors], do[:1, :1], causal)
        plain = _errors(plain_attention, oracle, tensors, do, causal)
        errors = {name: _errors(attend, oracle, tensors, do, causal) for name, attend in versions.items()}
        forward = {name: partial(attend, *tensors, causal) for name, attend in versions.items()}
        backward = {name: _backward(attend, tensors, do, causal) for name, attend in versions.items()}
        seconds = measure.seconds_interleaved(forward), measure.seconds_interleaved(backward, graph=False)
        for name in versions:
            there, back = (times[name].median for times in seconds)
            row = {"algorithm": name, "d": d, "causal": causal, "n": n, "forward_seconds": there}
            row |= {"backward_seconds": back, "forward_tflops": flops(n, causal) / there / 1e12}
            row |= {"backward_tflops": 2.5 * flops(n, causal) / back / 1e12}
            row |= {f"{x}_error": error for x, error in zip(("o", "dq", "dk", "dv"), errors[name], strict=True)}
            rows.append(
                row | {f"plain_{x}_error": error for x, error in zip(("o", "dq", "dk", "dv"), plain, strict=True)}
            )
    return rows


def _backward(
    attend: Callable[..., torch.Tensor], tensors: list[torch.Tensor], do: torch.Tensor, causal: bool
) -> Callable[[], Any]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    return partial(torch.autograd.grad, attend(*leaves, causal), leaves, do, retain_graph=True)


def training_run() -> list[dict[str, Any]]:
    """A character model on the text of the lectures, one compiled graph, bf16 autocast: loss and seconds of every fifth step.

    Three attentions from one start on the same batches: ours, torch's fused one, and plain torch for how far rounding
    alone leads apart.
    """
    text = "\n\n".join(notebooks.prose(path) for path in notebooks.lectures())
    versions: dict[str, Callable[..., torch.Tensor]] = {
        "attention": _ours,
        "sdpa": _torchs,
        "standard": plain_attention,
    }
    rows = []
    for name, attend in versions.items():
        run = gpt.train(
            partial(_causal, attend), text, steps=600, batch=16, length=2048, width=768, heads=12, layers=6, lr=6e-4,
            device="cuda", dtype=torch.bfloat16, compiled=True,
        )  # fmt: skip
        for step, (loss, seconds) in enumerate(zip(run.losses, run.seconds, strict=True)):
            if step % 5 == 0 or step == len(run.losses) - 1:
                rows.append({"algorithm": name, "step": step, "loss": round(loss, 5), "seconds": round(seconds, 6)})
    return rows


def _causal(attend: Callable[..., torch.Tensor], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attend(q, k, v, True)

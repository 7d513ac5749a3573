"""Bad arguments: of each function that a page calls, each argument in turn is replaced by what nobody should pass.

What comes back has to be a TypeError or ValueError of ours that names the argument: no result, no error from inside.
"""

import functools
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from course_lib import algorithms, checks, data, gpt, ladder, runtime
from course_lib.instruments import measure, peers
from course_lib.kernels import eight_bit, lite, loop_orders, matmul, online
from course_lib.kernels import softmax as softmax_kernels
from course_lib.model import cost, formats, memory, quantize, reference, registers, roofline, rounding, softmax

Q, K, V, O, DO, X, Y = torch.randn(7, 16, 16, generator=torch.Generator().manual_seed(0)).unbind()
L = torch.logsumexp(Q @ K.T / 4, dim=1)
HEAD, WIDE = {"q": Q, "k": K, "v": V}, {name: torch.randn(1, 1, 16, 32) for name in "qkv"}
BLOCKS = {"block_m": 16, "block_n": 16}
TILED = HEAD | BLOCKS
BACKWARD = HEAD | {"o": O, "L": L, "do": DO} | BLOCKS | {"causal": True}
ROUNDED = {"inputs": "fp16", "scores": "fp32", "weights": "bf16", "accumulator": "fp32", "toward_zero": True}
SDPA = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
SIZES = {"attend": SDPA, "width": 8, "heads": 2, "layers": 1, "length": 4}
TRAINED = {"text": "abcdefgh" * 2, "steps": 1, "batch": 1, "lr": 0.1, "dtype": torch.float32, "compiled": False}
NONE, MEMORY, GPU = softmax.start(X, V), memory.Memory(), data.gpu("H200")

# What is called, with arguments that are right: keyword arguments, or {} of them.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **{
        f"algorithms.{name}": (getattr(algorithms, name), TILED)
        for name in ("lite_attention", "online_attention", "linear_v1", "linear_v2")
    },
    **{
        f"algorithms.{name}": (getattr(algorithms, name), TILED | {"causal": True})
        for name in ("flash_v1", "flash_running", "flash_v2")
    },
    **{
        f"algorithms.{name}": (getattr(algorithms, name), BACKWARD)
        for name in ("backward_over_kv", "backward_over_q", "backward_two_passes")
    },
    "algorithms.standard_attention": (algorithms.standard_attention, TILED | {"sram_bytes": 10**6}),
    "algorithms.tiled_matmul": (algorithms.tiled_matmul, {"a": X, "b": Y, "block_k": 16} | BLOCKS),
    "algorithms.online_softmax": (algorithms.online_softmax, {"x": L, "block": 3}),
    "algorithms.softmax_average": (algorithms.softmax_average, {"x": L, "v": V, "block": 3}),
    "reference.attention": (reference.attention, HEAD | {"scale": 0.5, "causal": True}),
    "softmax.weights": (softmax.weights, {"x": X, "m": L}),
    "softmax.correction": (softmax.correction, {"m_old": L, "m_new": L + 1}),
    "softmax.online": (softmax.online, {"x": X, "block": 3, "stats_dtype": torch.float64}),
    "softmax.average": (softmax.average, {"x": X, "values": V, "block": 3}),
    "softmax.update": (softmax.update, {"state": NONE, "x": X, "values": V}),
    "softmax.merge": (softmax.merge, {"a": NONE, "b": NONE}),
    "peers.plain_attention": (peers.plain_attention, HEAD | {"causal": True}),
    "quantize.quantise": (quantize.quantise, {"x": X, "format": "e4m3", "per": "block", "block": 4}),
    "quantize.rotate": (quantize.rotate, {"x": X, "sign": quantize.signs(16)}),
    "quantize.eight_bit_attention": (
        quantize.eight_bit_attention,
        HEAD | {"per": "block", "sign": quantize.signs(16), "format": "e4m3", "block": 4},
    ),
    "rounding.rounded_attention": (rounding.rounded_attention, HEAD | {"block": 4} | ROUNDED),
    "formats.rounded": (functools.partial(formats.rounded, name="fp16"), {"x": X, "toward_zero": True}),
    "formats.bits": (functools.partial(formats.bits, name="fp16"), {"x": 1.5}),
    "roofline.intensity": (roofline.intensity, {"flops": 100.0, "traffic": 7.5}),
    "roofline.attainable": (roofline.attainable, {"gpu": GPU, "intensity": 3.5, "dtype": "fp16"}),
    "registers.tiles": (registers.tiles, {"d": 64, "block_n": 128, "in_flight": 2, "rows": 64}),
    "data.gpu": (lambda gpu: data.gpu(gpu), {"gpu": "H200"}),
    "data.measured": (data.measured, {"device": "nvidia-h200", "name": "forward_ladder"}),
    "runtime.setup": (runtime.setup, {"seed": 1}),
    "gpt.train": (gpt.train, SIZES | TRAINED),
    "gpt.GPT": (
        gpt.GPT,
        {"attend": SDPA, "vocab_size": 5, "block_size": 4, "n_layer": 1, "n_head": 2, "n_embd": 8}
        | {"positions": "rotary", "tied": True},
    ),
    "measure.max_error": (measure.max_error, {"x": X, "oracle": Y}),
    "Memory": (memory.Memory, {"sram_bytes": 100}),
    "Memory.hbm": (lambda Z: memory.Memory().hbm("Z", Z), {"Z": X}),
    "Memory.tile": (MEMORY.tile, {"name": "t", "value": X}),
    "Memory.matmul": (MEMORY.matmul, {"a": X, "b": Y}),
    "cost.flash_v2_traffic": (cost.flash_v2_traffic, {"n": 8, "d": 4, "causal": True, "lse": True} | BLOCKS),
    "cost.attention_flops": (cost.attention_flops, {"n": 8, "d": 4, "n_k": 8, "d_v": 4}),
    "cost.tiled_matmul_traffic": (cost.tiled_matmul_traffic, {"m": 8, "n": 4, "k": 4, "dtype": "fp16"} | BLOCKS),
    "measure.slope": (measure.slope, {"lengths": [1, 2, 4], "seconds": [1.0, 2.0, 3.0]}),
    "ladder.attention_floats": (ladder.python.attention_floats, {name: x.tolist() for name, x in HEAD.items()}),
    "kernels.flash_online": (online.flash_online, TILED | {"input_precision": "ieee"}),
    "kernels.flash_lite": (lite.flash_lite, TILED),
    "kernels.flash_v2": (
        loop_orders.flash_v2,
        {name: x[None] for name, x in HEAD.items()} | BLOCKS | {"causal": True, "split": 1, "num_stages": 2},
    ),
    "kernels.tiled_matmul": (matmul.tiled_matmul, {"a": X, "b": Y} | BLOCKS),
    "kernels.online_softmax": (softmax_kernels.online_softmax, {"x": X, "block": 16}),
    "kernels.softmax_average": (softmax_kernels.softmax_average, {"x": X, "v": L, "block": 16}),
    "kernels.eight_bit.attention": (
        eight_bit.attention,
        WIDE | {"sign": quantize.signs(32), "causal": True, "kernel": "Triton", "permuted": True},
    ),
}
TAKES = {
    "measure.max_error": "int64",
    "formats.rounded": "empty meta",
    "Memory.tile": "meta",
}  # what these compute with
NAMES = [pytest.param(name, marks=[pytest.mark.kernel] * name.startswith("kernels.")) for name in CALLS]


def tensors(x: torch.Tensor) -> Iterator[tuple[str, Any]]:
    """What is no dense, non-empty tensor of floating-point numbers that can be read, made from one that is."""
    warnings.simplefilter("ignore")  # torch calls one of the layouts a prototype
    yield "text", "x"
    yield "object", object()
    yield "complex", x.to(torch.complex64)
    yield "int64", x.long()
    yield "meta", x.to("meta")
    yield "empty", x[..., :0]
    yield "sparse", x.to_sparse()
    yield "nested", torch.nested.nested_tensor([x, x])


BAD: dict[type, tuple[Any, ...]] = {
    bool: ("no", 1, torch.ones(2)),
    int: ("3", 2.0, True, -1, -(10**5000), np.float64(2), torch.ones(2)),
    float: ("3", True, 1j, float("nan"), -float("inf"), -(10**5000), torch.ones(2)),
    str: (3, b"x", ["x"], torch.ones(2), object()),
    torch.dtype: (torch.int32, torch.complex64, "float32"),
    list: ("x", 3, [], {"a": 1}, [[]], [["a"]], [[1.0], [2.0, 3.0]]),
}
OTHERS = ("x", object(), 3, [], torch.ones(2))


def wrong_ones(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, torch.Tensor):
        return list(tensors(value))
    return [(checks.shown(x), x) for x in BAD.get(type(value), OTHERS)]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_argument_is_refused_by_name(name: str) -> None:
    call, good = CALLS[name]
    if name.startswith("kernels."):
        good = {key: x.to(runtime.device()) if isinstance(x, torch.Tensor) else x for key, x in good.items()}
    wrong = []
    for argument, value in good.items():
        for label, bad in wrong_ones(value):
            if label in TAKES.get(name, "").split():
                continue
            try:
                call(**good | {argument: bad})
                wrong.append(f"{argument} = {label}: no error")
            except (TypeError, ValueError) as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                named = re.search(rf"(?<!\w){argument}(?!\w)", str(error))
                if not named or "course_lib" not in at.filename or "raise" not in (at.line or "raise"):
                    wrong.append(f"{argument} = {label}: {error!r:.120} in {Path(at.filename).name}")
            except Exception as error:
                wrong.append(f"{argument} = {label}: {error!r:.120}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith("algorithms.") and "q" in CALLS[name][1]])
def test_attention_takes_finite_numbers_whose_sums_are_finite(name: str) -> None:
    call, good = CALLS[name]
    for argument in ("q", "k", "v"):
        with pytest.raises(ValueError, match=rf"{argument} contains an infinity"):
            call(**good | {argument: torch.where(torch.arange(16)[:, None] == 3, -torch.inf, Q)})
        with pytest.raises(ValueError, match="overflow"):
            call(**good | {argument: torch.full((16, 16), 3e38)})

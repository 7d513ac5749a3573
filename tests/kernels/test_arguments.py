"""Bad arguments: of each public function, each argument in turn is replaced by what nobody should pass.

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

from course_lib import checks, gpt, runtime
from course_lib.instruments import measure
from course_lib.kernels import eight_bit, lite, loop_orders, matmul, online, operands
from course_lib.kernels import softmax as softmax_kernels
from course_lib.model import quantize

Q, K, V, O, DO, X, Y = torch.randn(7, 16, 16, generator=torch.Generator().manual_seed(0)).unbind()
L = torch.logsumexp(Q @ K.T / 4, dim=1)
HEAD, HEADS = {"q": Q, "k": K, "v": V}, {"q": Q[None, None], "k": K[None, None], "v": V[None, None]}
WIDE = {name: torch.randn(1, 1, 16, 32) for name in "qkv"}
BLOCKS = {"block_m": 16, "block_n": 16}
SDPA = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
MODEL = {"attend": SDPA, "width": 8, "heads": 2, "layers": 1, "length": 4}


def on_device(good: dict[str, Any]) -> dict[str, Any]:
    return {name: x.to(runtime.device()) if isinstance(x, torch.Tensor) else x for name, x in good.items()}


# What is called, with arguments that are right: keyword arguments, or {} of them.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "gpt.GPT": (
        gpt.GPT,
        {"attend": SDPA, "vocab_size": 5, "block_size": 4, "n_layer": 1, "n_head": 2, "n_embd": 8}
        | {"positions": "rotary", "tied": True},
    ),
    "measure.max_error": (measure.max_error, {"x": X, "oracle": Y}),
    "measure.rms_error": (measure.rms_error, {"x": X, "oracle": Y}),
    "measure.slope": (measure.slope, {"lengths": [1, 2, 4], "seconds": [1.0, 2.0, 3.0]}),
    "kernels.flash_online": (online.flash_online, HEAD | BLOCKS | {"input_precision": "ieee"}),
    "kernels.flash_lite": (lite.flash_lite, HEAD | BLOCKS),
    "kernels.flash_v2": (
        loop_orders.flash_v2,
        {name: x[None] for name, x in HEAD.items()} | BLOCKS | {"causal": True, "split": 1, "num_stages": 2},
    ),
    "kernels.tiled_matmul": (matmul.tiled_matmul, {"a": X, "b": Y} | BLOCKS),
    "kernels.online_softmax": (softmax_kernels.online_softmax, {"x": X, "block": 16}),
    "kernels.offline_softmax": (softmax_kernels.offline_softmax, {"x": X, "block": 16}),
    "kernels.softmax_average": (softmax_kernels.softmax_average, {"x": X, "v": L, "block": 16}),
    "kernels.eight_bit.forward": (
        lambda causal: eight_bit.forward(operands.quantise(**on_device(WIDE)), causal),
        {"causal": True},
    ),
    "kernels.quantise_values": (operands.quantise_values, {"v": WIDE["v"], "permuted": True}),
    "kernels.eight_bit.attention": (
        eight_bit.attention,
        WIDE | {"sign": quantize.signs(32), "causal": True, "kernel": "Triton", "permuted": True},
    ),
    "kernels.operands.quantise_rows": (operands.quantise_rows, {"x": WIDE["q"], "block": 64}),
}
TAKES = {  # these compare numbers of any kind, know infinity, or go element by element
    "measure.max_error": ("int64", "bool", "float8"),
    "measure.rms_error": ("int64", "bool", "float8"),
}
NAMES = [pytest.param(name, marks=[pytest.mark.kernel] * name.startswith("kernels.")) for name in CALLS]


def tensors(x: torch.Tensor) -> Iterator[tuple[str, Any]]:
    """What is no dense, non-empty tensor of floating-point numbers that can be read, made from one that is."""
    warnings.simplefilter("ignore")  # torch calls two of the layouts a prototype
    yield "text", "x"
    yield "object", object()
    yield "dict", {"a": x}
    yield "complex", x.to(torch.complex64)
    yield "int64", x.long()
    yield "bool", x > 0
    yield "meta", x.to("meta")
    yield "empty", x[..., :0]
    yield "sparse", x.to_sparse()
    yield "nested", torch.nested.nested_tensor([x, x])
    yield "jagged", torch.nested.nested_tensor([x, x], layout=torch.jagged)
    yield "quantised", torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8)
    yield "float8", x.to(torch.float8_e4m3fn)


BAD: dict[type, Callable[[Any], list[tuple[str, Any]]]] = {
    torch.Tensor: lambda x: list(tensors(x)),
    bool: lambda x: [(checks.shown(y), y) for y in ("no", 1, 0.0, [], torch.ones(2))],
    int: lambda x: [
        (checks.shown(y), y) for y in ("3", 2.0, True, 0.5, -1, -(10**5000), np.float64(2), [], torch.ones(2))
    ],
    float: lambda x: [
        (checks.shown(y), y) for y in ("3", True, 1j, float("nan"), -float("inf"), -(10**5000), [], torch.ones(2))
    ],
    str: lambda x: [(checks.shown(y), y) for y in (3, b"x", ["x"], {"x": 1}, 1.5, True, torch.ones(2), object())],
    torch.dtype: lambda x: [
        (checks.shown(y), y) for y in (torch.int32, torch.complex64, torch.float8_e4m3fn, "float32", 3)
    ],
    list: lambda x: [
        (checks.shown(y), y)
        for y in (
            "x",
            3,
            [],
            {"a": 1},
            [1],
            [{"a": 1}, {"b": 1}],
            [{"a": None}],
            [{"a": -1}],
            [[]],
            [["a"]],
            [[1.0], [2.0, 3.0]],
        )
    ],
}
OTHERS = [("text", "x"), ("object", object()), ("number", 3), ("list", []), ("tensor", torch.ones(2))]


def kind(value: Any) -> type:
    return torch.Tensor if isinstance(value, torch.Tensor) else type(value)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_argument_is_refused_by_name(name: str) -> None:
    call, good = CALLS[name]
    if name.startswith("kernels."):
        good = on_device(good)
    wrong = []
    for argument, value in good.items():
        for label, bad in BAD.get(kind(value), lambda x: OTHERS)(value):
            if label in TAKES.get(name, ()):
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

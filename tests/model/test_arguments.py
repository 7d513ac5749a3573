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

from course_lib import algorithms, checks, claims, data, gpt, ladder, runtime
from course_lib.instruments import measure, peers
from course_lib.kernels import eight_bit, lite, loop_orders, matmul, online, operands
from course_lib.kernels import softmax as softmax_kernels
from course_lib.model import cost, formats, memory, quantize, reference, registers, roofline, rounding, softmax
from course_lib.recordings import records

Q, K, V, O, DO, X, Y = torch.randn(7, 16, 16, generator=torch.Generator().manual_seed(0)).unbind()
L = torch.logsumexp(Q @ K.T / 4, dim=1)
HEAD, HEADS = {"q": Q, "k": K, "v": V}, {"q": Q[None, None], "k": K[None, None], "v": V[None, None]}
WIDE = {name: torch.randn(1, 1, 16, 32) for name in "qkv"}
BLOCKS = {"block_m": 16, "block_n": 16}
SEEN = softmax.update(softmax.start(X, V), X, V)
NONE = softmax.start(X, V)
MEMORY = memory.Memory()
GPU = data.gpu("H200")
SDPA = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
MODEL = {"attend": SDPA, "width": 8, "heads": 2, "layers": 1, "length": 4}


def on_device(good: dict[str, Any]) -> dict[str, Any]:
    return {name: x.to(runtime.device()) if isinstance(x, torch.Tensor) else x for name, x in good.items()}


# What is called, with arguments that are right: keyword arguments, or {} of them.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "standard_attention": (algorithms.standard_attention, HEAD | BLOCKS | {"sram_bytes": 10**6}),
    "lite_attention": (algorithms.lite_attention, HEAD | BLOCKS),
    "online_attention": (algorithms.online_attention, HEAD | BLOCKS),
    "linear_v1": (algorithms.linear_v1, HEAD | BLOCKS),
    "linear_v2": (algorithms.linear_v2, HEAD | BLOCKS),
    "flash_v1": (algorithms.flash_v1, HEAD | BLOCKS | {"causal": True}),
    "flash_running": (algorithms.flash_running, HEAD | BLOCKS | {"causal": True}),
    "flash_v2": (algorithms.flash_v2, HEAD | BLOCKS | {"causal": True}),
    **{
        name: (getattr(algorithms, name), HEAD | {"o": O, "L": L, "do": DO} | BLOCKS | {"causal": True})
        for name in ("backward_over_kv", "backward_over_q", "backward_two_passes")
    },
    "standard_matmul": (algorithms.standard_matmul, {"a": X, "b": Y}),
    "tiled_matmul": (algorithms.tiled_matmul, {"a": X, "b": Y, "block_k": 16} | BLOCKS),
    "offline_softmax": (algorithms.offline_softmax, {"x": L, "block": 3}),
    "online_softmax": (algorithms.online_softmax, {"x": L, "block": 3}),
    "softmax_average": (algorithms.softmax_average, {"x": L, "v": V, "block": 3}),
    "blocks": (algorithms.blocks, {"length": 7, "block": 3}),
    "reference.softmax": (reference.softmax, {"x": X}),
    "reference.attention": (reference.attention, HEAD | {"scale": 0.5, "causal": True}),
    "softmax.weights": (softmax.weights, {"x": X, "m": L}),
    "softmax.correction": (softmax.correction, {"m_old": L, "m_new": L + 1}),
    "softmax.offline": (softmax.offline, {"x": X, "stats_dtype": torch.float64}),
    "softmax.online": (softmax.online, {"x": X, "block": 3, "stats_dtype": torch.float64}),
    "softmax.online_states": (softmax.online_states, {"x": X, "block": 3}),
    "softmax.average": (softmax.average, {"x": X, "values": V, "block": 3}),
    "softmax.normalise": (softmax.normalise, {"s": X, "state": SEEN}),
    "softmax.start": (softmax.start, {"x": X, "values": V, "stats_dtype": torch.float64}),
    "softmax.update": (softmax.update, {"state": NONE, "x": X, "values": V}),
    "softmax.merge": (softmax.merge, {"a": SEEN, "b": NONE}),
    "softmax.log_sum_exp": (softmax.log_sum_exp, {"state": SEEN}),
    "softmax.output": (softmax.output, {"state": SEEN}),
    **{
        f"softmax.State.{part}": (
            lambda part=part, **given: softmax.update(NONE._replace(**given), X, V),
            {part: getattr(NONE, part)},
        )
        for part in softmax.State._fields
    },
    "peers.plain_attention": (peers.plain_attention, HEAD | {"causal": True}),
    "peers.sdpa": (peers.sdpa, HEAD),
    "peers.fused": (peers.fused, {"name": "FA2"} | {name: x.half() for name, x in HEADS.items()} | {"causal": True}),
    "quantize.largest": (quantize.largest, {"format": "e4m3"}),
    "quantize.quantise": (quantize.quantise, {"x": X, "format": "e4m3", "per": "block", "block": 4}),
    "quantize.signs": (quantize.signs, {"d": 4, "seed": 1}),
    "quantize.butterflies": (quantize.butterflies, {"x": X}),
    "quantize.hadamard": (quantize.hadamard, {"x": X}),
    "quantize.rotate": (quantize.rotate, {"x": X, "sign": quantize.signs(16)}),
    "quantize.folded": (quantize.folded, {"weight": X, "sign": quantize.signs(16)}),
    "quantize.outliers": (quantize.outliers, {"n": 4, "d": 3, "rate": 0.5, "size": 10.0, "seed": 1}),
    "quantize.eight_bit_attention": (
        quantize.eight_bit_attention,
        HEAD | {"per": "block", "sign": quantize.signs(16), "format": "e4m3", "block": 4},
    ),
    "rounded_attention": (
        rounding.rounded_attention,
        HEAD
        | {
            "block": 4,
            "inputs": "fp16",
            "scores": "fp32",
            "weights": "bf16",
            "accumulator": "fp32",
            "toward_zero": True,
        },
    ),
    "formats.rounded": (functools.partial(formats.rounded, name="fp16"), {"x": X, "toward_zero": True}),
    "formats.bits": (functools.partial(formats.bits, name="fp16"), {"x": 1.5}),
    "formats.step_at": (functools.partial(formats.step_at, name="fp16"), {"x": 1.5}),
    "formats.format_of": (lambda format: formats.format_of(format), {"format": "fp16"}),
    "roofline.intensity": (roofline.intensity, {"flops": 100.0, "traffic": 7.5}),
    "roofline.time_on": (roofline.time_on, {"gpu": GPU, "flops": 100.0, "traffic": 7.5, "dtype": "fp16"}),
    "roofline.attainable": (roofline.attainable, {"gpu": GPU, "intensity": 3.5, "dtype": "fp16"}),
    "registers.at_start": (registers.at_start, {"warpgroups": 3}),
    "registers.plan": (registers.plan, {"consumers": 2, "producer": 24}),
    "registers.tiles": (registers.tiles, {"d": 64, "block_n": 128, "in_flight": 2, "rows": 64}),
    "registers.resident_programs": (
        registers.resident_programs,
        {"threads": 128, "registers": 100, "shared_bytes": 1000, "shared_kib_per_sm": 228.0},
    ),
    "Gpu.flops_per_s": (GPU.flops_per_s, {"dtype": "fp16"}),
    "Measured.version": (data.measured("nvidia-h200", "forward_ladder").version, {"package": "torch"}),
    "data.gpu": (lambda gpu: data.gpu(gpu), {"gpu": "H200"}),
    "data.reported": (data.reported, {"name": "sources"}),
    "data.measured": (data.measured, {"device": "nvidia-h200", "name": "forward_ladder"}),
    "records.record": (
        lambda **given: records.record(folder=Path("/dev/null"), **given),
        {"name": "a", "rows": [{"n": 1}], "command": "make a"},
    ),
    "claims.verdict": (lambda claim: claims.verdict(claim, ("seen", True)), {"claim": "C1"}),
    "claims.finding": (
        lambda text, supports: claims.verdict("C1", (text, supports)),
        {"text": "seen", "supports": True},
    ),
    "runtime.setup": (runtime.setup, {"seed": 1}),
    "gpt.train": (
        gpt.train,
        MODEL | {"text": "abcdefgh" * 2, "steps": 1, "batch": 1, "lr": 0.1, "dtype": torch.float32, "compiled": False},
    ),
    "gpt.GPT": (
        gpt.GPT,
        {"attend": SDPA, "vocab_size": 5, "block_size": 4, "n_layer": 1, "n_head": 2, "n_embd": 8}
        | {"positions": "rotary", "tied": True},
    ),
    "measure.max_error": (measure.max_error, {"x": X, "oracle": Y}),
    "measure.rms_error": (measure.rms_error, {"x": X, "oracle": Y}),
    "Memory": (memory.Memory, {"sram_bytes": 100}),
    "Memory.hbm": (lambda Z: memory.Memory().hbm("Z", Z), {"Z": X}),
    "Memory.tile": (MEMORY.tile, {"name": "t", "value": X}),
    "Memory.matmul": (MEMORY.matmul, {"a": X, "b": Y}),
    "Memory.exp": (MEMORY.exp, {"x": X}),
    "Memory.rescale": (MEMORY.rescale, {"a": X, "factor": Y}),
    "Memory.divide": (MEMORY.divide, {"a": X, "b": Y}),
    "Memory.load": (MEMORY.load, {"view": MEMORY.hbm("x", X)[0:2]}),
    "Memory.work": (MEMORY.work, {"flops": 3, "kind": "exp"}),
    "cost.flash_v1_traffic": (cost.flash_v1_traffic, {"n": 8, "d": 4, "causal": True} | BLOCKS),
    "cost.backward_traffic": (
        cost.backward_traffic,
        {"order": "two passes", "n": 8, "d": 4, "causal": True} | BLOCKS,
    ),
    "cost.flash_v2_traffic": (cost.flash_v2_traffic, {"n": 8, "d": 4, "causal": True, "lse": True} | BLOCKS),
    "cost.attention_flops": (cost.attention_flops, {"n": 8, "d": 4, "n_k": 8, "d_v": 4}),
    "cost.tiled_matmul_traffic": (cost.tiled_matmul_traffic, {"m": 8, "n": 4, "k": 4, "dtype": "fp16"} | BLOCKS),
    "cost.standard_attention_traffic": (
        cost.standard_attention_traffic,
        {"n": 8, "d": 4, "dtype": "fp16", "block_m": 4},
    ),
    "cost.compulsory_traffic": (cost.compulsory_traffic, {"n": 8, "d": 4}),
    "cost.attention_operations": (
        cost.attention_operations,
        {"order": "V1", "n": 8, "d_v": 4, "causal": True} | BLOCKS,
    ),
    "cost.flash_v1_blocks": (cost.flash_v1_blocks, {"sram_elements": 1000, "d": 4}),
    "cost.attention_memory": (cost.attention_memory, {"n": 8, "d": 4, "algorithm": "flash"}),
    "measure.slope": (measure.slope, {"lengths": [1, 2, 4], "seconds": [1.0, 2.0, 3.0]}),
    "ladder.attention_floats": (ladder.python.attention_floats, {name: x.tolist() for name, x in HEAD.items()}),
    "ladder.value_gradients": (
        ladder.python.value_gradients,
        {name: x[:2, :2].tolist() for name, x in (HEAD | {"do": DO}).items()},
    ),
    "ladder.node_count": (ladder.python.node_count, {"n_q": 3, "n_k": 4, "d": 2}),
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
    "formats.step_at": ("-inf",),
    "formats.rounded": ("empty", "meta", "giant"),
    "Memory.tile": ("meta",),  # its size alone counts
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
    yield "giant", x[:1].expand(10**12, *x.shape[1:])


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


ATTENTIONS = [
    name for name, (_, good) in CALLS.items() if "q" in good and not name.startswith(("peers", "kernels", "ladder"))
]


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_takes_finite_numbers_whose_sums_are_finite(name: str) -> None:
    call, good = CALLS[name]
    infinite = torch.where(torch.arange(16)[:, None] == 3, -torch.inf, Q)
    for argument in ("q", "k", "v"):
        with pytest.raises(ValueError, match=rf"{argument} contains an infinity"):
            call(**good | {argument: infinite})
        if not name.startswith("reference"):  # whose sums are in float64
            with pytest.raises(ValueError, match="overflow"):
                call(**good | {argument: torch.full((16, 16), 3e38)})
    if "L" in good:
        for bad in (L.long(), L > 0, L.to(torch.complex64), L[:3], L - torch.inf):
            with pytest.raises((TypeError, ValueError), match=r"L (has|contains)"):
                call(**good | {"L": bad})


def test_views_that_repeat_their_memory_are_tensors_like_others() -> None:
    row = Q[:1].expand(16, 16)
    for call in (reference.attention, peers.plain_attention, lambda *x: algorithms.flash_v2(*x, 4, 4).output):
        torch.testing.assert_close(call(row, K, row), call(row.contiguous(), K, row.contiguous()))
    torch.testing.assert_close(softmax.offline(Q.T), torch.softmax(Q.T, -1))

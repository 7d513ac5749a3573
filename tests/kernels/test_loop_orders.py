"""V1, V2 and the running-normalised form: right against float64, and counted alike by formula, memory and kernel."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rule import COUNTS, INPUTS, allowed, inputs

from course_lib import algorithms, runtime
from course_lib.instruments import compiled, measure, traffic
from course_lib.kernels.loop_orders import flash_running, flash_v1, flash_v2
from course_lib.model import cost, reference

DEVICE, GPU = runtime.device(), runtime.mode() == "GPU"
SIMULATED = {"V1": algorithms.flash_v1, "running": algorithms.flash_running, "V2": algorithms.flash_v2}
KERNELS = {"V1": flash_v1, "running": flash_running, "V2": lambda *args, **options: flash_v2(*args, **options)[0]}


def predicted(order, n, d, block_m, block_n, dtype, causal, split=1) -> cost.Traffic:
    if order == "V1":
        return cost.flash_v1_traffic(n, d, block_n, dtype, block_m=block_m, causal=causal, split=split)
    return cost.flash_v2_traffic(n, d, block_m, dtype, block_n=block_n, causal=causal, lse=order == "V2")


# --- the simulated memory ---


@settings(max_examples=60)
@given(
    st.integers(1, 24), st.integers(1, 12), st.integers(1, 28), st.integers(1, 28), st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)  # fmt: skip
def test_each_order_is_attention_and_is_counted_as_the_formulas_say(n, d, block_m, block_n, causal, dtype) -> None:
    q, k, v = (torch.randn(n, d).to(dtype) for _ in range(3))
    oracle = reference.attention(q, k, v, causal=causal)
    tolerance = {torch.float16: 5e-3, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    for order, algorithm in SIMULATED.items():
        output, memory = algorithm(q, k, v, block_m, block_n, causal)
        torch.testing.assert_close(output.double(), oracle, atol=tolerance, rtol=tolerance)
        assert output.dtype == dtype
        assert memory.traffic() == predicted(order, n, d, block_m, block_n, dtype, causal)
        assert memory.operations() == cost.attention_operations(order, n, d, block_m, block_n, causal)
        assert memory.resident_bytes == 0


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 35), st.integers(1, 35))
def test_the_linear_orders(n, d, block_m, block_n) -> None:
    q, k, v = (torch.randn(n, d, dtype=torch.float64) for _ in range(3))
    v1, v2 = algorithms.linear_v1(q, k, v, block_m, block_n), algorithms.linear_v2(q, k, v, block_m, block_n)
    torch.testing.assert_close(v1.output, q @ k.T @ v)
    torch.testing.assert_close(v2.output, q @ k.T @ v)
    assert v1.memory.traffic() == cost.flash_v1_traffic(n, d, block_n, "fp64", softmax=False)
    assert v2.memory.traffic() == cost.flash_v2_traffic(n, d, block_m, "fp64")


def test_eight_rows_in_four_blocks_write_the_output_four_times_or_once() -> None:
    q, k, v = (torch.randn(8, 128) for _ in range(3))
    for algorithm, times in ((algorithms.linear_v1, 4), (algorithms.linear_v2, 1)):
        memory = algorithm(q, k, v, 2, 2).memory
        assert memory.traffic().writes == {"O": times * 8 * 128 * 4}
        assert sum(event.op == "store" for event in memory.trace) == 4 * times
        assert memory.traffic().reads.get("O", 0) == (times > 1) * times * 8 * 128 * 4


def test_log_sum_exp() -> None:
    q, k, v = (torch.randn(20, 4, dtype=torch.float64) for _ in range(3))
    L = algorithms.flash_v2(q, k, v, 8, 3).memory.tensors["L"].data
    torch.testing.assert_close(L, torch.logsumexp(q @ k.T / 2, dim=-1))


@given(st.integers(1, 300), st.integers(1, 64), st.integers(1, 64), st.booleans(), st.integers(1, 9))
def test_formulas_keep_to_their_bounds(n, block_m, block_n, causal, split) -> None:
    one, many = (
        cost.flash_v1_traffic(n, 16, block_n, block_m=block_m, causal=causal, split=s).reads for s in (1, split)
    )
    assert one["O"] == many["O"]  # more programs read K and V more often, and nothing else
    assert one["K"] <= many["K"] <= split * one["K"]
    v2 = cost.flash_v2_traffic(n, 16, block_m, block_n=block_n, causal=causal).reads["K"]
    assert cost.compulsory_traffic(n, 16).reads["K"] <= v2 <= cost.flash_v2_traffic(n, 16, block_m).reads["K"]


def test_bad_formula_arguments() -> None:
    with pytest.raises(ValueError, match="block_n is missing"):
        cost.flash_v2_traffic(8, 8, 4, causal=True)
    with pytest.raises(ValueError, match="n_k is 16 and n is 8"):
        cost.flash_v2_traffic(8, 8, 4, n_k=16, block_n=4, causal=True)
    with pytest.raises(ValueError, match="block_m is missing"):
        cost.flash_v1_traffic(8, 8, 4, split=2)
    with pytest.raises(ValueError, match="split is 0"):
        cost.flash_v1_traffic(8, 8, 4, block_m=4, split=0)
    with pytest.raises(ValueError, match="order is 'V3'; choose one of 'V1', 'running', 'V2'"):
        cost.attention_operations("V3", 8, 8, 4, 4)
    with pytest.raises(ValueError, match=r"q has shape \[8, 4\] but k has \[6, 4\]"):
        algorithms.flash_v1(torch.ones(8, 4), torch.ones(6, 4), torch.ones(6, 4), 2, 2)


# --- the kernels ---

KINDS = [(torch.float32, "ieee"), (torch.float16, "ieee")]
KINDS += [(torch.float32, "tf32"), (torch.bfloat16, "ieee")] if GPU else []
SHAPES = [(64, 64, 32), (32, 16, 16), (16, 64, 40)] + ([(64, 64, 64), (128, 64, 64), (64, 32, 128)] if GPU else [])


# In the interpreter fp32 meets the odd head size, 16-bit numbers the others; the rest each week.
@pytest.mark.kernel
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("block_m", "block_n", "d", "kind"),
    [
        pytest.param(
            *shape, kind, marks=[pytest.mark.weekly] * (not GPU and (kind == KINDS[0]) != (shape == SHAPES[2]))
        )
        for shape in SHAPES
        for kind in KINDS
    ],
    ids=str,
)
@pytest.mark.parametrize("order", list(KERNELS))
def test_kernels(order, block_m, block_n, d, kind, causal) -> None:
    dtype, precision = kind
    block = max(block_m, block_n)
    ragged = (
        2 * block + 2 if block_m >= block_n else block + block_m + 2
    )  # three blocks of queries and of keys, or six by two
    for n in [1, block - 1, ragged] + ([block + 1, 1000, 2048] if GPU else []):
        heads = [inputs(name, n, d, dtype) for name in INPUTS]
        q, k, v = (torch.stack(x) for x in zip(*heads))
        oracles = [reference.attention(*head, causal=causal) for head in heads]
        bounds = [allowed(*head, oracle, precision, causal) for head, oracle in zip(heads, oracles)]
        for split in (1, 2, None):
            output = KERNELS[order](q, k, v, block_m, block_n, causal, split, precision)
            assert (output.dtype, output.shape) == (dtype, q.shape)
            for name, o, oracle, bound in zip(INPUTS, output, oracles, bounds):
                assert measure.max_error(o, oracle) <= bound, (n, split, name)


@pytest.mark.kernel
def test_v1_gives_the_same_answer_each_time() -> None:
    shape = (8, 512, 64) if GPU else (2, 65, 16)
    q, k, v = (torch.randn(shape, device=DEVICE) for _ in range(3))
    for split in (1, None):
        first = flash_v1(q, k, v, 32, 32, split=split)
        for _ in range(100 if GPU else 2):
            assert torch.equal(flash_v1(q, k, v, 32, 32, split=split), first)


@pytest.mark.kernel
def test_v2_returns_the_log_sum_exp() -> None:
    q, k, v = (torch.randn(2, 70, 16, device=DEVICE) for _ in range(3))
    _, L = flash_v2(q, k, v, 32, 16, causal=True)
    s = (q.double() @ k.double().mT / 4).masked_fill(torch.ones(70, 70, device=DEVICE).bool().triu(1), -torch.inf)
    torch.testing.assert_close(L.double(), torch.logsumexp(s, dim=-1), atol=1e-5, rtol=1e-5)


@pytest.mark.kernel
@COUNTS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("split", [1, 2, None])
@pytest.mark.parametrize(
    ("h", "n", "d", "block_m", "block_n"), [(1, 1, 16, 16, 16), (2, 65, 40, 16, 64), (1, 100, 32, 32, 16)]
)
def test_kernels_move_what_the_formulas_say(h, n, d, block_m, block_n, split, causal) -> None:
    q, k, v = (torch.randn(h, n, d).half() for _ in range(3))
    for order, kernel in (("V1", flash_v1), ("running", flash_running), ("V2", flash_v2)):
        counted = traffic.traffic(kernel, *(x.to(DEVICE) for x in (q, k, v)), block_m, block_n, causal, split)
        programs = -(-n // block_m) if split is None else split
        assert counted == predicted(order, n, d, block_m, block_n, "fp16", causal, programs).times(h)


@pytest.mark.kernel
@COUNTS
@pytest.mark.skipif(GPU, reason="the interpreter counts")
@pytest.mark.parametrize("causal", [False, True])
def test_kernels_compute_as_often_as_the_formulas_say(causal, monkeypatch) -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    counted: Counter[str] = Counter()

    def counting(name, original):
        def operation(self, *operands):
            result = original(self, *operands)
            counted[name] += result.data.size
            return result

        return operation

    for name in ("create_exp", "create_fdiv", "create_fmul"):
        monkeypatch.setattr(InterpreterBuilder, name, counting(name, getattr(InterpreterBuilder, name)))
    n, d, block_m, block_n = 64, 16, 16, 32
    q, k, v = (torch.randn(1, n, d) for _ in range(3))
    for order, kernel in (("V1", flash_v1), ("running", flash_running), ("V2", flash_v2)):
        counted.clear()
        kernel(q, k, v, block_m, block_n, causal)
        formula = cost.attention_operations(order, n, d, block_m, block_n, causal)
        assert (counted["create_exp"], counted["create_fdiv"]) == (formula.exp, formula.divide)
        pairs = 1 if not causal else sum(-(-(i + block_m) // block_n) for i in range(0, n, block_m)) / 8
        assert counted["create_fmul"] == formula.rescale + pairs * n * n  # each score is multiplied by 1/√d


@pytest.mark.kernel
@pytest.mark.parametrize("arch", [pytest.param(80, marks=pytest.mark.weekly), 90])
def test_the_compiler_splits_queries_between_warps(arch) -> None:
    m = compiled.matrix(4096, 64, heads=8)
    for report in compiled.inspect_all([(kernel, (m, m, m), {}) for kernel in (flash_v1, flash_v2)], arch):
        assert report.warp_grid == "4×1"
        assert report.spilled_bytes == 0 or report.kernel == "v1_kernel"


X = torch.randn(2, 8, 16, device=DEVICE)
BAD = [
    ((X, X[:, :4], X), {}, ValueError, r"q has shape \[2, 8, 16\] but k has \[2, 4, 16\]"),
    ((X, X, X.half()), {}, TypeError, "q is torch.float32 but v is torch.float16"),
    ((X.to("meta"),) * 3, {}, ValueError, "q is on meta, but kernels run on"),
    ((X.transpose(0, 1),) * 3, {}, ValueError, r"q has strides .*; this kernel needs them contiguous"),
    ((torch.randn(1, 4, 300, device=DEVICE),) * 3, {}, ValueError, "the head dimension is 300"),
    ((torch.zeros(65_536, 1, 1, device=DEVICE),) * 3, {}, ValueError, "q has 65,536 heads"),
    ((X, X, X), {"block_m": 8}, ValueError, "block_m is 8; pass a power of two of at least 16"),
    (
        (X, X, X),
        {"block_m": 2**16, "block_n": 2**10},
        ValueError,
        "block_m is 65,536 and block_n is 1,024, a tile of 67,108,864",
    ),
]


@pytest.mark.kernel
@pytest.mark.parametrize(("args", "options", "error", "message"), BAD)
@pytest.mark.parametrize("kernel", [flash_v1, flash_v2])
def test_bad_input(kernel, args, options, error, message) -> None:
    with pytest.raises(error, match=message):
        kernel(*args, **options)
    flash_v2(X, X, X, 16, 16)  # the process is alive, the next launch works

"""The kernels of V1, V2 and the running-normalised form: right against float64, and counted as the formulas say."""

import pytest
import torch
from rule import COUNTS, DEVICE, INPUTS, allowed, inputs

from course_lib import runtime
from course_lib.instruments import compiled, measure, traffic
from course_lib.kernels.loop_orders import flash_running, flash_v1, flash_v2
from course_lib.model import cost, reference

pytestmark = pytest.mark.kernel
GPU = runtime.mode() == "GPU"
KERNELS = {"V1": flash_v1, "running": flash_running, "V2": flash_v2}
KINDS = [(torch.float32, "ieee"), (torch.float16, "ieee")]
KINDS += [(torch.float32, "tf32"), (torch.bfloat16, "ieee")] if GPU else []
SHAPES = [(64, 64, 32), (32, 16, 16), (16, 64, 40)] + ([(64, 64, 64), (128, 64, 64), (64, 32, 128)] if GPU else [])


# In the interpreter fp32 meets the odd head size, 16-bit numbers the others; the rest each week.
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
@pytest.mark.parametrize("order", KERNELS)
def test_kernels(order, block_m, block_n, d, kind, causal) -> None:
    dtype, precision = kind
    block = max(block_m, block_n)
    # Three blocks of queries and of keys, or six by two.
    ragged = 2 * block + 2 if block_m >= block_n else block + block_m + 2
    for n in [1, ragged] + ([block - 1, block + 1, 1000, 2048] if GPU else []):
        heads = [inputs(name, n, d, dtype) for name in INPUTS]
        q, k, v = (torch.stack(x) for x in zip(*heads))
        oracles = [reference.attention(*head, causal=causal) for head in heads]
        bounds = [allowed(*head, oracle, precision, causal) for head, oracle in zip(heads, oracles)]
        for split in (1, 2, None):
            output = KERNELS[order](q, k, v, block_m, block_n, causal, split, precision)
            output = output[0] if order == "V2" else output
            assert (output.dtype, output.shape) == (dtype, q.shape)
            for name, o, oracle, bound in zip(INPUTS, output, oracles, bounds):
                assert measure.max_error(o, oracle) <= bound, (n, split, name)


def test_v1_gives_the_same_answer_each_time() -> None:
    q, k, v = (torch.randn((8, 512, 64) if GPU else (2, 65, 16), device=DEVICE) for _ in range(3))
    for split in (1, None):
        first = flash_v1(q, k, v, 32, 32, split=split)
        for _ in range(100 if GPU else 2):
            assert torch.equal(flash_v1(q, k, v, 32, 32, split=split), first)


def test_v2_returns_the_log_sum_exp() -> None:
    q, k, v = (torch.randn(2, 70, 16, device=DEVICE) for _ in range(3))
    _, L = flash_v2(q, k, v, 32, 16, causal=True)
    s = (q.double() @ k.double().mT / 4).masked_fill(torch.ones(70, 70, device=DEVICE).bool().triu(1), -torch.inf)
    torch.testing.assert_close(L.double(), torch.logsumexp(s, dim=-1), atol=1e-5, rtol=1e-5)


@COUNTS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("split", [1, 2, None])
@pytest.mark.parametrize(("h", "n", "d", "block_m", "block_n"), [(2, 65, 40, 16, 64), (1, 100, 32, 32, 16)])
@pytest.mark.parametrize("order", KERNELS)
def test_kernels_move_what_the_formulas_say(order, h, n, d, block_m, block_n, split, causal) -> None:
    q, k, v = (torch.randn(h, n, d, device=DEVICE).half() for _ in range(3))
    counted = traffic.traffic(KERNELS[order], q, k, v, block_m, block_n, causal, split)
    if order == "V1":
        programs = -(-n // block_m) if split is None else split
        formula = cost.flash_v1_traffic(n, d, block_n, "fp16", block_m=block_m, causal=causal, split=programs)
    else:
        formula = cost.flash_v2_traffic(n, d, block_m, "fp16", block_n=block_n, causal=causal, lse=order == "V2")
    assert counted == formula.times(h)


@pytest.mark.parametrize("arch", [pytest.param(80, marks=pytest.mark.weekly), 90])
def test_the_compiler_splits_queries_between_warps(arch) -> None:
    m = compiled.matrix(4096, 64, heads=8)
    for report in compiled.inspect_all([(kernel, (m, m, m), {}) for kernel in (flash_v1, flash_v2)], arch):
        assert report.warp_grid == "4×1"
        assert report.spilled_bytes == 0 or report.kernel == "v1_kernel"


X = torch.randn(2, 8, 16, device=DEVICE)
BAD = [
    ((X, X[:, :4], X), {}, r"q has shape \[2, 8, 16\] but k has \[2, 4, 16\]"),
    ((X, X, X.half()), {}, "q is torch.float32 but v is torch.float16"),
    ((X.to("meta"),) * 3, {}, "q is on meta, but kernels run on"),
    ((X.transpose(0, 1),) * 3, {}, r"q has strides .*; this kernel needs them contiguous"),
    ((torch.randn(1, 4, 300, device=DEVICE),) * 3, {}, "the head dimension is 300"),
    ((torch.zeros(65_536, 1, 1, device=DEVICE),) * 3, {}, "q has 65,536 heads"),
    ((X, X, X), {"block_m": 8}, "block_m is 8; pass a power of two of at least 16"),
    ((X, X, X), {"block_m": 2**16, "block_n": 2**10}, "block_m is 65,536 and block_n is 1,024, a tile of 67,108,864"),
]


@pytest.mark.parametrize(("args", "options", "message"), BAD)
def test_bad_input(args, options, message) -> None:
    for kernel in (flash_v1, flash_v2):
        with pytest.raises((TypeError, ValueError), match=message):
            kernel(*args, **options)
    flash_v2(X, X, X, 16, 16)  # the process is alive, the next launch works

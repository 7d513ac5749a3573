"""The ladder of forward kernels: each rung against float64, its launches alike, and what the compiler makes of it."""

import pytest
import torch
from rule import definition

from course_lib import compiled, measure, runtime
from course_lib.kernels.hopper import RUNGS, forward

pytestmark = pytest.mark.kernel
DEVICE, GPU = runtime.device(), runtime.lane() == "GPU"
FLOOR = {torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
DTYPES = [torch.float16, torch.bfloat16] if GPU else [torch.float16, torch.float32]
# Batch, heads of q, heads of k and v, queries, keys, head size: even and ragged, short and long, grouped.
SHAPES = [(1, 2, 1, 100, 150, 32), (2, 1, 1, 64, 64, 16), (1, 3, 3, 1, 130, 16), (1, 2, 2, 129, 1, 16)]
SHAPES += (
    [(2, 4, 2, n_q, n_k, d) for d in (64, 128) for n_q, n_k in ((339, 203), (128, 1024), (1500, 1500))] if GPU else []
)


def inputs(b, h, h_k, n_q, n_k, d, dtype):
    shapes = ((b, h, n_q, d), (b, h_k, n_k, d), (b, h_k, n_k, d))
    return [torch.randn(shape, device=DEVICE).to(dtype) for shape in shapes]


def check(rung, q, k, v, causal, offset) -> None:
    o, L = forward(rung, q, k, v, causal, offset)
    right, right_L = definition(*(x.double() for x in (q, k, v)), causal=causal, offset=offset)
    usual, _ = definition(q, k, v, causal=causal, offset=offset)
    size = max(1.0, float(v.abs().max()))
    assert measure.max_error(o, right) <= 2 * measure.max_error(usual, right) + size * FLOOR[q.dtype]
    assert (o.dtype, o.shape, L.dtype) == (q.dtype, q.shape, torch.float32)
    assert torch.equal(torch.isneginf(L), torch.isneginf(right_L))
    seen = ~torch.isneginf(right_L)
    torch.testing.assert_close(L[seen].double(), right_L[seen], atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_is_attention(rung, dtype) -> None:
    for shape in SHAPES:
        for causal, offset in ((False, 0), (True, 0), (True, shape[4] - shape[3]), (True, -5)):
            check(rung, *inputs(*shape, dtype), causal, offset)


@pytest.mark.parametrize("rung", RUNGS)
def test_hard_scores(rung) -> None:
    q, k, v = inputs(1, 1, 1, 70, 140, 32, DTYPES[0])
    for x, y in ((10 * q, k), (3 * q.abs() + 9, -k.abs() - 3), (q, torch.cat([k[:, :, :-1], 4 * q[:, :, :1]], dim=2))):
        check(rung, x, y, 10 * v, False, 0)
        check(rung, x, y, v, True, 70)


@pytest.mark.parametrize("rung", RUNGS)
def test_launches_are_alike(rung) -> None:
    q, k, v = inputs(1, 4, 4, 500, 500, 64, DTYPES[0]) if GPU else inputs(1, 2, 2, 70, 70, 16, DTYPES[0])
    first = forward(rung, q, k, v, True)
    for _ in range(100 if GPU else 2):
        for x, y in zip(first, forward(rung, q, k, v, True)):
            assert torch.equal(x, y)


def meta(d: int, dtype=torch.bfloat16) -> torch.Tensor:
    return torch.empty(1, 32, 1024, d, dtype=dtype, device="meta")


@pytest.mark.parametrize("arch", [80, 90])
def test_every_rung_compiles_and_none_spills(arch) -> None:
    rungs = [name for name, rung in RUNGS.items() if arch == 90 or not rung.descriptors]
    cases = [(rung, d, causal) for rung in rungs for d in (64, 128) for causal in (False, True)]
    for (rung, d, causal), report in zip(
        cases, compiled.inspect_all([(forward, (rung, *[meta(d)] * 3, causal), {}) for rung, d, causal in cases], arch)
    ):
        assert report.spilled_bytes == 0, (rung, d, causal)
        assert (report.wgmma > 0, report.mma > 0) == (arch == 90, arch == 80), (rung, d, causal)
        by_engine, by_threads = report.count("cp.async.bulk.tensor"), report.count("cp.async.c")
        assert (by_engine > 0, by_threads > 0) == (RUNGS[rung].descriptors, not RUNGS[rung].descriptors), (
            rung,
            d,
            causal,
        )


X = torch.randn(1, 2, 8, 16, device=DEVICE)


@pytest.mark.parametrize(
    ("rung", "args", "error", "message"),
    [
        ("fast", (X, X, X), ValueError, "rung is 'fast'; choose one of 'Online'"),
        ("TMA", (X[0], X, X), ValueError, r"q has shape \[2, 8, 16\]; pass a tensor with 4 dimensions"),
        ("TMA", (X, X, X[:, :, :4]), ValueError, r"k has shape \[1, 2, 8, 16\] but v has \[1, 2, 4, 16\]"),
        ("TMA", (X[:, :1], X, X), ValueError, r"q is \[1, 1, 8, 16\] but k is \[1, 2, 8, 16\]"),
        ("TMA", (X[..., :8],) * 3, ValueError, "the head size is 8; choose one of 16, 32, 64, 128"),
        ("TMA", (X, X.half(), X), TypeError, r"q is torch\.float32 but k is torch\.float16"),
        ("TMA", (X, X[:, :, :0], X[:, :, :0]), ValueError, "k is empty"),
    ],
)
def test_bad_input(rung, args, error, message) -> None:
    with pytest.raises(error, match=message):
        forward(rung, *args)

"""TMA, wgmma and a ring of tiles, each alone: what they compute, and what the compiler makes of them."""

import re

import pytest
import torch

from course_lib import runtime
from course_lib.instruments import compiled, measure
from course_lib.kernels import eight_bit
from course_lib.kernels.hopper import forward, pieces

pytestmark = pytest.mark.kernel
DEVICE = runtime.device()
HOPPER = runtime.mode() == "GPU" and runtime.architecture() == 90
needs_hopper = pytest.mark.skipif(not HOPPER, reason="Gluon has no interpreter")


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float16, device="meta")


def test_what_becomes_of_them() -> None:
    calls = [
        (pieces.tma_copy, (meta(1000, 64),), {}),
        (pieces.wgmma_matmul, (meta(64, 128), meta(64, 128)), {}),
        (pieces.ring_sums, (meta(132 * 64 * 2, 64), 4), {}),
    ]
    copy, product, ring = compiled.inspect_all(calls)
    # The threads load and store nothing: TMA brings the tile and takes it away.
    assert (copy.count("cp.async.bulk.tensor"), copy.count("ld.global"), copy.count("st.global")) == (2, 0, 0)
    assert copy.count("mbarrier.init") == 1
    assert (product.wgmma, product.count("wgmma.mma_async.sync.aligned.m64n64k16")) == (8, 8)  # 128 / 16 steps
    assert (ring.count("mbarrier.init"), ring.count("mbarrier.arrive.expect_tx")) == (8, 1)  # a full and an empty each
    assert ring.shared_bytes >= 4 * 64 * 64 * 2
    assert {x.spilled_bytes for x in (copy, product, ring)} == {0}


@pytest.mark.weekly
def test_a_fence_parts_ordinary_access_to_a_tile_from_tma(tmp_path, monkeypatch) -> None:
    """Loads before the release to TMA's next write, stores before the copy to HBM: TMA would not see that they are done."""
    for name in ("TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))  # empty: so all are compiled now, into it
    long = (meta(1, 8, 256, 128),) * 3
    ring = (pieces.ring_sums, (meta(132 * 64 * 2, 64), 4), {})
    compiled.inspect_all([ring, (forward, ("overlap", *long), {}), (eight_bit.attention, long, {"kernel": "Hopper"})])
    read, written, to_hbm = r"ld\.shared\.v4", r"stmatrix|st\.shared\.v", r"cp\.async\.bulk\.tensor\.4d\.global"
    for name, ordinary, then, times in (
        ("ring_kernel", read, r"mbarrier\.arrive\.shared", 1),
        ("specialised_kernel", written, to_hbm, 2),  # each consumer has its code
        ("eight_bit_kernel", written, to_hbm, 2),
    ):
        (file,) = tmp_path.rglob(f"{name}.ptx")
        pattern = rf"(?P<a>{ordinary})|(?P<f>fence\.proxy\.async)|(?P<b>{then})"
        order = "".join(str(step.lastgroup) for step in re.finditer(pattern, file.read_text()))
        assert len(re.findall("a+f+b", order)) == times, (name, order)
        assert "ab" not in order, (name, order)


@needs_hopper
@pytest.mark.parametrize("n", [1, 64, 100, 10_000])
def test_tma_copies(n) -> None:
    x = torch.randn(n, 64, device=DEVICE, dtype=torch.bfloat16)
    assert torch.equal(pieces.tma_copy(x), x)


@needs_hopper
@pytest.mark.parametrize(("n", "k"), [(64, 64), (128, 64), (64, 128), (128, 128)])
def test_wgmma_multiplies(n, k) -> None:
    a, b = (torch.randn(rows, k, device=DEVICE, dtype=torch.float16) for rows in (64, n))
    assert measure.max_error(pieces.wgmma_matmul(a, b), a.double() @ b.double().T) < 1e-4


@needs_hopper
@pytest.mark.parametrize("buffers", [1, 2, 3, 5, 16])
def test_a_ring_loses_nothing(buffers) -> None:
    x = torch.randn(7 * 64 * 37, 64, device=DEVICE, dtype=torch.float16)
    first = pieces.ring_sums(x, buffers, programs=7)
    assert measure.max_error(first, x.double().sum(0)) < 1e-2
    for _ in range(100):
        assert torch.equal(pieces.ring_sums(x, buffers, programs=7), first)


X = torch.randn(128, 64, device=DEVICE).half()
BAD = [
    (pieces.tma_copy, (X.float(),), "x is torch.float32; pass float16"),
    (pieces.wgmma_matmul, (X, X[None]), "b has shape"),
    (pieces.tma_copy, (X[::2],), r"x has strides \[128, 1\]; pass x.contiguous"),
    (pieces.wgmma_matmul, (X, X), r"a is \[128, 64\]" if HOPPER else "this kernel needs a Hopper GPU"),
    (pieces.ring_sums, (X, 2, 3), "a multiple of 192 rows" if HOPPER else "this kernel needs a Hopper GPU"),
]


@pytest.mark.parametrize(("call", "args", "message"), BAD)
def test_bad_input(call, args, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(*args)

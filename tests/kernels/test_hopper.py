"""The ladder of forward kernels: each rung against float64, its launches alike, and what the compiler makes of it."""

import pytest
import torch
from rule import DEVICE, definition, hard, held
from rule import heads as inputs

from course_lib import runtime
from course_lib.attention import attention, kernel_choice
from course_lib.instruments import compiled
from course_lib.kernels.hopper import RUNGS, THREE_MATMULS, Tiling, forward, launch_specialised

pytestmark = pytest.mark.kernel
GPU = runtime.mode() == "GPU"
HOPPER = GPU and runtime.architecture() == 90
HERE = [name for name, rung in RUNGS.items() if HOPPER or not rung.specialised]  # Gluon has no interpreter
DTYPES = [torch.float16, torch.bfloat16] if GPU else [torch.float16]
# Batch, heads of q, heads of k and v, queries, keys, head size: even and ragged, short and long, grouped.
SHAPES = [(1, 2, 1, 100, 150, 32), (2, 1, 1, 64, 64, 16), (1, 3, 3, 1, 130, 16), (1, 2, 2, 129, 1, 16)]
SHAPES += (
    [
        (2, 4, 2, n_q, n_k, d)
        for d in (64, 128)
        for n_q, n_k in ((339, 203), (128, 1024), (1500, 1500), (1, 130), (129, 1))
    ]
    if GPU
    else []
)


def check(run, q, k, v, causal, offset) -> None:
    o, L = run(q, k, v)
    right, right_L = definition(*(x.double() for x in (q, k, v)), causal=causal, offset=offset)
    held(o, definition(q, k, v, causal=causal, offset=offset)[0], right)
    assert (o.dtype, o.shape, L.dtype) == (q.dtype, q.shape, torch.float32)
    assert torch.equal(torch.isneginf(L), torch.isneginf(right_L))
    torch.testing.assert_close(L.double(), right_L, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rung", HERE)
def test_every_rung_is_attention(rung, dtype) -> None:
    for shape in SHAPES:
        if RUNGS[rung].specialised and shape[-1] < 64:
            continue
        for causal, offset in ((False, 0), (True, shape[4] - shape[3]), (True, -5)):
            run = lambda *x, how=(causal, offset): forward(rung, *x, *how)  # noqa: E731
            check(run, *inputs(*shape, dtype), causal, offset)


@pytest.mark.parametrize("rung", HERE)
def test_hard_scores(rung) -> None:
    for tensors in hard(*inputs(1, 1, 1, 70, 140, 64 if RUNGS[rung].specialised else 32, DTYPES[0])):
        check(lambda *x: forward(rung, *x, True, 70), *tensors, True, 70)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128] if GPU else [16])
@pytest.mark.parametrize("rung", HERE)
def test_launches_are_alike(rung, d, causal) -> None:
    # On a GPU more tiles than SMs, so that rings, queue and turns go round.
    q, k, v = inputs(3, 32, 16, 777, 777, d, DTYPES[0]) if GPU else inputs(1, 2, 2, 70, 70, d, DTYPES[0])
    first = forward(rung, q, k, v, causal)
    for _ in range(100 if GPU else 2):
        for x, y in zip(first, forward(rung, q, k, v, causal)):
            assert torch.equal(x, y)


@pytest.mark.skipif(not HOPPER, reason="a kernel for Hopper")
@pytest.mark.parametrize(
    "rung", [RUNGS["specialised"], RUNGS["overlap"], RUNGS["ping-pong"], THREE_MATMULS], ids=lambda rung: rung.name
)
@pytest.mark.parametrize(
    "tiling", [(2, 128, 2), (2, 128, 4), (2, 64, 3), (3, 128, 2), (3, 128, 3), (3, 128, 4), (3, 64, 4)]
)
def test_every_tiling_of_the_specialised_kernel(rung, tiling) -> None:
    """Rows of each warpgroup, buffers of each ring: more blocks than buffers, more tiles than programs."""
    for causal in (False, True):
        q, k, v = inputs(2, 40, 20, 400, 1000, 64, torch.float16)
        o, L = torch.full_like(q, torch.nan), torch.full(q.shape[:3], torch.nan, device=q.device)
        launch_specialised(q, k, v, o, L, causal, 300, 0.125, Tiling(*tiling), rung)
        check(lambda *_, found=(o, L): found, q, k, v, causal, 300)


@pytest.mark.skipif(not HOPPER, reason="a kernel for Hopper")
def test_attention_takes_hoppers_kernel_or_says_why_not() -> None:
    q, k, v = inputs(2, 80, 40, 300, 500, 128, torch.bfloat16)
    odd = torch.empty(2, 40, 500, 129, device=DEVICE, dtype=torch.bfloat16)[..., :128]
    assert kernel_choice(q, k, v).startswith("overlap (Gluon, Hopper)")
    assert "it has no softcap" in kernel_choice(q, k, v, softcap=5.0)
    assert "it needs float16 or bfloat16" in kernel_choice(q.float(), k.float(), v.float())
    assert "100 queries are few for its tiles of 128" in kernel_choice(q[:, :, :100], k, v)
    assert "the rows of k and v do not start on 16 bytes" in kernel_choice(q, odd, odd)
    for d in (40, 72, 96, 128):  # head sizes between those of the blocks, and strides that are not the shape's
        x = torch.randn(2, 520, 3, 96, d, device=DEVICE, dtype=torch.bfloat16)
        a, b, c = (x[:, :, i].transpose(1, 2) for i in range(3))
        assert "Hopper" in kernel_choice(a, b, c).split(";")[0]
        check(lambda *x: attention(*x, causal=True, return_lse=True), a, b, c, True, 0)


@pytest.mark.skipif(not HOPPER, reason="a kernel for Hopper")
@pytest.mark.parametrize("d", [64, 128])
def test_gradients_after_hoppers_forward(d) -> None:
    """L and O of this kernel feed the backward pass: causal, an offset that hides rows, a scale of one's own."""
    q, k, v = inputs(1, 320, 160, 520, 520, d, torch.bfloat16)
    assert "Hopper" in kernel_choice(q, k, v, causal=True, scale=0.2).split(";")[0]
    do = torch.randn_like(q)

    def gradients(function, dtype, **options):
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(function(*leaves, causal=True, scale=0.2, **options), leaves, do.to(dtype))

    right = gradients(lambda *x, **options: definition(*x, **options)[0], torch.float64, offset=-7)
    usual = gradients(lambda *x, **options: definition(*x, **options)[0], torch.bfloat16, offset=-7)
    ours = gradients(attention, torch.bfloat16, causal_offset=-7)
    for mine, other, exact in zip(ours, usual, right):
        held(mine, other, exact)


def test_choice_without_hopper() -> None:
    if HOPPER:
        pytest.skip("this GPU is a Hopper")
    q = torch.randn(1, 2, 8, 64, device=DEVICE).half()
    assert kernel_choice(q, q, q).startswith("portable (Triton): 64×64 blocks")
    assert "it needs a Hopper GPU (H100, H200)" in kernel_choice(q, q, q)


def meta(d: int, dtype=torch.bfloat16) -> torch.Tensor:
    return torch.empty(1, 32, 1024, d, dtype=dtype, device="meta")


# Causal at a head size of 128 needs the most registers, and attention() takes the last but one rung; the others weekly.
@pytest.mark.parametrize(
    ("rung", "arch", "d", "causal"),
    [
        pytest.param(rung, arch, d, causal, marks=[pytest.mark.weekly] * ((rung, d, causal) != ("overlap", 128, True)))
        for rung in RUNGS
        for arch in (80, 90)
        for d in (64, 128)
        for causal in (False, True)
        if arch == 90 or not RUNGS[rung].descriptors
    ],
)
def test_every_rung_compiles_and_none_spills(rung, arch, d, causal) -> None:
    report = compiled.inspect(forward, rung, *[meta(d)] * 3, causal, arch=arch)
    assert (report.spilled_bytes, report.serialised_wgmma) == (0, False)
    assert (report.wgmma > 0, report.mma > 0) == (arch == 90, arch == 80)
    by_engine, by_threads = report.count("cp.async.bulk.tensor"), report.count("cp.async.c")
    assert (by_engine > 0, by_threads > 0) == (RUNGS[rung].descriptors, not RUNGS[rung].descriptors)


X = torch.randn(1, 2, 8, 16, device=DEVICE)
BAD = [
    ("fast", (X, X, X), "rung is 'fast'; choose one of 'Online'"),
    ("TMA", (X, X, X[:, :, :4]), r"k has shape \[1, 2, 8, 16\] but v has \[1, 2, 4, 16\]"),
    ("TMA", (X[:, :1], X, X), r"q is \[1, 1, 8, 16\] but k is \[1, 2, 8, 16\]"),
    ("TMA", (X[..., :8],) * 3, "the head size is 8"),
    ("overlap", (X, X, X), f"rung is 'overlap', but it needs {'float16' if HOPPER else 'a Hopper GPU'}"),
    ("TMA", (X, X[:, :, :0], X[:, :, :0]), "k is empty"),
    ("TMA", (X, X, X, False, 3), "causal_offset is 3 but causal is False"),
    (RUNGS["TMA"]._replace(blocks=((48, 64),) * 2), (X, X, X), r"rung\.blocks is 48"),
    (RUNGS["TMA"]._replace(num_warps=(3, 3)), (X, X, X), r"rung\.num_warps is 3"),
]


@pytest.mark.parametrize(("rung", "args", "message"), BAD)
def test_bad_input(rung, args, message) -> None:
    with pytest.raises(ValueError, match=message):
        forward(rung, *args)

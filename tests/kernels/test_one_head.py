"""The Lite and Online kernels and the tiled matmul: the float64 oracle, hard inputs, and every refusal."""

import math
import os

import pytest
import torch
from rule import FLOOR, INPUTS, allowed, inputs

from course_lib import algorithms, data, runtime
from course_lib.figures.one_head import MISTAKES, with_mistake
from course_lib.instruments import compiled, measure
from course_lib.kernels.launching import attention_launch, check_reach
from course_lib.kernels.lite import flash_lite
from course_lib.kernels.matmul import tiled_matmul
from course_lib.kernels.online import flash_online
from course_lib.model import reference

pytestmark = pytest.mark.kernel
DEVICE, GPU = runtime.device(), runtime.mode() == "GPU"
LENGTHS = [1, 2, 63, 64, 65, 127, 200, 512, 1024] + ([4096, 16_384] if GPU else [])
HEADS, BLOCKS = [16, 32, 64, 128], [16, 32, 64, 128]
# (dtype, how fp32 is multiplied)
KINDS = [(torch.float32, "ieee"), (torch.float16, "ieee")]
KINDS += [(torch.float32, "tf32"), (torch.bfloat16, "ieee")] if GPU else []
# `make test-grid` meets everything; else 64×64 meets every head size and the other blocks meet d = 32. A GPU takes all lengths and
# inputs there. The interpreter takes the short, ragged lengths, 64×64 the long ones, too, with one kind of input, the longest at
# d = 32 only; at d = 32 in fp16 all but the longest with all kinds. In fp32 blocks that are not square come each week, in fp16 those
# whose sides differ by a factor of 2 or 8: 4 stands for them.
FULL_GRID = os.environ.get("COURSE_FULL_GRID") == "1"
EVERYTHING = GPU or FULL_GRID
EACH_TIME = {KINDS[0]: (1,), KINDS[1]: (1, 4)}
CASES = [
    pytest.param(
        kind,
        d,
        block_m,
        block_n,
        marks=[]
        if EVERYTHING or max(block_m, block_n) / min(block_m, block_n) in EACH_TIME[kind]
        else pytest.mark.weekly,
    )
    for kind in KINDS
    for d in HEADS
    for block_m in BLOCKS
    for block_n in BLOCKS
    if (block_m, block_n) == (64, 64) or d == 32 or FULL_GRID
]


def lite_closed_form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_n: int) -> torch.Tensor:
    """The sum of one float64 attention for each block of keys: a softmax for each block of columns."""
    s = torch.nn.functional.pad(
        q.double() @ k.double().T / math.sqrt(q.shape[1]), (0, -len(k) % block_n), value=-math.inf
    )
    return s.unflatten(1, (-1, block_n)).softmax(2).flatten(1)[:, : len(k)] @ v.double()


def fits(q: torch.Tensor, block_m: int, block_n: int, precision: str) -> bool:
    """What the compiler predicts for this device; the launch has to agree."""
    report = compiled.inspect(flash_online, q, q, q, block_m, block_n, precision, arch=90)
    return report.shared_bytes <= torch.cuda.get_device_properties(0).shared_memory_per_block_optin


@pytest.mark.parametrize(("kind", "d", "block_m", "block_n"), CASES, ids=str)
def test_online_is_attention_and_lite_is_the_sum_of_block_averages(kind, d, block_m, block_n) -> None:
    dtype, precision = kind
    everything = EVERYTHING or (block_m, block_n) == (64, 64)
    for n in LENGTHS if EVERYTHING else LENGTHS[: 7 if not everything else 9 if d == 32 else 8]:
        every_kind = n <= 200 or (n, d, dtype) == (512, 32, torch.float16)
        for name in INPUTS if EVERYTHING or (everything and every_kind) else INPUTS[3:4]:
            q, k, v = inputs(name, n, d, dtype)
            try:
                online = flash_online(q, k, v, block_m, block_n, precision)
            except ValueError as error:  # the one refusal that good arguments may meet, and the compiler foresaw it
                assert "the tiles do not fit this GPU" in str(error)
                assert not fits(q, block_m, block_n, precision)
                return
            oracle = reference.attention(q, k, v)
            bound = allowed(q, k, v, oracle, precision)
            assert measure.max_error(online, oracle) <= bound, (n, name)
            if n <= 1024:
                lite, expected = flash_lite(q, k, v, block_m, block_n, precision), lite_closed_form(q, k, v, block_n)
                terms = math.ceil(n / block_n)
                assert measure.max_error(lite, expected) <= terms * bound + 1e-3 * terms * (dtype != torch.float32), (
                    n,
                    name,
                )


@pytest.mark.parametrize(
    ("mistake", "name"),
    [
        ("m starts at 0", "far below zero"),
        ("m is set once", "late spike"),
        ("acc not corrected", "normal"),
        ("end not masked", "normal"),
    ],
)
@pytest.mark.parametrize("d", [64, 128])
def test_the_inputs_expose_wrong_versions_of_online(mistake, name, d) -> None:
    q, k, v = inputs(name, 100, d, torch.float16)
    oracle = reference.attention(q, k, v)
    wrong = attention_launch(with_mistake(*MISTAKES[mistake]), q, k, v, 32, 64, "ieee")
    bound = allowed(q, k, v, oracle, "ieee")
    assert measure.max_error(flash_online(q, k, v, 32, 64), oracle) <= bound
    assert measure.max_error(wrong, oracle) > bound


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e30])
def test_no_kernel_warns_of_its_own_infinities(odd) -> None:
    x = torch.full((20, 16), odd, device=DEVICE)
    assert bool(flash_online(x, x, x, 16, 16).isnan().any())


def test_lite_is_right_exactly_if_there_is_one_block_of_keys() -> None:
    for n, block_n, right in ((64, 64, True), (65, 64, False), (128, 128, True), (128, 64, False)):
        q, k, v = inputs("normal", n, 32, torch.float32)
        error = measure.max_error(flash_lite(q, k, v, 32, block_n), reference.attention(q, k, v))
        assert (error < 1e-5) == right
        assert right or error > 0.1


def test_queries_and_keys_of_different_number_and_odd_head_sizes() -> None:
    for n_q, n_k, d in ((1, 100, 16), (70, 3, 48), (33, 65, 8), (5, 5, 1), (20, 40, 200)):
        q, k, v = (
            torch.randn(n_q, d, device=DEVICE),
            torch.randn(n_k, d, device=DEVICE),
            torch.randn(n_k, d, device=DEVICE),
        )
        oracle = reference.attention(q, k, v)
        assert measure.max_error(flash_online(q, k, v, 16, 32), oracle) < 1e-5
        assert measure.max_error(algorithms.online_attention(q.cpu(), k.cpu(), v.cpu(), 16, 32).output, oracle) < 1e-5


def test_rows_may_have_a_stride() -> None:
    q, k, v = torch.randn(50, 3, 16, device=DEVICE).unbind(1)
    assert not q.is_contiguous()
    assert measure.max_error(flash_online(q, k, v, 16, 16), reference.attention(q, k, v)) < 1e-5


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 64, 64), (70, 33, 50), (16, 129, 100)])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (32, 64, 16), (64, 32, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_tiled_matmul(m, n, k, blocks, dtype) -> None:
    a, b = torch.randn(m, k, device=DEVICE).to(dtype), torch.randn(k, n, device=DEVICE).to(dtype)
    oracle = a.double() @ b.double()
    plain_error = measure.max_error(a @ b, oracle)
    assert measure.max_error(tiled_matmul(a, b, *blocks), oracle) <= 2 * plain_error + FLOOR["ieee"][dtype] * k**0.5
    simulated = algorithms.tiled_matmul(a.cpu(), b.cpu(), *blocks).output
    assert measure.max_error(simulated, oracle) <= 2 * plain_error + FLOOR["ieee"][dtype] * k**0.5


X = torch.randn(8, 16, device=DEVICE)
BAD = [
    ((X, X[:, :8], X), {}, ValueError, "q has head dimension 16 but k has 8"),
    ((X, X, X[:4]), {}, ValueError, "k has 8 rows but v has 4"),
    ((X, X, X[:, :8]), {}, ValueError, "v has head dimension 8 but q and k have 16"),
    ((X, X.half(), X), {}, TypeError, "q is torch.float32 but k is torch.float16"),
    ((X, X.to("meta"), X), {}, ValueError, "but k is on meta"),
    ((X.to("meta"),) * 3, {}, ValueError, "q is on meta, but kernels run on"),
    ((X.double(),) * 3, {}, TypeError, "q is torch.float64"),
    ((X, torch.randn(16, 8, device=DEVICE).T, X), {}, ValueError, r"k has strides \[1, 8\]"),
    ((torch.randn(4, 300, device=DEVICE),) * 3, {}, ValueError, "the head dimension is 300"),
    ((X, X, X), {"block_m": 8}, ValueError, "block_m is 8; pass a power of two of at least 16"),
    ((X, X, X), {"block_n": 48}, ValueError, "block_n is 48; pass a power of two"),
    (
        (X, X, X),
        {"block_m": 2**20},
        ValueError,
        r"block_m is 1,048,576 and block_n is \d+, a tile of .* pass smaller blocks",
    ),
    (
        (X, X, X),
        {"block_n": 2**17, "block_m": 16},
        ValueError,
        "block_m is 16 and block_n is 131,072, a tile of 2,097,152",
    ),
    (
        (torch.randn(4, 200, device=DEVICE),) * 3,
        {"block_n": 2**13, "block_m": 16},
        ValueError,
        "block_n is 8,192 and d is 256",
    ),
]


@pytest.mark.parametrize(("args", "options", "error", "message"), BAD)
@pytest.mark.parametrize("kernel", [flash_lite, flash_online])
def test_bad_attention_input(kernel, args, options, error, message) -> None:
    with pytest.raises(error, match=message):
        kernel(*args, **options)
    flash_online(X, X, X, 16, 16)  # the process is alive, the next launch works


def test_bad_matmul_input() -> None:
    with pytest.raises(ValueError, match="a has 16 columns but b has 8 rows"):
        tiled_matmul(X, X)
    with pytest.raises(ValueError, match="block_m is 4,096 and block_n is 4,096, a tile of 16,777,216 numbers"):
        tiled_matmul(X, X.T.contiguous(), 4096, 4096)
    with pytest.raises(ValueError, match="block_k is 8; pass a power of two of at least 16"):
        tiled_matmul(X, X.T.contiguous(), block_k=8)
    with pytest.raises(TypeError, match=r"a is torch.float32 but b is torch.float16"):
        tiled_matmul(X, X.T.contiguous().half())


def test_what_lies_beyond_32_bits_is_refused() -> None:
    far = torch.empty_strided((3, 16), (2**30, 1), device="meta")
    near = torch.empty(3, 16, device="meta")
    check_reach("k", far[:2])
    with pytest.raises(
        ValueError,
        match=r"k has shape \[3, 16\] and strides \[1073741824, 1\]: its last element is number 2,147,483,664",
    ):
        flash_online(near, far, near)
    with pytest.raises(ValueError, match=r"b has shape .* its last element is number 2,147,483,664"):
        tiled_matmul(near[:, :3], far)
    tall = torch.empty(46_341, 1, device="meta")
    with pytest.raises(ValueError, match=r"c has shape .* its last element is number 2,147,488,281"):
        tiled_matmul(tall, tall.T)


def test_more_tiles_than_a_grid_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="b has 1,048,576 columns and block_n is 16"):
        tiled_matmul(torch.ones(1, 1, device=DEVICE), torch.ones(1, 2**20, device=DEVICE), block_n=16)


def test_bf16_runs_on_a_gpu_and_is_refused_with_the_reason_on_the_interpreter() -> None:
    q = X.bfloat16()
    if GPU:
        assert measure.max_error(flash_online(q, q, q), reference.attention(q, q, q)) < 2e-2
    else:
        with pytest.raises(TypeError, match="q is bfloat16, whose arithmetic Triton's interpreter gets wrong"):
            flash_online(q, q, q)


@pytest.mark.skipif(not GPU, reason="shared memory has a limit on a GPU only")
def test_a_tile_that_does_not_fit_is_a_clear_error_and_the_compiler_predicted_it() -> None:
    from course_lib.kernels import online

    gpu = data.gpu("H200")
    for d, block_m, block_n in (
        (64, 64, 64),
        (64, 128, 128),
        (128, 64, 64),
        (128, 128, 64),
        (256, 128, 128),
        (256, 64, 64),
    ):
        q = torch.randn(256, d, device=DEVICE, dtype=torch.float16)
        predicted = compiled.inspect(flash_online, q, q, q, block_m, block_n, arch=90)
        if not predicted.fits(gpu):
            with pytest.raises(ValueError, match="the tiles do not fit this GPU"):
                flash_online(q, q, q, block_m, block_n)
            continue
        o = torch.empty_like(q)
        strides = [x.stride(0) for x in (q, q, q, o)]
        launched = online._online_kernel[(2,)](
            q, q, q, o, 256, 256, *strides, 0.1, D=d, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=d, PRECISION="ieee"
        )
        assert launched.metadata.shared == predicted.shared_bytes, (d, block_m, block_n)

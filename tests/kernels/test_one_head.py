"""The kernels of one head, the softmax kernels and the tiled matmul: the float64 oracle, hard inputs, and every refusal."""

import math
import os

import pytest
import torch
from rule import DEVICE, FLOOR, INPUTS, allowed, inputs

from course_lib import algorithms, data, runtime
from course_lib.instruments import compiled, measure
from course_lib.kernels.first import double_kernel
from course_lib.kernels.lite import flash_lite
from course_lib.kernels.matmul import tiled_matmul
from course_lib.kernels.online import flash_online
from course_lib.kernels.softmax import offline_softmax, online_softmax, softmax_average
from course_lib.model import reference

pytestmark = pytest.mark.kernel
GPU = runtime.mode() == "GPU"
LENGTHS = [1, 63, 65, 200, 2, 64, 127, 512, 1024] + ([4096, 16_384] if GPU else [])
HEADS, BLOCKS = [16, 32, 64, 128], [16, 32, 64, 128]
# (dtype, how fp32 is multiplied)
KINDS = [(torch.float32, "ieee"), (torch.float16, "ieee")]
KINDS += [(torch.float32, "tf32"), (torch.bfloat16, "ieee")] if GPU else []
# `make test-grid` meets everything; a GPU all lengths and inputs, with 64×64 blocks at every head size and all others at d = 32.
# The interpreter takes four lengths: 64×64 blocks meet all inputs, the others, whose sides differ by a factor of 4, one.
EVERYTHING = os.environ.get("COURSE_FULL_GRID") == "1"
CASES = [
    (kind, d, block_m, block_n)
    for kind in KINDS
    for d in HEADS
    for block_m in BLOCKS
    for block_n in BLOCKS
    if EVERYTHING
    or (block_m, block_n) == (64, 64)
    or (d == 32 and (GPU or (kind == KINDS[1] and max(block_m, block_n) == 4 * min(block_m, block_n))))
]


def lite_closed_form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_n: int) -> torch.Tensor:
    """The sum of one float64 attention for each block of keys: a softmax for each block of columns."""
    s = q.double() @ k.double().T / math.sqrt(q.shape[1])
    s = torch.nn.functional.pad(s, (0, -len(k) % block_n), value=-math.inf)
    return s.unflatten(1, (-1, block_n)).softmax(2).flatten(1)[:, : len(k)] @ v.double()


def fits(q: torch.Tensor, block_m: int, block_n: int, precision: str) -> bool:
    """What the compiler predicts for this device; the launch has to agree."""
    report = compiled.inspect(flash_online, q, q, q, block_m, block_n, precision, arch=90)
    return report.shared_bytes <= torch.cuda.get_device_properties(0).shared_memory_per_block_optin


@pytest.mark.parametrize(("kind", "d", "block_m", "block_n"), CASES, ids=str)
def test_online_is_attention_and_lite_is_the_sum_of_block_averages(kind, d, block_m, block_n) -> None:
    dtype, precision = kind
    for n in LENGTHS if GPU or EVERYTHING else LENGTHS[:4]:
        for name in INPUTS if GPU or EVERYTHING or block_m == block_n else INPUTS[3:4]:
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
                blocks = math.ceil(n / block_n)
                assert measure.max_error(lite, expected) <= blocks * (bound + 1e-3 * (dtype != torch.float32)), (
                    n,
                    name,
                )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e30])
def test_no_kernel_warns_of_its_own_infinities(odd) -> None:
    x = torch.full((20, 16), odd, device=DEVICE)
    assert bool(flash_online(x, x, x, 16, 16).isnan().any())


def test_lite_is_right_exactly_if_there_is_one_block_of_keys() -> None:
    for n, block_n, right in ((64, 64, True), (65, 64, False), (128, 64, False)):
        q, k, v = inputs("normal", n, 32, torch.float32)
        error = measure.max_error(flash_lite(q, k, v, 32, block_n), reference.attention(q, k, v))
        assert error < 1e-5 if right else error > 0.1


def test_queries_and_keys_of_different_number_strides_and_odd_head_sizes() -> None:
    for n_q, n_k, d in ((1, 100, 16), (70, 3, 48), (33, 65, 8), (5, 5, 1), (20, 40, 200)):
        q, k, v = (torch.randn(n, 3, d, device=DEVICE)[:, 1] for n in (n_q, n_k, n_k))
        assert measure.max_error(flash_online(q, k, v, 16, 32), reference.attention(q, k, v)) < 1e-5


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 64, 64), (70, 33, 50), (16, 129, 100)])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (32, 64, 16), (64, 32, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_tiled_matmul(m, n, k, blocks, dtype) -> None:
    a, b = torch.randn(m, k, device=DEVICE).to(dtype), torch.randn(k, n, device=DEVICE).to(dtype)
    oracle = a.double() @ b.double()
    bound = 2 * measure.max_error(a @ b, oracle) + FLOOR["ieee"][dtype] * k**0.5
    assert measure.max_error(tiled_matmul(a, b, *blocks), oracle) <= bound
    assert measure.max_error(algorithms.tiled_matmul(a.cpu(), b.cpu(), *blocks).output, oracle) <= bound


# --- rows of scores ---

SOFTMAXES = [torch.float32, torch.float16] + ([torch.bfloat16] if GPU else [])
# Half a unit in the last place of a probability near 1, and room for float32 sums.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}


def hard_rows(n: int, dtype: torch.dtype) -> torch.Tensor:
    """N(0, 1), ×10, all far below 0, a late spike, equal, partly and fully masked, and the first again, beside NaN in the last."""
    x = torch.randn(9, n)
    x[1] *= 10
    x[2] -= 1000
    x[3, -1] = 60
    x[4] = 7
    x[5, : n // 2] = -torch.inf
    x[6] = -torch.inf
    x[8, n // 2] = torch.nan
    return x.to(dtype).to(DEVICE)


@pytest.mark.parametrize("dtype", SOFTMAXES, ids=str)
@pytest.mark.parametrize(("n", "block"), [(1, 1), (2, 16), (63, 16), (64, 64), (65, 64), (200, 32), (1000, 128)])
def test_softmax_kernels(n, block, dtype) -> None:
    wide, v = hard_rows(n + 3, dtype), torch.randn(n).to(dtype).to(DEVICE)
    x = hard_rows(n, dtype) if n % 2 == 0 else wide[:, 2 : n + 2].copy_(hard_rows(n, dtype))  # rows with a stride
    right, tolerance = reference.softmax(x[:-1]), TOLERANCE[dtype]
    for kernel in (offline_softmax, online_softmax):
        y = kernel(x, block)
        torch.testing.assert_close(y[:-1].double(), right, atol=tolerance, rtol=tolerance)
        assert bool(y[-1].isnan().all())
    average = softmax_average(x, v, block)[:-1].double()
    torch.testing.assert_close(average, right @ v.double(), atol=4 * tolerance, rtol=4 * tolerance)


@pytest.mark.parametrize(("n", "block"), [(10, 4), (8, 4), (1, 16), (100, 1)])
def test_the_first_kernel_doubles_each_number_and_none_beyond_the_last(n, block) -> None:
    x = torch.randn(n + block, device=DEVICE)
    y = torch.full_like(x, -1)
    double_kernel[(-(-n // block),)](x, y, n, BLOCK=block)
    assert torch.equal(y[:n], 2 * x[:n])
    assert torch.equal(y[n:], torch.full_like(y[n:], -1))


# --- refusals ---

X, FAR = torch.randn(8, 16, device=DEVICE), torch.empty_strided((3, 16), (2**30, 1), device="meta")
NEAR, TALL, MANY = torch.empty(3, 16, device="meta"), torch.empty(46_341, 1, device="meta"), torch.ones(1, 2**20)
BAD = [
    (flash_online, (X, X[:, :8], X), {}, "q has head dimension 16 but k has 8"),
    (flash_online, (X, X, X[:4]), {}, "k has 8 rows but v has 4"),
    (flash_lite, (X, X, X[:, :8]), {}, "v has head dimension 8 but q and k have 16"),
    (flash_lite, (X, X.half(), X), {}, "q is torch.float32 but k is torch.float16"),
    (flash_online, (X.to("meta"),) * 3, {}, "q is on meta, but kernels run on"),
    (flash_online, (X.double(),) * 3, {}, "q is torch.float64"),
    (flash_online, (X, torch.randn(16, 8, device=DEVICE).T, X), {}, r"k has strides \[1, 8\]"),
    (flash_online, (torch.randn(4, 300, device=DEVICE),) * 3, {}, "the head dimension is 300"),
    (flash_lite, (X, X, X), {"block_m": 8}, "block_m is 8; pass a power of two of at least 16"),
    (
        flash_online,
        (X, X, X),
        {"block_m": 2**20},
        r"block_m is 1,048,576 and block_n is \d+, a tile of .* smaller blocks",
    ),
    (
        flash_online,
        (NEAR, FAR, NEAR),
        {},
        r"k has .* strides \[1073741824, 1\]: its last element is number 2,147,483,664",
    ),
    (tiled_matmul, (NEAR[:, :3], FAR), {}, r"b has shape .* its last element is number 2,147,483,664"),
    (tiled_matmul, (TALL, TALL.T), {}, r"c has shape .* its last element is number 2,147,488,281"),
    (
        tiled_matmul,
        (MANY[:, :1].to(DEVICE), MANY.to(DEVICE)),
        {"block_n": 16},
        "b has 1,048,576 columns and block_n is 16",
    ),
    (tiled_matmul, (X, X), {}, "a has 16 columns but b has 8 rows"),
    (tiled_matmul, (X, X.T.contiguous()), {"block_k": 8}, "block_k is 8; pass a power of two of at least 16"),
    (tiled_matmul, (X, X.T.contiguous().half()), {}, "a is torch.float32 but b is torch.float16"),
    (online_softmax, (X[0], 8), {}, r"x has shape \[16\]; pass a tensor with 2 dimensions"),
    (online_softmax, (X.T, 8), {}, "last dimension must be contiguous"),
    (online_softmax, (X, 2**21), {}, "block is 2097152; pass a power of two of at most 1,048,576"),
    (softmax_average, (X, X[0, :7]), {}, "rows of 16 scores but v has 7 values"),
]
# On a GPU bfloat16 is taken as all others are.
BAD += (
    []
    if GPU
    else [(f, (X.bfloat16(),) * n, {}, "is bfloat16, whose") for f, n in ((flash_online, 3), (online_softmax, 1))]
)


@pytest.mark.parametrize(("kernel", "args", "options", "message"), BAD)
def test_bad_input(kernel, args, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kernel(*args, **options)
    flash_online(X, X, X, 16, 16)  # the process is alive, the next launch works


@pytest.mark.skipif(not GPU, reason="shared memory has a limit on a GPU only")
@pytest.mark.parametrize(("d", "block_m", "block_n"), [(64, 128, 128), (128, 128, 64), (256, 128, 128), (256, 64, 64)])
def test_a_tile_that_does_not_fit_is_a_clear_error_and_the_compiler_predicted_it(d, block_m, block_n) -> None:
    q = torch.randn(256, d, device=DEVICE, dtype=torch.float16)
    if compiled.inspect(flash_online, q, q, q, block_m, block_n, arch=90).fits(data.gpu("H200")):
        flash_online(q, q, q, block_m, block_n)
    else:
        with pytest.raises(ValueError, match="the tiles do not fit this GPU"):
            flash_online(q, q, q, block_m, block_n)

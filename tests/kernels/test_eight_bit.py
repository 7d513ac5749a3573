"""The 8-bit kernels: operands against brute force, O and L against float64, in every mode; the Hopper kernel on a GPU."""

import math

import pytest
import torch
from rule import definition

from course_lib import runtime
from course_lib.instruments import compiled
from course_lib.kernels import eight_bit, operands, tl, triton
from course_lib.kernels.launching import launch
from course_lib.model import formats, quantize

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(runtime.mode() == "no kernels", reason="needs Triton")]
HOPPER = runtime.mode() == "GPU" and runtime.architecture(runtime.device()) == 90
KERNELS = ("Triton", "Hopper") if HOPPER else ("Triton",)
DTYPE = torch.bfloat16 if HOPPER else torch.float32


def randn(*shape: int, dtype: torch.dtype = DTYPE) -> torch.Tensor:
    return torch.randn(*shape, device=runtime.device()).to(dtype)


def numbers(x: operands.Rows, block: int, n: int) -> torch.Tensor:
    """What an operand of Q or K stands for, [B, H, N, D], in float64."""
    return x.values.double() * x.scale.double().repeat_interleave(block, 2)[:, :, :n, None]


@triton.jit
def _cast(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, operands.to_e4m3(tl.load(x_ptr + at)))


def test_rounding_to_e4m3_is_that_of_the_format() -> None:
    """Every e4m3 number, the middle between each two, its neighbours in float32, and what lies beyond the largest."""
    grid = torch.arange(0, 127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    middle = (grid[1:] + grid[:-1]) / 2
    up, down = (torch.nextafter(middle, torch.tensor(end)) for end in (math.inf, -math.inf))
    beyond = torch.tensor([449.0, 463.9, 464.0, 480.0, 1e9])
    x = torch.cat([grid, middle, up, down, beyond])
    x = torch.nn.functional.pad(torch.cat([x, -x]), (0, 1024 - 2 * len(x))).to(runtime.device())
    found = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    launch(_cast, (1,), x, found, N=1024)
    torch.testing.assert_close(found.float().cpu(), formats.rounded(x.cpu(), "e4m3"), atol=0, rtol=0)


@pytest.mark.parametrize(("n", "d", "block"), [(200, 64, 64), (1, 32, 64), (129, 128, 128), (64, 32, 16)])
def test_rows_have_the_scales_of_their_blocks(n, d, block) -> None:
    x = randn(1, 3, n, d, dtype=torch.float32) * torch.logspace(-3, 3, n, device=runtime.device())[:, None]
    x = x.transpose(1, 2).contiguous().transpose(1, 2)  # heads last but one in memory, as a projection leaves them
    found = operands.quantise_rows(x, block)
    right = quantize.quantise(x.cpu(), per="block", block=block)
    torch.testing.assert_close(found.scale.cpu(), right.scale[..., 0, 0], atol=0, rtol=1e-6)
    close = found.values.float().cpu() == right.values
    assert close.double().mean() > 0.999  # a tie may fall to the other side after a division in another order


@pytest.mark.parametrize("d", operands.SIZES)
def test_rows_rotated_have_the_same_products(d) -> None:
    x, sign = randn(1, 2, 100, d), quantize.signs(d, seed=1).to(runtime.device())
    found = numbers(operands.quantise_rows(x, 64, sign), 64, 100)
    turned = quantize.rotate(x.double(), sign)
    # e4m3: half a step of 2^-3, relative; near 0 half of 2^-9 of the scale.
    allowed = turned.abs() / 16 + turned.abs().amax() / 448 / 2**10 + 1e-5
    assert bool(((found - turned).abs() <= allowed * 1.01).all())


CASES = [  # B, H, Hk, Nq, Nk, D, causal, offset
    (1, 2, 1, 200, 333, 64, False, 0),
    (1, 2, 2, 130, 130, 128, True, 0),
    (1, 2, 2, 40, 201, 32, True, 161),
    (1, 2, 2, 100, 40, 128, True, -30),  # rows that see no key
    (1, 1, 1, 1, 1, 64, False, 0),
]
if HOPPER:  # more tiles than SMs, more blocks of keys than buffers
    CASES += [
        (3, 50, 25, 513, 640, 128, True, 127),
        (3, 50, 50, 300, 2000, 64, False, 0),
        (1, 2, 1, 4096, 4096, 128, True, 0),
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_attention_of_the_operands(kernel, case) -> None:
    b, h, h_k, n_q, n_k, d, causal, offset = case
    if kernel == "Hopper" and d == 32:
        pytest.skip("the Hopper kernel takes 64 and 128")
    q, k, v = randn(b, h, n_q, d), randn(b, h_k, n_k, d), 1 + randn(b, h_k, n_k, d)
    if not causal:  # blocks of different scales; under a mask the first rows would see small ones only, and lose them
        v = v * torch.logspace(-2, 2, n_k, device=q.device)[:, None].to(q)
    x = operands.quantise(q, k, v, quantize.signs(d).to(q.device) if (n_q + n_k) % 2 else None)
    o, L = eight_bit.forward(x, causal, offset, kernel)
    plain = operands.quantise_values(v, permuted=False)
    in_v = (
        plain.values.double()
        * (plain.shift.double().exp2() * plain.top.double()[..., None]).repeat_interleave(128, 2)[:, :, None]
    ).mT
    in_q, in_k, in_v = numbers(x.q, 64, n_q), numbers(x.k, 128, n_k), in_v[:, :, :n_k]
    torch.testing.assert_close(in_v, v.double(), rtol=1 / 15, atol=float(v.abs().max()) / 2**17)
    exact, exact_L = definition(in_q, in_k, in_v, causal, offset=offset)
    # A GPU's tensor cores keep 13 bits below the largest 8-bit products that they add (recording eight_bit_sums).
    size = float((in_q.abs() @ in_k.abs().repeat_interleave(h // h_k, 1).mT).max()) / math.sqrt(d)
    torch.testing.assert_close(L.double(), exact_L, atol=2e-4 + (size * 2**-13 if HOPPER else 0), rtol=1e-5)
    assert not o[torch.isneginf(exact_L)].any()
    # P has 3 bits: each weight is off by at most 1/16, and O by that of the weighted sizes; bf16 rounds O once more. Below
    # 2^-6 steps stay the same: half of one, 2^-10, times V is at most 448/2^10 of ``top``, for each key of a row's l.
    sizes, _ = definition(in_q, in_k, in_v.abs(), causal, offset=offset)
    scores = in_q @ in_k.repeat_interleave(h // h_k, 1).mT / math.sqrt(d)
    seen = torch.ones_like(scores, dtype=torch.bool).tril(offset if causal else n_k)
    keys = (scores.masked_fill(~seen, -math.inf).amax(-1) - exact_L).exp().nan_to_num() * seen.sum(-1)
    small = keys[..., None] * x.v.top.double().repeat_interleave(h // h_k, 1)[..., None, None] * 448 / 2**10
    assert bool(((o.double() - exact).abs() <= sizes / 16 + exact.abs() / 200 + small).all())
    off, whole = (o.double() - exact).norm(dim=-1), exact.norm(dim=-1)
    assert bool((off <= 0.05 * whole + 0.1 * small.squeeze(-1)).all())


@pytest.mark.parametrize("kernel", KERNELS)
def test_long_rows_of_equal_weights_lose_nothing(kernel) -> None:
    """Where each block is small beside the sum so far: what tensor cores lose if they sum all blocks."""
    n = 16_384 if HOPPER else 1024
    q, v = randn(1, 1, 128, 64).zero_(), randn(1, 1, n, 64).fill_(0.875)
    o, L = eight_bit.attention(q, torch.ones_like(v), v, kernel=kernel)
    torch.testing.assert_close(o.float(), torch.full_like(o, 0.875).float(), rtol=0.01, atol=0)
    torch.testing.assert_close(L, torch.full_like(L, math.log(n)), atol=1e-4, rtol=0)


@pytest.mark.skipif(not HOPPER, reason="a kernel for Hopper")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_launches_are_alike(d, causal) -> None:
    x = operands.quantise(*(randn(3, 32, 777, d) for _ in range(3)))
    first = eight_bit.forward(x, causal)
    for _ in range(100):
        for one, other in zip(first, eight_bit.forward(x, causal)):
            assert torch.equal(one, other)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["q", "k", "v"])
def test_what_is_not_a_number_stays_visible(kernel, odd, place) -> None:
    x = {name: randn(1, 1, 40, 64) for name in "qkv"}
    x[place][0, 0, 3, 5] = odd
    o, L = eight_bit.attention(x["q"], x["k"], x["v"], kernel=kernel)
    assert bool(o.isnan().all())  # all of these queries and keys share a scale
    assert place == "v" or bool(L.isnan().all())


def test_zeros_and_small_numbers() -> None:
    q, k = randn(1, 1, 40, 64), randn(1, 1, 300, 64)
    assert not eight_bit.attention(q, k, torch.zeros_like(k))[0].any()
    v = torch.ones_like(k)
    v[:, :, 128:] *= 2.0**-30  # far below the first block: weights on it become 0, and L is as it was
    o, L = eight_bit.attention(q, k, v)
    right_o, right_L = definition(q.double(), k.double(), v.double())
    torch.testing.assert_close(L.double(), right_L, atol=0.2, rtol=0)
    torch.testing.assert_close(o.double(), right_o, atol=0.1, rtol=0)
    o, L = eight_bit.attention(torch.zeros_like(q), k, v)
    torch.testing.assert_close(L, torch.full_like(L, math.log(300)), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("d", "causal"),
    [(128, True), *(pytest.param(*x, marks=pytest.mark.weekly) for x in ((64, False), (64, True), (128, False)))],
)
def test_the_hopper_kernel_compiles_as_it_should(d, causal) -> None:
    """No spills, no waits added to wgmma, and in PTX P's numbers never leave their thread or are taken apart (no prmt)."""
    x = torch.empty(1, 2, 1024, d, dtype=torch.bfloat16, device="meta")
    found = compiled.inspect(eight_bit.attention, x, x, x, causal=causal, kernel="Hopper")
    assert found.kernel == "eight_bit_kernel"
    assert (found.spilled_bytes, found.serialised_wgmma, found.count("prmt")) == (0, False, 0)
    assert found.wgmma > 0


def made(x: torch.Tensor) -> operands.Operands:
    return operands.quantise(x, x, x)


BAD = [
    (lambda x: operands.quantise(x[0], x, x), ValueError, r"q has shape \[2, 20, 64\]"),
    (lambda x: operands.quantise(x, x[:, :, :5], x), ValueError, "k has shape"),
    (lambda x: operands.quantise(x[:, :1], x, x), ValueError, "heads a multiple"),
    (lambda x: operands.quantise(x[..., :24].contiguous(), x, x), ValueError, "the head size of q is 24"),
    (lambda x: operands.quantise(x, x, x, torch.ones(3)), ValueError, r"sign has shape \[3\]"),
    (lambda x: eight_bit.attention(x, x, x, torch.zeros(64)), ValueError, "sign holds other numbers than"),
    (lambda x: eight_bit.attention(x, x, x, kernel="Hopper", permuted=False), ValueError, "kernel is 'Hopper', but"),
    (lambda x: eight_bit.forward(x), TypeError, "x is a Tensor; pass what quantise"),
    (lambda x: eight_bit.forward(made(x), False, 5), ValueError, "causal_offset is 5 but causal is False"),
    (lambda x: eight_bit.forward(made(x)._replace(n_k=200)), ValueError, "n_k is 200"),
    (lambda x: eight_bit.forward(made(x)._replace(q=operands.quantise_rows(x, 16))), ValueError, "q.scale is"),
    (lambda x: operands.quantise_rows(x, 2**20), ValueError, r"block is 1,048,576 and d is \d+, a tile of"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(torch.randn(1, 2, 20, 64, device=runtime.device()))

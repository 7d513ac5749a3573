"""Decoding: the kernels against float64, pages in any order, and every refusal. What they cost: test_decoding_cost.py."""

import math

import pytest
import torch
from decoding_inputs import DEVICE, definition, inputs, paged, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from rule import EPS, ROOM, hard, held

from course_lib import runtime
from course_lib.attention import attention, kernel_choice
from course_lib.kernels.decoding import decode

pytestmark = pytest.mark.kernel
GPU = runtime.mode() == "GPU"
DTYPES = [torch.float32, torch.float16] + ([torch.bfloat16] if GPU else [])


def check(q, k, v, lengths, splits, page=None, scale=None) -> None:
    cache = (k, v) if page is None else paged(k, v, lengths, page)
    options = {"block_table": cache[2]} if page else {}
    o, L = decode(q, *cache[:2], whole(*lengths), splits=splits, scale=scale, return_lse=True, **options)
    right, right_L = definition(*(x.double() for x in (q, k, v)), lengths, scale)
    assert (o.dtype, o.shape, L.dtype) == (q.dtype, q.shape, torch.float32)
    # Scores are sums in fp32 in some order, as in rule.py: one rounding of each moves the output by up to eps · max|S| · max|V|.
    keys, values = k.double().nan_to_num(), v.double().nan_to_num()
    scores = q.double() @ keys.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * (scale or q.shape[3] ** -0.5)
    room = ROOM[q.dtype] + EPS * float(scores.abs().max()) * float(values.abs().max())
    held(o, definition(q, k, v, lengths, scale)[0], right, room, (lengths, list(q.shape), list(k.shape), splits, page))
    torch.testing.assert_close(L.double(), right_L.double(), atol=2e-5, rtol=2e-5)


CASES = [  # lengths; heads of q and of K and V; queries, head size, splits, page
    ((1,), 1, 1, 1, 32, 1, None),
    ((1000, 1, 0, 333), 8, 2, 1, 64, 7, 16),
    ((65, 640), 8, 1, 2, 128, 3, 64),
    ((3, 0, 129), 2, 2, 8, 40, 2, 32),
    ((200, 31), 4, 1, 3, 256, 4, 128),
    ((513,), 8, 1, 8, 32, 16, 256),
    ((1, 0, 700, 3, 0, 40), 4, 2, 2, 32, None, 16),  # a long sequence has most of the splits
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("lengths", "heads", "heads_k", "n_q", "d", "splits", "page"), CASES)
def test_any_lengths_heads_pages_and_splits(lengths, heads, heads_k, n_q, d, splits, page, dtype) -> None:
    q, k, v = inputs(lengths, heads, heads_k, n_q, d, dtype)
    check(q, k, v, lengths, splits, page)


@settings(max_examples=60 if GPU else 6, derandomize=True)
@given(data=st.data())
def test_whatever_is_drawn(data) -> None:
    lengths = data.draw(st.lists(st.integers(0, 1000 if GPU else 300), min_size=1, max_size=3))
    heads_k, group = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 4), (2, 4), (1, 8)]))
    n_q, d = data.draw(st.integers(1, 8)), data.draw(st.sampled_from([32, 64, 72, 128, 256]))
    splits, page = data.draw(st.integers(1, 64 if GPU else 9)), data.draw(st.sampled_from([None, 16, 32, 64, 256]))
    q, k, v = inputs(lengths, heads_k * group, heads_k, n_q, d, data.draw(st.sampled_from(DTYPES)))
    check(q, k, v, lengths, splits, page, data.draw(st.sampled_from([None, 0.3])))


def test_hard_scores() -> None:
    for tensors in hard(*inputs((130,), 2, 1, 1, 32, torch.float32)):
        check(*tensors, (130,), 3)


@pytest.mark.parametrize("splits", [1, 3])
def test_numbers_that_the_cache_does_not_have_show_in_their_sequence_alone(splits) -> None:
    """Unchecked, as is usual on a GPU: wrong lengths and wrong pages read nothing. On a CPU decode() checks, its operator does not."""

    def unchecked(k, v, lengths, table=None, page=0):
        numbers = (False, -1, 0.25, 0.0, splits, page)
        return torch.ops.course.decode.default(q, k, v, lengths, table, *numbers)

    def blind(o, L):
        assert torch.equal(o.isnan().all(-1), L.isnan())
        return L.isnan().flatten(1).any(1).tolist()

    q, k, v = inputs((64, 64, 9), 2, 1, 1, 16, torch.float32, room=64)
    right = definition(q.double(), k.double(), v.double(), (64, 64, 9))[0]
    for wrong in (65, -1, 2**31 - 1):
        o, L = unchecked(k, v, whole(64, wrong, 9))
        assert blind(o, L) == [False, True, False]
        torch.testing.assert_close(o[[0, 2]].double(), right[[0, 2]], atol=1e-5, rtol=1e-5)
    k_pages, v_pages, table = paged(k, v, (64, 64, 9), 16)
    table[1, 2] = 10**6
    assert blind(*unchecked(k_pages, v_pages, whole(64, 64, 9), table)) == [False, True, False]
    nothing = k.new_empty(0, 1, 16, 16)
    assert blind(*unchecked(nothing, nothing, whole(9, 0, 0), table, 16)) == [True, False, False]
    with pytest.raises(ValueError, match=r"block_table\[1, 2\] is 1,?000,?000"):
        decode(q, k_pages, v_pages, whole(64, 64, 9), block_table=table, check=True)


def test_the_cache_may_have_any_strides() -> None:
    q, k, v = inputs((50, 33), 4, 2, 1, 16, torch.float16)
    right = decode(q, k, v, whole(50, 33), splits=1)
    packed = torch.stack([k, v]).permute(1, 3, 0, 2, 4).contiguous()  # [B, N, 2, Hk, D]
    k_view, v_view = packed.permute(2, 0, 3, 1, 4)
    assert torch.equal(decode(q, k_view, v_view, whole(50, 33), splits=1), right)


@pytest.mark.skipif(not GPU, reason="takes 9 GB")
def test_sequences_pages_and_their_rows_may_lie_beyond_2_to_the_31_elements() -> None:
    q, k, _ = inputs((50, 33), 2, 1, 1, 16, torch.float16)
    right = decode(q, k, k, whole(50, 33), splits=1)
    far = torch.full((2, 1, 2**27 + 64, 16), torch.nan, dtype=torch.float16, device=DEVICE)
    far[:, :, :50] = k
    assert torch.equal(decode(q, far, far, whole(50, 33), splits=1), right)
    pages, last = far.view(-1, 1, 64, 16), 2**21 + 1  # of a sequence the first page
    assert torch.equal(decode(q, pages, pages, whole(50, 33), block_table=whole(0, last).view(2, 1), splits=1), right)
    page, apart = 256, 2**23 + 2**16  # the last rows of a page are 2^31 elements from its first
    near, size = torch.randn(1, 1, page, 16, device=DEVICE).half(), page * apart
    one = far.view(-1)[:size].as_strided((1, 1, page, 16), (size, size, apart, 1)).copy_(near)
    found, right = (decode(q[:1], x, x, whole(page), block_table=whole(0).view(1, 1), splits=1) for x in (one, near))
    assert torch.equal(found, right)


def test_the_same_splits_give_the_same_bits_and_no_lengths_mean_all() -> None:
    q, k, v = inputs((300, 300), 4, 2, 2, 64, torch.float16)
    first = decode(q, k, v, whole(300, 300), splits=5, return_lse=True)
    by_length = {"lengths": whole(300, 7), "longest": 300, "total": 307, "return_lse": True}
    others = decode(q, k, v, **by_length)
    for _ in range(100 if GPU else 1):
        assert all(map(torch.equal, decode(q, k, v, splits=5, return_lse=True), first))
        assert all(map(torch.equal, decode(q, k, v, **by_length), others))


@pytest.mark.skipif(not GPU, reason="the interpreter would take an hour")
@pytest.mark.parametrize("page", [None, 16, 256])
def test_131072_keys(page) -> None:
    lengths = (131_072, 5)
    q, k, v = inputs(lengths, 32, 8, 1, 128, torch.bfloat16)
    cache = (k, v) if page is None else paged(k, v, lengths, page)
    right = definition(*(x.double() for x in (q, k, v)), lengths)[0]
    for total in (None, sum(lengths)):
        o = decode(q, *cache[:2], whole(*lengths), block_table=cache[2] if page else None, total=total)
        torch.testing.assert_close(o.double(), right, atol=2e-2 * float(right.abs().max()), rtol=0)


@pytest.mark.parametrize(
    ("n_q", "group", "options"),
    [
        (4, 1, {"causal": True, "causal_offset": 296}),
        (8, 4, {"softcap": 4.0}),
        (2, 2, {"causal": True, "causal_offset": -1}),
    ],
)
def test_attention_takes_it_when_queries_are_few(n_q, group, options) -> None:
    q, k, v = (torch.randn(1, h, n, 32, device=DEVICE) for h, n in ((2 * group, n_q), (2, 300), (2, 300)))
    padded = torch.cat([q, q.new_zeros(1, 2 * group, 9 - n_q, 32)], dim=2)
    assert kernel_choice(q, k, v).startswith("decoding (Triton): ")
    assert "decoding" not in kernel_choice(padded, k, v)
    found, right = (attention(x, k, v, return_lse=True, **options) for x in (q, padded))
    for x, y in zip(found, right):
        torch.testing.assert_close(x, y[:, :, :n_q], atol=2e-5, rtol=2e-5)


def test_gradients_pass_through_attention_and_are_refused_by_decode() -> None:
    q, k, v = (torch.randn(1, 2, n, 16, device=DEVICE, requires_grad=True) for n in (1, 260, 260))
    found = torch.autograd.grad(attention(q, k, v).square().sum(), [q, k, v])
    right = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    for x, y in zip(found, torch.autograd.grad(right.square().sum(), [q, k, v])):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="q requires gradients, and decode has none"):
        decode(q, k.detach(), v.detach())
    with torch.no_grad():
        torch.testing.assert_close(decode(q, k, v), right, atol=1e-5, rtol=1e-4)


def test_torch_compile_makes_one_graph_of_it() -> None:
    q, k, v = inputs((40, 17), 4, 2, 2, 16, torch.float32, room=48)
    k_pages, v_pages, table = paged(k, v, (40, 17), 16)

    def step(q, k, v, lengths, table):
        return 1 + decode(2 * q, k, v, lengths, block_table=table)

    compiled_step = torch.compile(step, fullgraph=True, backend="inductor" if GPU else "aot_eager")
    for arguments in ((q, k, v, whole(40, 17), None), (q, k_pages, v_pages, whole(40, 17), table)):
        torch.testing.assert_close(compiled_step(*arguments), step(*arguments))
    operator = torch.ops.course.decode.default
    torch.library.opcheck(operator, (q, k_pages, v_pages, whole(40, 17), table, True, -2, 0.25, 0.0, 3, 0))


X, K = torch.randn(2, 4, 1, 16, device=DEVICE), torch.randn(2, 2, 32, 16, device=DEVICE)
N, PAGES = whole(32, 5), {"block_table": whole(0, 1, 1, 0).view(2, 2)}
BAD = [
    ((X[0], K, K, N), {}, ValueError, r"q has shape \[4, 1, 16\]; pass \[batch, heads, length, head size\]"),
    ((X, None, K, N), {}, TypeError, "k_cache is a NoneType; pass a torch.Tensor"),
    ((X, K.half(), K.half(), N), {}, TypeError, "q is torch.float32 but k_cache is torch.float16"),
    ((X, K, K[:, :, :8], N), {}, ValueError, r"k_cache has shape \[2, 2, 32, 16\] but v_cache has \[2, 2, 8, 16\]"),
    ((X[..., :8], K, K, N), {}, ValueError, "q is .* but k_cache is .* head size must be equal"),
    ((X[:, :3], K, K, N), {}, ValueError, "q's heads a multiple of k_cache's"),
    ((X[:1], K, K, N), {}, ValueError, r"k_cache is \[2, 2, 32, 16\]; batch and head size must be equal"),
    ((X, K, K, [32, 5]), {}, TypeError, "lengths is a list"),
    ((X, K, K, N.long()), {}, TypeError, r"lengths has dtype torch.int64; pass int32, for example lengths.int\(\)"),
    ((X, K, K, N[:1]), {}, ValueError, r"lengths has shape \[1\]; pass \[2\]"),
    ((X, K, K, whole(32, 33)), {"check": True}, ValueError, r"lengths\[1\] is 33; the cache has room for 32"),
    ((X, K, K, whole(65, 5)), PAGES | {"check": True}, ValueError, r"lengths\[0\] is 65; the cache has room for 64"),
    ((X, K, K, N), {"block_table": PAGES["block_table"].float()}, TypeError, "block_table has dtype torch.float32"),
    ((X, K, K, N), {"block_table": PAGES["block_table"][:1]}, ValueError, r"block_table has shape \[1, 2\]; pass"),
    ((X, K, K, N), {"block_table": PAGES["block_table"].T}, ValueError, r"block_table has strides \[1, 2\]; pass"),
    ((X, K[:, :, :8], K[:, :, :8], N), PAGES, ValueError, "pages of 8 tokens; pass pages of 16 tokens or a larger"),
    ((X, K, K, N), {"splits": 129}, ValueError, "splits is 129; pass a whole number from 1 to 128"),
    ((X, K, K, N), {"longest": -1}, ValueError, "longest is -1"),
    ((X, K, K, N), {"scale": math.nan}, ValueError, "scale is nan"),
    ((X, K, K, N), {"return_lse": 1}, TypeError, "return_lse is 1"),
    ((X, K.mT.contiguous().mT, K, N), {}, ValueError, "k_cache has strides .*; its last dimension must be contiguous"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "message"), BAD)
def test_what_is_refused(arguments, options, error, message) -> None:
    with pytest.raises(error, match=message):
        decode(*arguments, **options)
    decode(X, K, K, N)

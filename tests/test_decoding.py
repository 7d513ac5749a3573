"""Decoding: the kernels against float64, pages in any order, and every refusal. What they cost: test_decoding_cost.py."""

import itertools
import math

import pytest
import torch
from decoding_inputs import DEVICE, definition, inputs, paged, whole
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import runtime
from course_lib.attention import attention, kernel_choice
from course_lib.instruments import measure
from course_lib.kernels import decoding
from course_lib.kernels.decoding import decode
from course_lib.model.decoding import even_splits

GPU = runtime.mode() == "GPU"
DTYPES = [torch.float32, torch.float16] + ([torch.bfloat16] if GPU else [])
FLOOR = {torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def scores(q, k, scale):
    """[B, H, n_q, keys] in float64."""
    keys = k.double().nan_to_num().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return q.double() @ keys.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)


def check(q, k, v, lengths, splits, page=None, scale=None) -> None:
    cache = (k, v) if page is None else paged(k, v, lengths, page)
    options = {"block_table": cache[2]} if page else {}
    o, L = decode(q, *cache[:2], whole(*lengths), splits=splits, scale=scale, return_lse=True, **options)
    right, right_L = definition(*(x.double() for x in (q, k, v)), lengths, scale)
    usual = definition(q, k, v, lengths, scale)[0]
    assert (o.dtype, o.shape, L.dtype) == (q.dtype, q.shape, torch.float32)
    bound = 2 * measure.max_error(usual, right) + FLOOR[q.dtype] * max(1.0, float(right.abs().max()))
    # Scores are sums in fp32 in some order, as in rule.py: one rounding of each moves the output by up to eps · max|S| · max|V|.
    largest = [float(x.double().nan_to_num().abs().max()) for x in (scores(q, k, scale), v)]
    bound += torch.finfo(torch.float32).eps * largest[0] * largest[1]
    assert measure.max_error(o, right) <= bound, (lengths, list(q.shape), list(k.shape), splits, page)
    torch.testing.assert_close(L.double(), right_L.double(), atol=2e-5, rtol=2e-5)


CASES = [  # lengths; heads of q and of K and V; queries, head size, splits, page
    ((1,), 1, 1, 1, 32, 1, None),
    ((1000, 1, 0, 333), 8, 2, 1, 64, 7, 16),
    ((65, 640), 8, 1, 2, 128, 3, 64),
    ((3, 0, 129), 2, 2, 8, 40, 2, 32),
    ((200, 31), 4, 1, 3, 256, 4, 128),
    ((513,), 16, 2, 8, 32, 64, 256),
    ((1000, 128), 4, 4, 1, 128, None, None),
]


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("lengths", "heads", "heads_k", "n_q", "d", "splits", "page"), CASES)
def test_any_lengths_heads_pages_and_splits(lengths, heads, heads_k, n_q, d, splits, page, dtype) -> None:
    q, k, v = inputs(lengths, heads, heads_k, n_q, d, dtype)
    check(q, k, v, lengths, splits, page)


@pytest.mark.kernel
@settings(max_examples=60 if GPU else 6, derandomize=True)
@given(data=st.data())
def test_whatever_is_drawn(data) -> None:
    lengths = data.draw(st.lists(st.integers(0, 1000 if GPU else 300), min_size=1, max_size=3))
    heads_k, group = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 4), (2, 4), (1, 8)]))
    n_q, d = data.draw(st.integers(1, 8)), data.draw(st.sampled_from([32, 64, 72, 128, 256]))
    splits, page = data.draw(st.integers(1, 64 if GPU else 9)), data.draw(st.sampled_from([None, 16, 32, 64, 256]))
    dtype = data.draw(st.sampled_from(DTYPES))
    q, k, v = inputs(lengths, heads_k * group, heads_k, n_q, d, dtype)
    check(
        10 * q if data.draw(st.booleans()) else q, k, v, lengths, splits, page, data.draw(st.sampled_from([None, 0.3]))
    )


@pytest.mark.kernel
@pytest.mark.parametrize("page", [None, 16])
def test_a_long_sequence_has_most_of_the_splits(page) -> None:
    lengths = (1, 0, 700, 3, 0, 40)
    q, k, v = inputs(lengths, 4, 2, 2, 32, torch.float16)
    assert decoding.uneven(len(lengths), 700, sum(lengths))
    assert not decoding.uneven(3, 700, 3 * 600)
    check(q, k, v, lengths, None, page)
    cache = (k, v, None) if page is None else paged(k, v, lengths, page)
    right = definition(*(x.double() for x in (q, k, v)), lengths)
    for splits in (2, 5, 128):
        found = decoding.launch_decode(
            q, *cache[:2], whole(*lengths), cache[2], True, -2, 32**-0.5, 0.0, splits, 0, even=True
        )
        for x, y in zip(found, right):
            torch.testing.assert_close(x.double(), y.double(), atol=2e-3, rtol=2e-3)


@pytest.mark.kernel
def test_a_length_that_the_cache_does_not_have_shows_in_its_sequence_alone() -> None:
    q, k, v = inputs((64, 64, 9), 2, 1, 1, 16, torch.float32, room=64)
    right = definition(q.double(), k.double(), v.double(), (64, 64, 9))[0]
    for wrong in (65, -1, 2**31 - 1):
        for even in (False, True):  # launched as on a GPU, where numbers are not checked
            o, L = decoding.launch_decode(q, k, v, whole(64, wrong, 9), None, False, -1, 0.25, 0.0, 3, 0, even=even)
            assert o[1].isnan().all()
            assert L[1].isnan().all()
            torch.testing.assert_close(o[[0, 2]].double(), right[[0, 2]], atol=1e-5, rtol=1e-5)


def test_even_splits_are_no_more_than_there_are_programs_for() -> None:
    assert even_splits([4096] * 64, 4, 64) == (1024, [4] * 64)  # equal sequences: as if each had four of its own
    assert even_splits([4096] * 63 + [65_536], 4, 64) == (2048, [2] * 63 + [32])
    assert even_splits([5] * 999 + [10**6], 2, 64)[1][-1] == 32
    for lengths, splits in itertools.product(([0], [0, 0], [1, 10**6], [64, 65, 63, 4096], [7] * 100), (1, 2, 5, 128)):
        each, counts = even_splits(lengths, splits, 64)
        assert sum(counts) <= len(lengths) * (splits + 1)
        assert all(1 <= count <= 32 and count * each >= length for length, count in zip(lengths, counts))
    with pytest.raises(ValueError, match=r"lengths\[1\] is -1"):
        even_splits([1, -1], 2, 64)


@pytest.mark.kernel
def test_hard_scores_and_a_late_spike() -> None:
    q, k, v = inputs((130,), 2, 1, 1, 32, torch.float32)
    spike = torch.cat([k[:, :, :-1], 4 * q[:, :1]], dim=2)
    for x, y in ((10 * q, k), (3 * q.abs() + 9, -k.abs() - 3), (q, spike), (q, k[:, :, :1].expand_as(k).contiguous())):
        check(x, y, 10 * v, (130,), 3)


@pytest.mark.kernel
def test_the_cache_may_have_any_strides() -> None:
    q, k, v = inputs((50, 33), 4, 2, 1, 16, torch.float16)
    right = decode(q, k, v, whole(50, 33), splits=1)
    packed = torch.stack([k, v]).permute(1, 3, 0, 2, 4).contiguous()  # [B, N, 2, Hk, D]
    k_view, v_view = packed.permute(2, 0, 3, 1, 4)
    assert torch.equal(decode(q, k_view, v_view, whole(50, 33), splits=1), right)


@pytest.mark.kernel
@pytest.mark.skipif(not GPU, reason="takes 9 GB")
def test_sequences_and_pages_may_begin_beyond_2_to_the_31_elements() -> None:
    q, k, _ = inputs((50, 33), 2, 1, 1, 16, torch.float16)
    right = decode(q, k, k, whole(50, 33), splits=1)
    far = torch.full((2, 1, 2**27 + 64, 16), torch.nan, dtype=torch.float16, device=DEVICE)
    far[:, :, :50] = k
    assert torch.equal(decode(q, far, far, whole(50, 33), splits=1), right)
    pages, last = far.view(-1, 1, 64, 16), 2**21 + 1  # of a sequence the first page
    assert torch.equal(decode(q, pages, pages, whole(50, 33), block_table=whole(0, last).view(2, 1), splits=1), right)


@pytest.mark.kernel
def test_a_row_of_a_page_may_lie_beyond_2_to_the_31_elements(tmp_path) -> None:
    page, apart = 256, 2**23 + 2**16  # the last rows of a page are 2^31 elements from its first
    size, q = page * apart, torch.randn(1, 2, 1, 16, device=DEVICE).half()
    if GPU:
        pool = torch.zeros(size, dtype=torch.float16, device=DEVICE)
    else:  # a file without blocks on the disk
        pool = torch.from_file(str(tmp_path / "pool"), shared=True, size=size, dtype=torch.float16)
    near, pages = torch.zeros(1, 1, page, 16).to(q), pool.as_strided((1, 1, page, 16), (size, size, apart, 1))
    near[:, :, -20:] = torch.randn(1, 1, 20, 16, device=DEVICE)
    pages[:, :, -20:] = near[:, :, -20:]  # the others are zero
    table = whole(0).view(1, 1)
    right = decode(q, near, near, whole(page), block_table=table, splits=1)
    assert torch.equal(decode(q, pages, pages, whole(page), block_table=table, splits=1), right)


@pytest.mark.kernel
def test_a_pool_without_pages_is_not_read_and_shows() -> None:
    q, pages, table = torch.randn(2, 2, 1, 16, device=DEVICE), torch.empty(0, 1, 16, 16, device=DEVICE), whole(0, 0)
    for splits in (1, 2):  # launched as on a GPU, where numbers are not checked
        o, L = decoding.launch_decode(q, pages, pages, whole(9, 0), table.view(2, 1), False, -1, 0.25, 0.0, splits, 16)
        assert o[0].isnan().all()
        assert L[0].isnan().all()
        assert not o[1].any()
        assert (L[1] == -torch.inf).all()
    with pytest.raises(ValueError, match=r"block_table\[0, 0\] is 0; the cache has 0 pages"):
        decode(q, pages, pages, whole(9, 0), block_table=table.view(2, 1), check=True)


@pytest.mark.kernel
def test_the_same_splits_give_the_same_bits_and_no_lengths_mean_all() -> None:
    q, k, v = inputs((300, 300), 4, 2, 2, 64, torch.float16)
    first = decode(q, k, v, whole(300, 300), splits=5, return_lse=True)
    for _ in range(100 if GPU else 2):
        assert all(torch.equal(x, y) for x, y in zip(decode(q, k, v, splits=5, return_lse=True), first))
        assert torch.equal(decode(q, k, v, splits=5), first[0])
    by_length = {"lengths": whole(300, 7), "longest": 300, "total": 307, "return_lse": True}
    first = decode(q, k, v, **by_length)
    for _ in range(100 if GPU else 2):
        assert all(torch.equal(x, y) for x, y in zip(decode(q, k, v, **by_length), first))


@pytest.mark.kernel
@pytest.mark.skipif(not GPU, reason="the interpreter would take an hour")
@pytest.mark.parametrize("page", [None, 16, 256])
def test_131072_keys(page) -> None:
    lengths = (131_072, 5)
    q, k, v = inputs(lengths, 32, 8, 1, 128, torch.bfloat16)
    cache = (k, v) if page is None else paged(k, v, lengths, page)
    right = definition(*(x.double() for x in (q, k, v)), lengths)[0]
    for total in (None, sum(lengths)):
        o = decode(q, *cache[:2], whole(*lengths), block_table=cache[2] if page else None, total=total)
        assert measure.max_error(o, right) < 2e-2 * float(right.abs().max())


@pytest.mark.kernel
@pytest.mark.skipif(not GPU, reason="on the CPU they raise")
def test_unchecked_numbers_out_of_range_read_nothing_and_show() -> None:
    q, k, v = inputs((64, 64), 4, 2, 1, 32, torch.float16)
    o = decode(q, k, v, whole(64, 65), splits=2)
    assert torch.equal(o[0], decode(q, k, v, whole(64, 64), splits=2)[0])
    assert o[1].isnan().all()
    k_pages, v_pages, table = paged(k, v, (64, 64), 16)
    table[1, 2] = 10**6
    assert decode(q, k_pages, v_pages, whole(64, 64), block_table=table, splits=2)[1].isnan().all()
    with pytest.raises(ValueError, match=r"block_table\[1, 2\] is 1000000"):
        decode(q, k_pages, v_pages, whole(64, 64), block_table=table, check=True)


@pytest.mark.kernel
def test_attention_takes_it_when_queries_are_few() -> None:
    for n_q, group, options in (
        (1, 4, {}),
        (4, 1, {"causal": True, "causal_offset": 296}),
        (8, 4, {"softcap": 4.0}),
        (2, 2, {"causal": True, "causal_offset": -1}),
    ):
        shapes = ((2, 2 * group, n_q, 32), (2, 2, 300, 32), (2, 2, 300, 32))
        q, k, v = (torch.randn(shape, device=DEVICE) for shape in shapes)
        assert kernel_choice(q, k, v).startswith("decoding (Triton): ")
        o, L = attention(q, k, v, return_lse=True, **options)
        padded = torch.cat([q, q.new_zeros(2, 2 * group, 9 - n_q, 32)], dim=2)
        right, right_L = attention(padded, k, v, return_lse=True, **options)
        torch.testing.assert_close(o, right[:, :, :n_q], atol=2e-5, rtol=2e-5)
        torch.testing.assert_close(L, right_L[:, :, :n_q], atol=2e-5, rtol=2e-5)
    assert "decoding" not in kernel_choice(padded, k, v)
    assert "decoding" not in kernel_choice(q, k[:, :, :100], v[:, :, :100])


@pytest.mark.kernel
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


@pytest.mark.kernel
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


# --- refusals ---

X, K = torch.randn(2, 4, 1, 16, device=DEVICE), torch.randn(2, 2, 32, 16, device=DEVICE)
N, TABLE = whole(32, 5), whole(0, 1, 1, 0).view(2, 2)
BAD = [
    ((X[0], K, K, N), {}, ValueError, r"q has shape \[4, 1, 16\]; pass \[batch, heads, length, head size\]"),
    ((X.tolist(), K, K, N), {}, TypeError, "q is a list"),
    ((None, K, K, N), {}, TypeError, "q is a NoneType; pass a torch.Tensor"),
    ((X, None, K, N), {}, TypeError, "k_cache is a NoneType; pass a torch.Tensor"),
    ((X, K.half(), K.half(), N), {}, TypeError, "q is torch.float32 but k_cache is torch.float16"),
    ((X, K, K[:, :, :8], N), {}, ValueError, r"k_cache has shape \[2, 2, 32, 16\] but v_cache has \[2, 2, 8, 16\]"),
    ((X[..., :8], K, K, N), {}, ValueError, "q is .* but k_cache is .* head size must be equal"),
    ((X[:, :3], K, K, N), {}, ValueError, "q's heads a multiple of k_cache's"),
    ((X.expand(2, 4, 9, 16), K, K, N), {}, ValueError, "q has 9 queries a sequence; pass 1 to 8"),
    ((X[:1], K, K, N), {}, ValueError, r"k_cache is \[2, 2, 32, 16\]; batch and head size must be equal"),
    ((X, K, K, [32, 5]), {}, TypeError, "lengths is a list"),
    ((X, K, K, N.long()), {}, TypeError, r"lengths has dtype torch.int64; pass int32, for example lengths.int\(\)"),
    ((X, K, K, N[:1]), {}, ValueError, r"lengths has shape \[1\]; pass \[2\]"),
    ((X, K, K, whole(32, 33)), {"check": True}, ValueError, r"lengths\[1\] is 33; the cache has room for 32"),
    ((X, K, K, whole(-1, 3)), {"check": True}, ValueError, r"lengths\[0\] is -1"),
    ((X, K, K, N), {"block_table": TABLE.float()}, TypeError, "block_table has dtype torch.float32; pass int32"),
    ((X, K, K, N), {"block_table": TABLE[:1]}, ValueError, r"block_table has shape \[1, 2\]; pass \[2, slots\]"),
    (
        (X, K, K, N),
        {"block_table": TABLE.T},
        ValueError,
        r"block_table has strides \[1, 2\]; pass block_table.contiguous",
    ),
    (
        (X, K, K, N),
        {"block_table": TABLE + 1, "check": True},
        ValueError,
        r"block_table\[0, 0\] is 1|block_table\[1, 0\] is 2; the cache has 2 pages",
    ),
    (
        (X, K, K, whole(65, 5)),
        {"block_table": TABLE, "check": True},
        ValueError,
        r"lengths\[0\] is 65; the cache has room for 64",
    ),
    (
        (X, K[:, :, :8], K[:, :, :8], N),
        {"block_table": TABLE},
        ValueError,
        "pages of 8 tokens; pass pages of 16 tokens or a larger power of two",
    ),
    ((X, K, K, N), {"splits": 129}, ValueError, "splits is 129; pass a whole number from 1 to 128"),
    ((X, K, K, N), {"splits": 2.0}, TypeError, "splits is 2.0"),
    ((X, K, K, N), {"longest": -1}, ValueError, "longest is -1"),
    ((X, K, K, N), {"scale": math.nan}, ValueError, "scale is nan"),
    ((X, K, K, N), {"scale": 10**5000}, ValueError, "scale is <int>; pass a finite number"),
    ((X, K, K, N), {"return_lse": 1}, TypeError, "return_lse is 1"),
    ((X, K, K, N), {"check": None}, TypeError, "check is None"),
    ((X, K.mT.contiguous().mT, K, N), {}, ValueError, "k_cache has strides .*; its last dimension must be contiguous"),
]


@pytest.mark.kernel
@pytest.mark.parametrize(("arguments", "options", "error", "message"), BAD)
def test_what_is_refused(arguments, options, error, message) -> None:
    with pytest.raises(error, match=message):
        decode(*arguments, **options)
    decode(X, K, K, N)

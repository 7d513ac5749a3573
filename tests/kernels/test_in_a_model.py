"""attention(), decode() and the cache as a model calls them: autocast, inference mode, export, and in the place of torch's function."""

import inspect

import numpy as np
import pytest
import torch
from decoding_inputs import whole
from rule import DEVICE, definition, heads

from course_lib import runtime
from course_lib.attention import attention, scaled_dot_product_attention
from course_lib.kernels.decoding import decode
from course_lib.kernels.kv_cache import KVCache

pytestmark = pytest.mark.kernel
F = torch.nn.functional
TORCHS = F.scaled_dot_product_attention
BACKEND = "inductor" if runtime.mode() == "GPU" else "aot_eager"
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
HALVES = [torch.float16, torch.bfloat16]


def close(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
    torch.testing.assert_close(x.double(), y.double(), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def autocast(dtype: torch.dtype, enabled: bool = True) -> torch.autocast:
    return torch.autocast(DEVICE.type, dtype=dtype, enabled=enabled)


# --- autocast ---


@pytest.mark.parametrize(("dtype", "compiled"), [(torch.float16, False), (torch.bfloat16, True)], ids=str)
def test_under_autocast_it_computes_and_differentiates_as_torch_does(dtype, compiled) -> None:
    def ours(q, k, v):
        return attention(q, k, v, causal=True)

    function = torch.compile(ours, fullgraph=True, backend=BACKEND) if compiled else ours
    for kinds in ((torch.float32,) * 3, (torch.float32, torch.float32, dtype), (HALVES[0],) * 3):
        leaves = [x.to(kind).requires_grad_() for x, kind in zip(heads(1, 2, 2, 20, 20, 16, torch.float32), kinds)]
        with autocast(dtype):
            o, right = function(*leaves), TORCHS(*leaves, is_causal=True)
            off = torch.autocast(DEVICE.type, enabled=False)
        assert o.dtype == right.dtype == dtype
        close(o, right, dtype)
        do = torch.randn_like(o)
        for leaf, x, y in zip(leaves, torch.autograd.grad(o, leaves, do), torch.autograd.grad(right, leaves, do)):
            assert x.dtype == leaf.dtype
            close(x, y, dtype)
        if len(set(kinds)) == 1:  # a region without it inside, and after it
            with autocast(dtype), off:
                assert function(*leaves).dtype == kinds[0]
            assert function(*leaves).dtype == kinds[0]


@pytest.mark.parametrize(("dtype", "compiled"), [(torch.float16, False), (torch.bfloat16, True)], ids=str)
def test_decode_and_the_cache_take_part_in_autocast(dtype, compiled) -> None:
    q, k, v = heads(2, 4, 2, 3, 40, 16, torch.float32)
    function = torch.compile(decode, fullgraph=True, backend=BACKEND) if compiled else decode
    right = definition(q.double(), k.double(), v.double(), causal=True, offset=37)[0]
    for held in (torch.float32, dtype):
        cache = KVCache(2, 2, 16, 40, dtype=held, device=DEVICE)
        with autocast(dtype):
            cache.append(k, v.to(dtype))
            for o in (function(q, k.to(held), v.to(held), whole(40, 40)), cache.attend(q)):
                assert o.dtype == dtype
                close(o, right, dtype)
    assert function(q, k, v, whole(40, 40)).dtype == torch.float32


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_16_bit_numbers_of_both_kinds_are_taken_everywhere(dtype) -> None:
    """In the interpreter bfloat16, too: most models come in it."""
    leaves = [x.requires_grad_() for x in heads(1, 4, 2, 20, 30, 16, dtype)]
    exact = [x.detach().double().requires_grad_() for x in leaves]
    (o, L), (right, right_L) = attention(*leaves, return_lse=True), definition(*exact)
    assert (o.dtype, L.dtype) == (dtype, torch.float32)
    close(o, right, dtype)
    close(L, right_L, dtype)
    for x, y in zip(torch.autograd.grad(o.sum(), leaves), torch.autograd.grad(right.sum(), exact)):
        assert x.dtype == dtype
        close(x, y, dtype)
    q, k, v = (x.detach() for x in leaves)
    close(decode(q[:, :, -1:], k, v), right[:, :, -1:], dtype)


# --- inference mode ---


@pytest.mark.parametrize("page", [None, 16])
def test_a_cache_made_in_inference_mode_goes_on_outside(page) -> None:
    q, k, v = heads(2, 4, 2, 1, 3, 16, torch.float32)
    with torch.inference_mode():
        cache = KVCache(2, 2, 16, 32, page=page, device=DEVICE)
        cache.append(k[:, :, :1].clone(), v[:, :, :1].clone())
    cache.append(k[:, :, 1:2], v[:, :, 1:2])
    with torch.inference_mode():
        cache.append(k[:, :, 2:], v[:, :, 2:])
    close(cache.attend(q), definition(q, k, v)[0])
    cache.clear(0)


# --- other ways to trace and to differentiate ---


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_lengths_left_open(strict) -> None:
    class LastOnes(torch.nn.Module):
        def forward(self, q, k, v):
            return attention(q, k, v, causal=True, causal_offset=k.shape[2] - q.shape[2])

    n_q, n_k = torch.export.Dim("n_q", min=2, max=64), torch.export.Dim("n_k", min=2, max=512)
    program = torch.export.export(
        LastOnes(),
        tuple(heads(1, 2, 1, 9, 12, 16, torch.float32)),
        dynamic_shapes=({2: n_q}, {2: n_k}, {2: n_k}),
        strict=strict,
    )
    for lengths in ((12, 12), (5, 40)):
        q, k, v = heads(1, 2, 1, *lengths, 16, torch.float32)
        close(program.module()(q, k, v), definition(q, k, v, causal=True, offset=lengths[1] - lengths[0])[0])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("output", [0, 1])
def test_a_jacobian_may_be_vectorised(output) -> None:
    q, k, v = heads(1, 1, 1, 3, 4, 2, torch.float32)

    def values(x):
        return attention(x, k, v, causal=True, return_lse=True)[output].flatten()

    loop, vectorised = (torch.autograd.functional.jacobian(values, q, vectorize=flag) for flag in (False, True))
    close(vectorised, loop)


# --- NaN where no query looks ---


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 300), (8, 64), (16, 100)])
def test_what_lies_behind_the_last_visible_key_is_not_read(n_q, n_k) -> None:
    """As in a cache with room to spare, whose rest nobody has written."""
    for seen in (n_k // 2 + 1, n_q - 1, 0):
        q, k, v = heads(1, 2, 1, n_q, n_k, 16, torch.float32)
        clean = [x[:, :, :seen].clone().requires_grad_() for x in (k, v)]
        k[:, :, seen:] = v[:, :, seen:] = torch.nan
        leaves = [x.requires_grad_() for x in (q, k, v)]
        o, L = attention(*leaves, causal=True, causal_offset=seen - n_q, return_lse=True)
        right, right_L = definition(q, *clean, causal=True, offset=seen - n_q)
        close(o, right)
        close(L, right_L)
        if seen:
            dq, *found = torch.autograd.grad(o.square().sum(), leaves)
            right_dq, *wanted = torch.autograd.grad(right.square().sum(), [q, *clean])
            close(dq, right_dq)
            for x, y in zip(found, wanted):
                close(x[:, :, :seen], y)
                assert not x[:, :, seen:].any()


def test_more_queries_than_decode_takes_can_be_passed_as_it_says() -> None:
    q, k, v = heads(2, 4, 2, 12, 32, 16, torch.float32)
    pages = [x.reshape(2, 2, 2, 16, 16).transpose(1, 2).reshape(4, 2, 16, 16) for x in (k, v)]
    lengths, table = whole(32, 20), whole(0, 1, 2, 3).view(2, 2)
    with pytest.raises(ValueError, match=r"q has 12 queries.*q\[:, :, :8\].*lengths - 4"):
        decode(q, *pages, lengths, block_table=table)
    parts = [decode(q[:, :, :8], *pages, lengths - 4, block_table=table)]
    parts.append(decode(q[:, :, 8:], *pages, lengths, block_table=table))
    for b, n in enumerate((32, 20)):
        one = slice(b, b + 1)
        right = definition(q[one], k[one, :, :n], v[one, :, :n], causal=True, offset=n - 12)[0]
        close(torch.cat(parts, dim=2)[one], right)


# --- numbers ---


def test_a_scalar_of_numpy_is_a_number_and_a_softcap_of_0_is_none() -> None:
    q, k, v = heads(1, 2, 1, 5, 9, 16, torch.float32)
    plain = attention(q, k, v, scale=0.5, causal=True, causal_offset=4)
    for real, integer in ((np.float32, np.int64), (np.float16, np.uint8)):
        for _ in range(3):
            found = attention(q, k, v, scale=real(0.5), causal=True, causal_offset=integer(4), softcap=real(0))
            assert torch.equal(found, plain)
    plain = decode(q[:, :, :1], k, v, scale=0.5, splits=2)
    assert torch.equal(decode(q[:, :, :1], k, v, scale=np.float32(0.5), splits=np.int64(2), longest=np.int32(9)), plain)


def test_a_compiled_call_takes_a_number_that_changes() -> None:
    q, k, v = heads(1, 2, 1, 5, 9, 16, torch.float32)
    function = torch.compile(lambda scale: attention(q, k, v, scale=scale), fullgraph=True, backend=BACKEND)
    for scale in (0.1, 0.2, 0.3):
        close(function(scale), attention(q, k, v, scale=scale))
    with pytest.raises(TypeError, match=r"q is torch\.float64"):
        torch.compile(attention, backend=BACKEND)(q.double(), k.double(), v.double())


# --- in the place of torch's function ---


def test_it_has_torchs_signature() -> None:
    found = inspect.signature(scaled_dot_product_attention).parameters
    defaults = {name: x.default for name, x in found.items()}
    none = inspect.Parameter.empty
    assert list(defaults.items()) == [
        ("query", none), ("key", none), ("value", none), ("attn_mask", None), ("dropout_p", 0.0), ("is_causal", False),
        ("scale", None), ("enable_gqa", False),
    ]  # fmt: skip


SHAPES = [  # of q, of k and v, enable_gqa
    ((7, 16), (9, 16), False),
    ((4, 7, 16), (2, 9, 16), True),
    ((1, 4, 9, 16), (1, 2, 7, 16), True),
    ((2, 1, 2, 7, 16), (2, 1, 2, 9, 16), False),
    ((2, 0, 16), (2, 9, 16), False),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("shape", "of_keys", "gqa"), SHAPES)
def test_it_gives_what_torchs_function_gives(shape, of_keys, gqa, causal) -> None:
    q, k, v = leaves = [torch.randn(x, device=DEVICE, requires_grad=True) for x in (shape, of_keys, of_keys)]
    for arguments in ((q, k, v), (q, k.mT.contiguous().mT, v)):
        o, right = (
            function(*arguments, None, 0.0, causal, scale=0.3, enable_gqa=gqa)
            for function in (scaled_dot_product_attention, TORCHS)
        )
        assert o.shape == right.shape
        close(o, right)
        for x, y in zip(torch.autograd.grad(o.sum(), leaves), torch.autograd.grad(right.sum(), leaves)):
            close(x, y)


def test_multi_head_attention_takes_it(monkeypatch) -> None:
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True).to(DEVICE)
    x, mask = torch.randn(2, 9, 32, device=DEVICE), torch.nn.Transformer.generate_square_subsequent_mask(9, DEVICE)
    options = {"need_weights": False, "attn_mask": mask, "is_causal": True}
    right = layer(x, x, x, **options)[0]
    wanted = torch.autograd.grad(right.square().sum(), list(layer.parameters()))
    monkeypatch.setattr(F, "scaled_dot_product_attention", scaled_dot_product_attention)
    o = layer(x, x, x, **options)[0]
    close(o, right)
    for a, b in zip(torch.autograd.grad(o.square().sum(), list(layer.parameters())), wanted):
        close(a, b)


X = torch.randn(1, 4, 8, 16, device=DEVICE)
REFUSED = [
    ({"attn_mask": torch.ones(8, 8, dtype=torch.bool)}, ValueError, "attn_mask"),
    ({"dropout_p": 0.1}, ValueError, "dropout_p"),
    ({"is_causal": 1}, TypeError, "is_causal"),
    ({"enable_gqa": None}, TypeError, "enable_gqa"),
    ({"key": X[:, :2], "value": X[:, :2]}, ValueError, "enable_gqa=True"),
    ({"query": X[0, 0, 0]}, ValueError, "query"),
    ({"query": [1.0]}, TypeError, "query is a list"),
    ({"query": X[0]}, ValueError, r"key has shape \[1, 4, 8, 16\]; pass query, key and value"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED)
def test_what_it_does_not_do_is_said_in_the_words_of_its_signature(wrong, error, message) -> None:
    with pytest.raises(error, match=message):
        scaled_dot_product_attention(**{"query": X, "key": X, "value": X} | wrong)

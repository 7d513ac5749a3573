"""The KV cache: it decodes what causal attention says, in one piece or in pages, and gives pages back."""

import pytest
import torch
from rule import DEVICE, definition, heads

from course_lib.kernels.kv_cache import KVCache

pytestmark = pytest.mark.kernel
SIZES = {"batch": 2, "heads_k": 2, "d": 16, "room": 40, "device": DEVICE}


def tokens(n: int) -> list[torch.Tensor]:
    return heads(2, 4, 2, n, n, 16, torch.float32)


@pytest.mark.parametrize("page", [None, 16])
def test_token_by_token_it_is_causal_attention(page) -> None:
    q, k, v = tokens(20)
    cache = KVCache(**SIZES, page=page)
    cache.k.fill_(torch.nan)
    cache.v.fill_(torch.nan)
    cache.append(k[:, :, :17], v[:, :, :17], counts=[17, 5])  # prompts of different lengths
    for step in range(3):
        at = [17 + step, 5 + step]
        new = [torch.stack([x[b, :, at[b] : at[b] + 1] for b in range(2)]) for x in (q, k, v)]
        cache.append(*new[1:])
        o = cache.attend(new[0], splits=2)
        for b in range(2):
            exact = [x[b : b + 1, :, : at[b] + 1].double() for x in (q, k, v)]
            torch.testing.assert_close(o[b].double(), definition(*exact)[0][0, :, -1:], atol=1e-5, rtol=1e-4)
    assert cache.lengths.tolist() == [20, 8]


def test_pages_are_taken_as_they_are_needed_and_given_back() -> None:
    _, k, v = tokens(20)
    cache = KVCache(**SIZES, page=16, pages=3)
    cache.append(k, v, counts=[16, 3])
    assert cache.block_table.tolist() == [[0, -1, -1], [1, -1, -1]]
    cache.append(k[:, :, :1], v[:, :, :1])
    assert cache.block_table.tolist() == [[0, 2, -1], [1, -1, -1]]
    before = cache.k.clone()
    with pytest.raises(ValueError, match="1 new pages are needed and 0 are free; clear a sequence first"):
        cache.append(k, v, counts=[0, 13])
    assert torch.equal(cache.k.view(torch.int32), before.view(torch.int32))  # what nobody has written yet may be NaN
    assert cache.lengths.tolist() == [17, 4]
    cache.clear(0)
    cache.append(k, v, counts=[0, 13])
    assert cache.block_table.tolist() == [[-1, -1, -1], [1, 0, -1]]
    cache.append(k[:, :, :0], v[:, :, :0])
    assert cache.lengths.tolist() == [0, 17]


def test_it_keeps_no_graph_of_what_was_written() -> None:
    _, k, v = (x.requires_grad_() for x in tokens(3))
    cache = KVCache(**SIZES)
    for at in range(3):
        cache.append(k[:, :, at : at + 1] * 2, v[:, :, at : at + 1] * 2)
    assert not cache.k.requires_grad
    torch.testing.assert_close(cache.k[:, :, :3], 2 * k.detach())


_, K, V = tokens(20)
BAD = [
    (lambda c: c.append(K[:1], V[:1]), ValueError, r"k has shape \[1, 2, 20, 16\]; pass \[2, 2, new tokens, 16\]"),
    (lambda c: c.append(K.half(), V), TypeError, "k is torch.float16 but the cache is torch.float32"),
    (lambda c: c.append(K, V, counts=[1]), ValueError, "counts has 1 numbers; pass 2"),
    (lambda c: c.append(K, V, counts=[1, 21]), ValueError, r"counts\[1\] is 21; pass a whole number from 0 to 20"),
    (
        lambda c: [c.append(K, V) for _ in "abc"],
        ValueError,
        "sequence 0 has 40 tokens and 20 are to come; the cache has",
    ),
    (lambda c: c.clear(2), ValueError, "b is 2; pass a whole number from 0 to 1"),
    (lambda c: KVCache(**SIZES, page=24), ValueError, "page is 24; pass a power of two, 16 or larger"),
    (lambda c: KVCache(**SIZES, pages=8), ValueError, "pages is 8, but page is None"),
    (lambda c: KVCache(**SIZES, dtype=torch.int32), ValueError, "dtype is torch.int32"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_what_is_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(KVCache(**SIZES))

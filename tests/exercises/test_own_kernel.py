"""A student's kernels in a model: found in the progress file, causal, with gradients, as a cache; one that is gone is no error."""

import pytest
import torch

from course_lib import runtime
from course_lib.exercises import own_kernel
from course_lib.exercises import passed as kept
from course_lib.exercises.exercise import exercises
from course_lib.instruments.peers import plain_attention

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_progress")]
DEVICE = runtime.device()


def passed(name: str) -> None:
    kept.keep(name, exercises()[name].module.SOLUTION)


def heads(tokens: int, spread: float = 1.0) -> list[torch.Tensor]:
    return [spread * torch.randn(2, 3, tokens, 16, device=DEVICE) for _ in range(3)]


@pytest.mark.parametrize("n", [1, 16, 37])
@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_window_kernel_becomes_causal_attention_with_gradients(n, spread) -> None:
    passed("window_kernel")
    own = own_kernel.own_attention()
    assert own.yours
    leaves = [x.requires_grad_() for x in heads(n, spread)]
    mine, right = own.attend(*leaves), plain_attention(*leaves, True)
    torch.testing.assert_close(mine, right, atol=1e-4 * spread, rtol=1e-4)
    weights = torch.randn_like(mine)
    for a, b in zip(*(torch.autograd.grad(o, leaves, weights) for o in (mine, right)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("passed_it", [False, True])
def test_a_cache_attends_token_by_token_as_all_at_once(passed_it) -> None:
    if passed_it:
        passed("decode_kernel")
    own = own_kernel.own_cache()
    assert own.yours == passed_it
    q, k, v = heads(20)
    cache, together = own.make(2, 3, 16, 20, torch.float32, DEVICE), plain_attention(q, k, v, True)
    cache.append(k[:, :, :9], v[:, :, :9])
    for t in range(9, 20):
        now = slice(t, t + 1)
        cache.append(k[:, :, now], v[:, :, now])
        torch.testing.assert_close(cache.attend(q[:, :, now]), together[:, :, now], atol=1e-5, rtol=1e-5)


def test_what_a_cache_of_the_students_refuses() -> None:
    passed("decode_kernel")
    make = own_kernel.own_cache().make
    with pytest.raises(ValueError, match=r"takes torch.float32"):
        make(1, 1, 16, 4, torch.float64, DEVICE)
    cache = make(1, 1, 16, 16, torch.float32, DEVICE)
    with pytest.raises(ValueError, match="17 tokens are to come and 0 are there; there is room for 16"):
        cache.append(*[torch.zeros(1, 1, 17, 16, device=DEVICE)] * 2)
    with pytest.raises(ValueError, match="the newest alone"):
        cache.attend(torch.zeros(1, 1, 2, 16, device=DEVICE))
    with pytest.raises(ValueError, match="heads have 64 numbers; window_kernel is used with 16 or 32"):
        own_kernel.causal(None, *[torch.zeros(1, 1, 2, 64, device=DEVICE)] * 3)


def test_ours_serves_where_nothing_was_passed_and_says_why() -> None:
    own = own_kernel.own_attention()
    assert not own.yours
    assert own.words.endswith("window_kernel is lecture 05's: it comes in once it has passed its check")
    q, k, v = heads(20)
    torch.testing.assert_close(own.attend(q, k, v), plain_attention(q, k, v, True), atol=1e-5, rtol=1e-5)
    kept.keep("window_kernel", "import nothing_there\n\ndef helper(): ...")
    assert own_kernel.own_attention().words.endswith("run its check again, as its code was not kept")
    assert not own_kernel.own_attention().yours


def test_two_kernels_that_are_read_before_either_is_launched_stay_apart() -> None:
    for name in ("window_kernel", "decode_kernel"):
        passed(name)
    own, cache = own_kernel.own_attention(), own_kernel.own_cache()
    q, k, v = heads(5)
    torch.testing.assert_close(own.attend(q, k, v), plain_attention(q, k, v, True), atol=1e-4, rtol=1e-4)
    assert cache.yours

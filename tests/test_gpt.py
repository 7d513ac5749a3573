"""The character model: it learns, the attention it is given is the one it uses, and the same start gives the same run."""

import math

import pytest
import torch

from course_lib import gpt

SIZES = {"batch": 4, "length": 16, "width": 16, "heads": 2, "layers": 1, "lr": 0.01}
TEXT = "abcd" * 40


def sdpa(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_it_learns_a_text_that_repeats() -> None:
    run = gpt.train(sdpa, TEXT, steps=60, **SIZES)
    assert run.losses[0] > 0.8 * math.log(4)
    assert run.losses[-1] < 0.2
    assert len(run.seconds) == 60


def test_runs_differ_by_their_attention_only() -> None:
    random = torch.random.get_rng_state()
    first, again = (gpt.train(sdpa, TEXT, steps=5, **SIZES).losses for _ in range(2))
    assert first == again
    assert torch.equal(random, torch.random.get_rng_state())
    assert gpt.train(lambda q, k, v: torch.zeros_like(q), TEXT, steps=5, **SIZES).losses != first


def test_the_future_is_hidden_if_the_attention_hides_it() -> None:
    model = gpt.CharacterModel(4, sdpa, width=16, heads=2, layers=2, length=8)
    x = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]])
    y = x.clone()
    y[0, 5:] = 0
    torch.testing.assert_close(model(x)[:, :5], model(y)[:, :5])
    assert not torch.allclose(model(x)[:, 5:], model(y)[:, 5:])


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="text has 3 characters"):
        gpt.train(sdpa, "abc", steps=1, **SIZES)
    with pytest.raises(ValueError, match="width is 16 and heads is 3"):
        gpt.train(sdpa, TEXT, steps=1, **SIZES | {"heads": 3})
    with pytest.raises(ValueError, match="steps is 0; pass a whole number of at least 1"):
        gpt.train(sdpa, TEXT, steps=0, **SIZES)

"""The GPT: it learns, the attention it is given is the one it uses, and a cache changes no character that it says."""

import math

import pytest
import torch

from course_lib import gpt, runtime

SIZES = {"batch": 4, "length": 16, "width": 16, "heads": 2, "layers": 1, "lr": 0.01}
TEXT = "abcd" * 40
TINY = {"vocab_size": 7, "block_size": 12, "n_head": 2, "n_embd": 16}
SDPA, PLAIN = gpt.ATTENTIONS["SDPA"], gpt.ATTENTIONS["plain"]


def model(attend=PLAIN, dtype=torch.float64, n_layer=2, **sizes) -> gpt.GPT:
    """A model whose weights are large, so that what it says depends on all it sees."""
    torch.manual_seed(3)
    made = gpt.GPT(attend, n_layer=n_layer, **TINY | sizes).to(dtype)
    for x in made.parameters():
        torch.nn.init.normal_(x, std=0.6)
    return made


def said(made: gpt.GPT, new: int = 30, batch: int = 2, **how) -> list[list[int]]:
    idx = torch.randint(7, (batch, 5), generator=torch.Generator().manual_seed(1))
    return gpt.generate(made, idx, new, temperature=1.0, **how)[:, 5:].tolist()


def test_it_learns_a_text_that_repeats() -> None:
    run = gpt.train(SDPA, TEXT, steps=60, **SIZES)
    assert run.losses[0] == pytest.approx(math.log(4), rel=0.02)
    assert run.losses[-1] < 0.2
    assert len(run.seconds) == 60


def test_runs_differ_by_their_attention_only() -> None:
    random = torch.random.get_rng_state()
    first, again = (gpt.train(SDPA, TEXT, steps=5, **SIZES).losses for _ in range(2))
    assert first == again
    assert torch.equal(random, torch.random.get_rng_state())
    assert gpt.train(lambda q, k, v: torch.zeros_like(q), TEXT, steps=5, **SIZES).losses != first


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_the_future_is_hidden_if_the_attention_hides_it(positions) -> None:
    made = model(positions=positions)
    x = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]])
    y = x.clone()
    y[0, 5:] = 0
    torch.testing.assert_close(made(x)[:, :5], made(y)[:, :5])
    assert not torch.allclose(made(x)[:, 5:], made(y)[:, 5:])


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_it_sees_the_order_of_what_it_has_read(positions) -> None:
    made = model(positions=positions, n_layer=1)
    there, swapped = made(torch.tensor([[1, 2, 3, 4]])), made(torch.tensor([[2, 1, 3, 4]]))
    assert not torch.allclose(there[:, -1], swapped[:, -1])


def test_rotary_positions_depend_on_distances_alone() -> None:
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def score(i: int, j: int) -> float:
        a, b = (gpt.model.rotated(x, gpt.model.angles(at, 1, 8, x)) for x, at in ((q, i), (k, j)))
        return float((a * b).sum())

    assert score(5, 3) == pytest.approx(score(1005, 1003), rel=1e-9)
    assert score(5, 3) != pytest.approx(score(5, 4), rel=1e-3)


@pytest.mark.parametrize("tied", [True, False])
def test_names_sizes_and_swapping_the_attention(tied) -> None:
    made = gpt.GPT(SDPA, n_layer=2, tied=tied, **TINY)
    names = set(made.state_dict())
    assert {"transformer.wte.weight", "transformer.h.1.attn.c_attn.weight", "transformer.h.0.mlp.c_fc.weight"} <= names
    assert made.parameter_count == 7 * 16 * (2 - tied) + 2 * (12 * 16**2 + 2 * 16) + 16
    x = torch.tensor([[1, 2, 3]])
    before = made(x)
    torch.testing.assert_close(made.use(PLAIN)(x), before)
    assert not torch.allclose(made.use(lambda q, k, v: v)(x), before)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_cache_changes_no_character_in_float64_also_beyond_the_block_size(batch) -> None:
    made = model()
    without = said(made, new=40, batch=batch)
    assert without == said(made, new=40, batch=batch, cache="plain")
    assert len({tuple(row) for row in without}) == batch
    assert (
        without
        != gpt.generate(made, torch.zeros(batch, 5, dtype=torch.int64), 40, seed=1, temperature=1.0)[:, 5:].tolist()
    )


@pytest.mark.kernel
def test_our_cache_and_decode_say_the_same_in_float32() -> None:
    made = model(gpt.ATTENTIONS["attention"], torch.float32).to(runtime.device())
    idx = torch.tensor([[1, 2, 3], [4, 5, 6]], device=runtime.device())
    without = gpt.generate(made, idx, 10, temperature=1.0)
    assert torch.equal(without, gpt.generate(made, idx, 10, temperature=1.0, cache="KVCache"))


def test_a_window_makes_the_cache_wrong_where_positions_are_learned() -> None:
    learned = model(positions="learned", n_layer=1)
    inside = TINY["block_size"] - 5
    fresh, kept = said(learned), said(learned, cache="plain")
    assert [row[: inside + 1] for row in fresh] == [row[: inside + 1] for row in kept]
    assert fresh != kept
    rotary = model(n_layer=1)
    assert said(rotary, window=8) == said(rotary, window=8, cache="plain")
    assert said(rotary, window=8) != said(rotary)


def test_deeper_keys_have_seen_what_the_window_has_dropped() -> None:
    """In the first layer a kept key is the one that would be made anew; in the second it is not, whatever the positions."""
    deep = model(n_layer=2)
    assert said(deep, new=60, window=8) != said(deep, new=60, window=8, cache="plain")


def test_it_draws_the_same_again_and_others_with_another_seed() -> None:
    made = model()
    assert said(made) == said(made) != said(made, seed=1)
    idx = torch.tensor([[1, 2]])
    assert torch.equal(gpt.generate(made, idx, 5)[0, 2], made(idx)[0, -1].argmax())
    counts = torch.bincount(gpt.generate(made, idx.expand(4000, 2), 1, temperature=2.0)[:, 2], minlength=7) / 4000
    assert float((counts - torch.softmax(made(idx)[0, -1].detach() / 2, 0)).abs().max()) < 0.03


def test_the_default_device_changes_no_character() -> None:
    made, right = model(), said(model(), cache="plain")
    with torch.device("meta"):  # nothing can be read there
        idx = torch.randint(7, (2, 5), generator=torch.Generator().manual_seed(1), device="cpu")
        assert gpt.generate(made, idx, 30, temperature=1.0, cache="plain")[:, 5:].tolist() == right


def test_the_plays_are_split_by_play() -> None:
    seven, whole = gpt.load_text(), gpt.load_text(whole=True)
    assert (len(seven.plays), len(seven.held_out), len(whole.plays), len(whole.held_out)) == (6, 1, 34, 3)
    assert not set(whole.plays) & {*whole.held_out, *seven.held_out}
    assert 0.85e6 < len(seven.train) + len(seven.validation) < 0.95e6
    assert 4.8e6 < len(whole.train) + len(whole.validation) < 4.9e6
    assert seven.letters == whole.letters
    assert seven.decode(seven.validation[:13]) == "TWELFTH NIGHT"
    held = seven.decode(seven.validation[40_000:40_060])
    assert held not in whole.decode(whole.train)
    assert seven.decode(seven.encode("To be, or not to be")) == "To be, or not to be"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_head": 3}, "n_embd is 16 and n_head is 3"),
        ({"n_embd": 6, "n_head": 2}, "the head size n_embd / n_head is 3"),
        ({"n_layer": 0}, "n_layer is 0; pass a whole number from 1"),
        ({"positions": "sine"}, "positions is 'sine'; choose one of 'rotary', 'learned'"),
        ({"tied": 1}, "tied is 1 "),
    ],
)
def test_no_model_of_such_sizes(wrong, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        gpt.GPT(SDPA, **{"n_layer": 1} | TINY | wrong)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="text has 3 characters"):
        gpt.train(SDPA, "abc", steps=1, **SIZES)
    with pytest.raises(ValueError, match="width is 16 and heads is 3"):
        gpt.train(SDPA, TEXT, steps=1, **SIZES | {"heads": 3})
    with pytest.raises(ValueError, match="steps is 0; pass a whole number of at least 1"):
        gpt.train(SDPA, TEXT, steps=0, **SIZES)
    made, idx = model(positions="learned"), torch.zeros(1, 13, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"idx has shape \[1, 13\]; pass \[B, N\], N at most 12"):
        made(idx)
    with pytest.raises(TypeError, match="idx has dtype"):
        made(idx.float())
    cache = gpt.PlainCache(1, 2, 8, 12, torch.float64, torch.device("cpu"))
    for caches, begin, error, message in (
        ([], 0, ValueError, "caches has 0 entries; pass 2"),
        (cache, 0, TypeError, r"caches is .* \(PlainCache\); pass a list"),
        (None, -3, ValueError, "begin is -3; pass a whole number of at least 0"),
        (None, "a", TypeError, "begin is 'a' "),
        (None, 2, ValueError, "idx has 5 new characters behind 2; pass them one by one"),
    ):
        with pytest.raises(error, match=message):
            made(idx[:, :5], caches, begin)
    for wrong, message in (
        ({"new": 0}, "new is 0"),
        ({"cache": "paged"}, "cache is 'paged'; pass None"),
        ({"cache": "KVCache", "new": 20}, "window is 12, and this cache keeps all characters"),
        ({"temperature": -1}, "temperature is -1"),
        ({"window": 0}, "window is 0"),
        ({"seed": 2**70}, r"seed is \d+; pass a whole number from 0 to 2,147,483,648"),
        ({"idx": idx[:, :5] + 7}, "idx has characters numbered 7 to 7, and the model has 7; pass numbers from 0 to 6"),
        ({"idx": idx[:, :5] - 1}, "idx has characters numbered -1 to -1"),
    ):
        with pytest.raises(ValueError, match=message):
            gpt.generate(made, **{"idx": idx[:, :5], "new": 3} | wrong)
    with pytest.raises(ValueError, match="words holds 'é'"):
        gpt.load_text().encode("é")
    with pytest.raises(ValueError, match=r"pass one text, \[n\]"):
        gpt.load_text().decode(torch.zeros(2, 3, dtype=torch.int64))
    most = len(gpt.load_text().letters) - 1
    for wrong in (-1, most + 1):
        with pytest.raises(
            ValueError, match=f"numbers holds {wrong}; the plays have {most + 1} characters: pass 0 to {most}"
        ):
            gpt.load_text().decode(torch.tensor([0, wrong]))
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(TypeError, match=f"numbers has dtype {dtype}; pass numbers of characters"):
            gpt.load_text().decode(torch.ones(2, dtype=dtype))

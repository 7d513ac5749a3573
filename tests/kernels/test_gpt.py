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
def test_it_sees_the_order_of_what_it_has_read_and_no_future(positions) -> None:
    made = model(positions=positions, n_layer=1)
    x, y = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 2, 3, 0, 0, 0, 0]])[:, None]
    torch.testing.assert_close(made(x)[:, :5], made(y)[:, :5])
    assert not torch.allclose(made(x)[:, 5:], made(y)[:, 5:])
    there, swapped = made(torch.tensor([[1, 2, 3, 4]])), made(torch.tensor([[2, 1, 3, 4]]))
    assert not torch.allclose(there[:, -1], swapped[:, -1])


@pytest.mark.parametrize("tied", [True, False])
def test_sizes_and_swapping_the_attention(tied) -> None:
    made = gpt.GPT(SDPA, n_layer=2, tied=tied, **TINY)
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
    with torch.device("meta"):  # a default device, on which nothing can be read
        idx = torch.randint(7, (batch, 5), generator=torch.Generator().manual_seed(1), device="cpu")
        assert gpt.generate(made, idx, 40, temperature=1.0, cache="plain")[:, 5:].tolist() == without


@pytest.mark.kernel
def test_our_cache_and_decode_say_the_same_in_float32() -> None:
    made = model(gpt.ATTENTIONS["attention"], torch.float32).to(runtime.device())
    idx = torch.tensor([[1, 2, 3], [4, 5, 6]], device=runtime.device())
    without = gpt.generate(made, idx, 8, temperature=1.0)
    assert torch.equal(without, gpt.generate(made, idx, 8, temperature=1.0, cache="KVCache"))


def test_a_window_makes_the_cache_wrong_where_positions_are_learned_or_keys_have_seen_more() -> None:
    learned = model(positions="learned", n_layer=1)
    inside = TINY["block_size"] - 5
    fresh, kept = said(learned), said(learned, cache="plain")
    assert [row[: inside + 1] for row in fresh] == [row[: inside + 1] for row in kept]
    assert fresh != kept
    rotary, deep = model(n_layer=1), model(n_layer=2)
    assert said(rotary, window=8) == said(rotary, window=8, cache="plain") != said(rotary)
    assert said(deep, new=60, window=8) != said(deep, new=60, window=8, cache="plain")


def test_it_draws_the_same_again_and_others_with_another_seed() -> None:
    made = model()
    assert said(made) == said(made) != said(made, seed=1)
    idx = torch.tensor([[1, 2]])
    assert torch.equal(gpt.generate(made, idx, 5)[0, 2], made(idx)[0, -1].argmax())
    counts = torch.bincount(gpt.generate(made, idx.expand(4000, 2), 1, temperature=2.0)[:, 2], minlength=7) / 4000
    assert float((counts - torch.softmax(made(idx)[0, -1].detach() / 2, 0)).abs().max()) < 0.03


def test_the_plays_are_split_by_play() -> None:
    seven, whole = gpt.load_text(), gpt.load_text(whole=True)
    assert (len(seven.plays), len(seven.held_out), len(whole.plays), len(whole.held_out)) == (6, 1, 34, 3)
    assert not set(whole.plays) & {*whole.held_out, *seven.held_out}
    assert seven.letters == whole.letters
    assert seven.decode(seven.validation[40_000:40_060]) not in whole.decode(whole.train)
    assert seven.decode(seven.encode("To be, or not to be")) == "To be, or not to be"


IDX = torch.zeros(1, 5, dtype=torch.int64)
NO_MODEL = [
    ({"n_head": 3}, "n_embd is 16 and n_head is 3"),
    ({"n_embd": 6, "n_head": 2}, "the head size n_embd / n_head is 3"),
    ({"n_layer": 0}, "n_layer is 0; pass a whole number from 1"),
    ({"positions": "sine"}, "positions is 'sine'; choose one of 'rotary', 'learned'"),
]
NOTHING_SAID = [
    ({"new": 0}, "new is 0"),
    ({"cache": "paged"}, "cache is 'paged'; pass None"),
    ({"cache": "KVCache", "new": 20}, "window is 12, and this cache keeps all characters"),
    ({"temperature": -1}, "temperature is -1"),
    ({"window": 0}, "window is 0"),
    ({"seed": 2**70}, r"seed is \d+; pass a whole number from 0 to 2,147,483,648"),
    ({"idx": IDX + 7}, "idx has characters numbered 7 to 7, and the model has 7; pass numbers from 0 to 6"),
]
OTHERS = [
    (lambda: gpt.train(SDPA, "abc", steps=1, **SIZES), "tokens has 3 characters"),
    (lambda: gpt.train(SDPA, TEXT, steps=0, **SIZES), "steps is 0; pass a whole number of at least 1"),
    (
        lambda: model(positions="learned")(IDX.expand(1, 5).repeat(1, 3)),
        r"idx has shape \[1, 15\]; pass \[B, N\], N at",
    ),
    (lambda: model()(IDX.float()), "idx has dtype"),
    (lambda: gpt.load_text().encode("é"), "words holds 'é'"),
    (lambda: gpt.load_text().decode(torch.tensor([0, -1])), r"numbers holds -1; the plays have \d+ characters"),
]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *[(lambda x=x: gpt.GPT(SDPA, **{"n_layer": 1} | TINY | x), message) for x, message in NO_MODEL],
        *[
            (lambda x=x: gpt.generate(model(positions="learned"), **{"idx": IDX, "new": 3} | x), message)
            for x, message in NOTHING_SAID
        ],
        *OTHERS,
    ],
)
def test_what_is_refused(call, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()

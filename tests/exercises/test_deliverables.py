"""The deliverables of lecture 14: right work is accepted, each usual mistake is named, an answer needs two sentences and a number."""

import math
import re

import nbformat
import pytest
import torch

from course_lib import gpt
from course_lib.exercises import deliverable_checks, deliverables, own_kernel, passed
from course_lib.exercises.deliverables import deliver
from course_lib.exercises.exercise import defined, exercises
from course_lib.instruments.peers import plain_attention
from course_lib.publish import notebooks

ANSWER = "The gap is 0.002 nats. It is smaller than that of seeds."
SDPA = gpt.ATTENTIONS["SDPA"]


def plain(q, k, v):
    return plain_attention(q, k, v, causal=True)


def test_three_dots_are_no_attempt_and_an_answer_has_two_sentences_and_a_number() -> None:
    for answer in ("...", "…", " "):
        assert deliver(3, None, answer).status == "not attempted"
    assert "not attempted. Replace the three dots" in repr(deliver(1, None, "..."))
    for answer, words in (
        ("One sentence, 3.5 long.", "has 1 sentence; write 2"),
        ("No number. At all.", "has no number"),
        ("It is 3.5. It is not 4! Is it?", "has 3 sentences"),
        ("The gap, i.e. 2.6e-05 nats, is small", "has 1 sentence;"),
        ("It is 0.36, e.g. here. That is all", ""),
        (ANSWER, ""),
    ):
        assert words in deliverables.complaint(answer)
    for number in (0, 6, True, "1"):
        with pytest.raises(ValueError, match="pass 1 to 5"):
            deliver(number, None, ANSWER)


def test_the_page_has_a_cell_for_each() -> None:
    cells = nbformat.read(notebooks.lecture("14"), as_version=4).cells
    for number in range(1, 6):
        assert [
            1 for cell in cells if re.search(rf'^deliver\({number}, .*answer="..."\)$', cell.source, re.MULTILINE)
        ] == [1]


@pytest.mark.kernel
@pytest.mark.parametrize("attend", [SDPA, own_kernel.with_gradients(plain)], ids=["SDPA", "forward alone"])
def test_an_attention_is_accepted(attend) -> None:
    found = deliver(1, attend, ANSWER)
    assert found.status == "accepted", found
    assert "three training steps: at most" in repr(found)


@pytest.mark.parametrize(
    ("attend", "words"),
    [
        (plain_attention, "what comes later changes"),
        (lambda q, k, v: plain(q, k, v)[:, :, :-1], "right is [2, 2, 70, 16]"),
        (lambda q, k, v: plain(q, k, v) / 0, "NaN or infinities"),
        (lambda q, k, v: plain(q, k, v) * (torch.arange(q.shape[2]) < 64)[:, None], "away from causal attention"),
        (lambda q, k, v: plain(2 * q, k, v), "away from causal attention"),
        (lambda q, k, v: plain(q, k, v).detach(), "it has no gradients"),
        (lambda q, k, v: plain(q.detach(), k, v) + 0 * q, "the gradient of q"),
        (lambda q: q, "TypeError"),
        (lambda q, k, v: plain(q, k.detach(), v), "k gets no gradient"),
    ],
)
def test_an_attention_that_is_none_is_told_why(attend, words) -> None:
    found = deliver(1, attend, ANSWER)
    assert found.status == "not yet"
    assert words in repr(found)


def test_the_cells_first_line_alone_hands_in_no_attention_of_ones_own(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "nothing_passed.json"))
    found = deliver(1, own_kernel.own_attention().attend, ANSWER)
    assert found.status == "not yet"
    assert "a function of the library was called" in found.failed


def curves(seeds=(0, 1, 2), off=0.0, steps=30):
    guess = math.log(83)
    return [[guess - 0.05 * step - (0.01 * seed + off) * (step > 0) for step in range(steps)] for seed in seeds]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ({"SDPA": curves(), "mine": curves(off=0.002)}, ""),
        ({"SDPA": curves(), "mine": curves(off=0.1)}, "look for a bug"),
        ({"SDPA": curves(), "mine": curves()}, "the same losses to the last bit"),
        ({"SDPA": curves((0, 0, 1)), "mine": curves((0, 0, 1), 0.002)}, "set the seed before the model is made"),
        ({"SDPA": curves((0, 1)), "mine": curves((0, 1))}, "train 3 or more"),
        ({"SDPA": curves(steps=9), "mine": curves(steps=9)}, "30 or more"),
        ({"SDPA": [x[9:] for x in curves(steps=40)], "mine": curves(steps=31)}, "from a fresh model"),
        ({"SDPA": curves(), "mine": [[x[0] + 0.01, *x[1:]] for x in curves(off=0.002)]}, "not the same batches"),
        ({"SDPA": curves(), "mine": [[*x[:-1], math.nan] for x in curves(off=0.002)]}, "a loss is NaN"),
        ([curves(), curves()], "a dictionary of two attentions"),
    ],
)
def test_curves_are_judged_by_the_seeds(runs, words) -> None:
    found = deliver(2, runs, ANSWER)
    assert found.status == ("not yet" if words else "accepted")
    assert words in repr(found)


STEP = exercises()["cached_step"].module.SOLUTION


@pytest.mark.parametrize(
    ("number", "sources", "words"),
    [
        (3, [exercises()[name].module.SOLUTION for name in ("gain", "crossing")], ""),
        (
            3,
            ["def gain(step, attention, faster): return faster", "def crossing(width, mlp, causal): ..."],
            "all of the step",
        ),
        (3, [exercises()["gain"].module.SOLUTION, "def crossing(width, mlp, causal): ..."], "crossing: not attempted"),
        (3, [exercises()["gain"].module.SOLUTION], "hand in gain and crossing"),
        (4, [STEP], ""),
        (4, [STEP.replace("turn(k, n)", "k")], "before they were turned"),
    ],
)
@pytest.mark.usefixtures("own_progress")
def test_functions_are_exercises_like_others(number, sources, words) -> None:
    names = [re.search(r"def (\w+)", source)[1] for source in sources]  # type: ignore[index]
    found = deliver(number, tuple(map(defined, sources, names)), ANSWER)
    assert found.status == ("not yet" if words else "accepted"), found
    assert words in repr(found)
    assert not words or {"gain", "crossing"} & passed.names() <= {"gain"}


def test_a_model_has_to_know_more_than_pairs_of_letters(tmp_path, monkeypatch) -> None:
    text, path = gpt.load_text(), tmp_path / "capstone.pt"
    torch.manual_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 32, "block_size": 32}
    model = gpt.GPT(SDPA, vocab_size=len(text.letters), **sizes)
    gpt.fit(model, text.train, steps=3, batch=2, length=32, lr=3e-3, checkpoint=path)
    assert "counting pairs of letters gives 2." in repr(deliver(5, path, ANSWER))
    monkeypatch.setattr(deliverable_checks, "bigram_loss", lambda *_: 9.0)
    found = deliver(5, path, ANSWER)
    assert found.status == "accepted", found
    assert "it says: ACT I. SCENE I." in repr(found)
    monkeypatch.setattr(gpt, "evaluate", lambda *_, **__: math.nan)
    assert "smaller --lr" in repr(deliver(5, path, ANSWER))
    path.write_bytes(path.read_bytes()[:-10])
    assert "CheckpointError" in repr(deliver(5, path, ANSWER))
    assert "run `python -m course_lib.gpt` first" in repr(deliver(5, tmp_path / "none.pt", ANSWER))

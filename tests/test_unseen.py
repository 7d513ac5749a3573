"""The cases that grading draws: no right answer fails them, and no table of the known ones passes."""

import functools
import importlib
from pathlib import Path

import pytest
import torch

from course_lib import runtime
from course_lib.exercises import exercises
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.checker.material import examined, material
from course_lib.exercises.grader.unseen import unseen
from course_lib.exercises.page.definitions import definitions
from course_lib.exercises.processes import forked_process
from course_lib.exercises.sandbox.answering import run_case

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")
PAGE = "import math\nimport torch\nfrom course_lib.kernels import tl, triton"
ANSWERS = Path(__file__).parent / "answers"


def right_answers(name):
    """The solution first, and then those in other styles."""
    yield definitions([PAGE, exercises()[name].solution.source], [name]).space[name]
    if (ANSWERS / f"{name}.py").exists():
        given = vars(importlib.import_module(f"answers.{name}"))
        yield from (function for key, function in given.items() if key.startswith("right_"))


def rounding(q, k, v, scale: float, window: int) -> float:
    """The most that rounding to float32 can change O of a sliding window, to first order, in whatever order sums are taken."""
    u = 2.0**-24
    products = q.double()[:, None] * k.double() * scale
    ahead = torch.arange(len(q))[:, None] - torch.arange(len(q))
    seen = (ahead >= 0) & (ahead < window)
    p = products.sum(2).masked_fill(~seen, -torch.inf).softmax(1)
    # a score: its products and their sum, log2 e, the scale in two factors, the maximum taken off, the exponential itself
    score = (products.count_nonzero(2) + 8) * u * products.abs().sum(2) + 4 * u
    if (k == k[0]).all():
        score[:] = 4 * u  # scores that are rounded alike leave the weights alone
    v = v.double()
    by_weights = ((p * score)[..., None] * (v - (p @ v)[:, None]).abs()).sum(1)
    by_sums = 2 * (seen.sum(1)[:, None] + 8) * u * (p @ v.abs())
    return float((by_weights + by_sums).max())


def test_rounding_alone_is_within_the_tolerance_of_the_sliding_window() -> None:
    exercise = exercises()["window_kernel"]
    for given in (material(exercise), *(unseen(exercise, str(seed)) for seed in range(30))):
        for case, (right, _) in zip(given.cases, given.expected):
            assert rounding(*case.args) < exercise.tolerance * float(right.abs().max()), case.property


def test_no_case_is_drawn_whose_result_is_left_to_rounding(monkeypatch) -> None:
    exercise, oracle = exercises()["row_dot"], importlib.import_module("course_lib.exercises.oracles.row_dot")
    one_key = next(case for case in exercise.cases() if len(case.args[2]) == 1)  # its dP − D may come next to 0
    monkeypatch.setattr(oracle, "cases", lambda: [one_key] * 400)
    monkeypatch.setattr(importlib.import_module(unseen.__module__), "MOST", 400)
    drawn, function = unseen(exercise, "1"), next(right_answers("row_dot"))
    assert 30 < len(drawn.cases) < 400
    for case, right in zip(drawn.cases, drawn.expected):
        assert not differs(function(*case.args), right, exercise.tolerance)


@pytest.mark.parametrize("seeds", ["1", pytest.param("234", marks=pytest.mark.weekly)])
@pytest.mark.parametrize("name", exercises())
def test_right_answers_are_right_in_every_drawing_and_each_grading_has_its_own(name, seeds) -> None:
    exercise, known = exercises()[name], material(exercises()[name])
    for seed in seeds:
        functions, drawn = right_answers(name), unseen(exercise, seed)
        assert repr(drawn.cases) == repr(unseen(exercise, seed).cases)  # the same for all students of a grading
        assert repr(drawn.cases) != repr(unseen(exercise, f"{seed}0").cases)  # and its own for each grading
        assert len(drawn.cases) >= 3
        assert any(repr(case.args) not in map(repr, (c.args for c in known.cases)) for case in drawn.cases)
        for function in functions:
            calls = [functools.partial(run_case, exercise, function, case.fresh()) for case in drawn.cases]
            found = examined(exercise, drawn.cases, forked_process.outcomes(function, calls, 60.0))
            assert not isinstance(found[-1].result, forked_process.Failure), found[-1]
            for case, right, outcome in zip(drawn.cases, drawn.expected, found):
                words = differs(outcome.result, right, exercise.tolerance) or exercise.remark(case, outcome.result)
                assert not words, (case, words)

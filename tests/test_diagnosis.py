"""Names of bugs: those of known-wrong answers, also where the code around them differs, and families of results."""

import math

import pytest
import torch

from course_lib import runtime
from course_lib.exercises import exercises
from course_lib.exercises.checker.diagnosis import diagnose
from course_lib.exercises.checker.families import family
from course_lib.exercises.checker.material import Material
from course_lib.exercises.processes.forked_process import Failure, Outcome

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")
IT = "the result is"
RIGHT = [
    torch.tensor([[1.5, -2.25, 3.0, 0.0], [4.0, 5.5, 6.0, 7.0]]),
    torch.arange(20.0).reshape(5, 4),
    torch.tensor([[2.5]]),
]


def outcomes(results: list) -> list[Outcome]:
    return [Outcome(x) for x in results]


def named(found: list, expected: list, exercise: str = "hadamard_rotation") -> str:
    return family(exercises()[exercise], expected, outcomes(found))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: 0.5 * x, "if the result is always 0.5 times the right one"),
        (lambda x: -x, "if the result has the wrong sign"),
        (lambda x: x / len(x), f"if a factor is missing or too much: {IT} 0.5 times the right one in one case, 0.2 times in another"),
        (lambda x: x.mT, "if the result is transposed"),
        (lambda x: x.flip(1), "if the result has the right numbers in other places: none is new, and none is missing"),
        (lambda x: torch.cat([x[:1], 0 * x[1:]]), "if the last part of the result is left out: it is 0"),
        (lambda x: torch.cat([x[:1], math.nan * x[1:]]), ""),
        (lambda x: (x + 0.1 * x.sin()).half(), ""),
        (lambda x: x + 1, ""),
        (lambda x: x + (x == 5.5), ""),
    ],
)  # fmt: skip
def test_a_family_says_what_all_wrong_results_have_in_common(wrong, words) -> None:
    assert named([wrong(x) for x in RIGHT], RIGHT) == words


def test_a_part_of_a_result_and_its_type_are_named() -> None:
    right = [(x.sum(1) / 3, x) for x in RIGHT]
    assert (
        named([(D.half(), dS) for D, dS in right], right, "row_dot")
        == "if D comes back in 16 bits: it is asked for in more"
    )
    assert named([(D, 2 * dS) for D, dS in right], right, "row_dot") == "if dS is always 2 times the right one"
    assert named([(2 * D, 2 * dS) for D, dS in right], right, "row_dot") == ""


def test_parts_that_are_wrong_alike_are_named_together() -> None:
    right = [(x.sum(1) / 3, x) for x in RIGHT[:2] * 2]
    assert named([(-D, -dS) for D, dS in right], right, "row_dot") == "if D and dS have the wrong sign"
    assert named([(-D, 2 * dS) for D, dS in right], right, "row_dot") == ""


def test_the_parts_of_ranks_are_looked_at_as_one_and_a_missing_root_of_d_is_named() -> None:
    torch.manual_seed(0)
    right = [{f"rank {r}": tuple(torch.randn(1, 2, d) for _ in range(3)) for r in range(2)} for d in (4, 9, 16)]
    found = [{rank: (dq * dq.shape[-1] ** 0.5, dk, dv) for rank, (dq, dk, dv) in x.items()} for x in right]
    assert named(found, right, "ring_backward") == "if dq is not divided by √d"
    found = [{rank: tuple(y.bfloat16().float() for y in parts) for rank, parts in x.items()} for x in right]
    words = "if dq, dk and dv are computed in bf16, or rounded to it on the way: more bits are asked for"
    assert named(found, right, "ring_backward") == words
    found[2]["rank 1"] = right[2]["rank 1"]
    assert named(found, right, "ring_backward") == ""


def test_a_quotient_that_is_not_rounded_is_named() -> None:
    assert (
        named([1.5, 2.25, 3.75, 0.5, 4.0], [2, 3, 4, 1, 4])
        == "if the result is not rounded up: a whole number is asked for"
    )
    assert (
        named([1.5, 2.25, 3.75, 0.5], [1, 2, 3, 0]) == "if the result is not rounded down: a whole number is asked for"
    )
    assert named([1.5, 2.25, 3.75, 0.5], [2, 2, 4, 0]) == ""


def test_words_and_whole_numbers_have_families_too() -> None:
    right = ["skip", "full", "masked", "full", "skip"]
    swapped = [{"skip": "full", "full": "skip"}.get(x, x) for x in right]
    assert named(swapped, right) == "if 'full' and 'skip' change places"
    assert (
        named([x.replace("full", "masked") for x in right], right)
        == "if 'full' never comes back, but 'masked' in its place"
    )
    assert named(["skip", "masked", "masked", "full", "skip"], right) == ""
    assert named([3, 4, 5, 9, 1], [3, 5, 6, 10, 2]) == "if the result, where it is wrong, is one too small"
    assert named([3, 4, 5, 9, 1], [3, 5, 6, 10, 1]) == ""
    assert named([3, 4, 5, 9, 1], [3, 5, 6, 11, 2]) == ""


def test_who_ends_early_has_no_family() -> None:
    found = [*outcomes([2 * x for x in RIGHT]), Outcome(Failure("exception", "IndexError: out of range"))]
    assert family(exercises()["hadamard_rotation"], [*RIGHT, RIGHT[0]], found) == ""


NAN = torch.tensor([[math.nan]])


@pytest.mark.parametrize(
    ("theirs", "mine", "same"),
    [
        ([3.5, 4.5, NAN], [3.5, 4.5, Failure("exception", "ZeroDivisionError: division by zero")], True),
        ([3.5, 4.5, NAN], [3.5, 4.5, torch.tensor([[9.0]])], True),
        ([3.5, 4.5, NAN], [3.5, 4.5, torch.tensor([[2.5]])], True),
        ([3.5, 4.5, NAN], [3.5, 4.25, NAN], False),
        ([3.5, 0.0, NAN], [3.5, 0.0, math.inf * NAN], True),
        ([3.5, NAN[0, 0], NAN], [3.5, 9.0, NAN + 1], False),
    ],
)
def test_a_bug_is_known_wherever_one_of_two_results_has_no_numbers(theirs, mine, same) -> None:
    """Two cases with the same wrong numbers are enough, and nothing else may contradict."""
    right = [torch.ones(1, 1), torch.ones(1, 1), RIGHT[2]]
    shaped = [[x if isinstance(x, torch.Tensor | Failure) else torch.tensor([[x]]) for x in y] for y in (theirs, mine)]
    known = Material((), tuple(right), lambda: {"a bug": outcomes(shaped[0])})
    assert diagnose(exercises()["hadamard_rotation"], known, outcomes(shaped[1])) == ("a bug" if same else "")


def test_the_same_numbers_with_other_counts_are_another_bug() -> None:
    right = [(x, 64) for x in RIGHT * 2]
    theirs = [(x, 128) for x in RIGHT * 2]
    mine = [(x, 256 if i > 3 else 128) for i, (x, _) in enumerate(theirs)]
    known = Material((), tuple(right), lambda: {"a bug": outcomes(theirs)})
    assert diagnose(exercises()["row_dot"], known, outcomes(theirs)) == "a bug"
    assert diagnose(exercises()["row_dot"], known, outcomes(mine)) == ""


def test_a_bug_is_known_where_a_guard_spares_a_case() -> None:
    """As ``max(1, …)`` does around a quotient that is rounded down."""
    right = [1, 2, 3, 4, 5]
    known = Material((), tuple(right), lambda: {"down": outcomes([0, 1, 2, 3, 4]), "zero": outcomes([0, 0, 0, 0, 0])})
    assert diagnose(exercises()["hadamard_rotation"], known, outcomes([1, 1, 2, 3, 4])) == "down"
    assert "down" not in diagnose(exercises()["hadamard_rotation"], known, outcomes([1, 2, 2, 3, 4]))
    assert diagnose(exercises()["hadamard_rotation"], known, outcomes([2, 1, 2, 3, 4])) == ""


def test_a_bug_that_leaves_no_numbers_is_known_by_the_places() -> None:
    right, inf = [torch.tensor([[1.5, 2.5]])] * 4, math.inf
    theirs = [*right[:2], torch.tensor([[math.nan, 2.5]]), torch.tensor([[0.0, 2.5]])]
    known = Material((), tuple(right), lambda: {"it overflows": outcomes(theirs)})
    for there, words in ((inf, "it overflows"), (0.0, "it overflows"), (7.0, "")):
        mine = [*right[:2], torch.tensor([[there, 2.5]]), torch.tensor([[inf, 2.5]])]
        assert diagnose(exercises()["hadamard_rotation"], known, outcomes(mine)) == words
    elsewhere = [*right[:2], torch.tensor([[1.5, inf]]), torch.tensor([[inf, 2.5]])]
    assert diagnose(exercises()["hadamard_rotation"], known, outcomes(elsewhere)) == ""


def test_one_case_tells_a_bug_that_is_wrong_in_the_same_cases() -> None:
    right = [torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2)]
    theirs = [torch.ones(1, 2), torch.tensor([[3.5, 4.5]]), torch.tensor([[math.nan, math.nan]])]
    known = Material((), tuple(right), lambda: {"a bug": outcomes(theirs)})
    mine = [*theirs[:2], torch.tensor([[0.5, math.inf]])]
    assert diagnose(exercises()["hadamard_rotation"], known, outcomes(mine)) == "a bug"
    mine[0] = torch.zeros(1, 2)
    assert diagnose(exercises()["hadamard_rotation"], known, outcomes(mine)) == ""

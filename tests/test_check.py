"""The check: what fails is said in numbers, in time and in words; hints, solutions and progress."""

import ast
import inspect
import math
import time

import numpy as np
import pytest
import torch
from written import RIGHT, defined, online

from course_lib import runtime
from course_lib.exercises import check, exercises, hint, progress, solution
from course_lib.exercises.base import Case
from course_lib.exercises.checker import material, progress_file
from course_lib.exercises.checker.checking import shown
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.processes.forked_process import Failure

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.usefixtures("own_progress"),
]
ALL = list(exercises().values())


def test_an_exception_is_shown_short_at_the_students_line() -> None:
    report = check(online("y = 1\n    return x[10**6], y"))
    assert report.status == "failed"
    assert "IndexError" in report.details[-2]
    assert report.details[-1] == "line 3: return x[10**6], y"
    assert len(repr(report).splitlines()) < 12


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os; os.abort()", "signal 6"),
        ("import os; os._exit(3)", "exit code 3"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("return (lambda: 1), 2", "m: a function came back; return a number"),
        ("m = max(m, 0.0)", "None came back: is a return missing?"),
        ("return 1, 2, 3", "a tuple of 3 came back; return a tuple of 2: m, l"),
    ],
)
def test_whatever_happens_ends_in_words(body, words) -> None:
    report = check(online(body))
    assert report.status == "failed"
    assert any(words in line for line in report.details), report


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def crossover(old, new):\n    if new < old: return 3", "None came back, right is 42"),
        ("def crossover(old, new):\n    return None", "None came back, right is 42"),
        ("def crossover(old, new):\n    old = new", "None came back, right is 42: is a return missing?"),
        ("def online_update(m, l, x):\n    return None", "None came back"),
    ],
)
def test_a_return_is_missed_only_where_none_is_not_an_answer(source, words) -> None:
    report = check(defined(source, source[4:].split("(")[0]))
    assert report.details[-1] == words


def test_an_endless_loop_ends_in_time() -> None:
    begin = time.perf_counter()
    report = check(online("import time\n    while True: time.sleep(9)"))  # one that computes: test_check_kernels.py
    assert (
        "did not end within 5 seconds: does every loop come to an end, and in few enough steps?" in report.details[-1]
    )
    assert time.perf_counter() - begin < 12


def test_who_calls_backward_is_told_that_autograd_is_off() -> None:
    body = "x = x.clone().requires_grad_()\n    y = cap * torch.tanh(x / cap)\n    y.backward(dy)\n    return y.detach(), x.grad"
    report = check(defined(f"def softcap_with_gradient(x, cap, dy):\n    {body}", "softcap_with_gradient"))
    assert "RuntimeError: autograd is off: write the slope yourself" in report.details


def test_what_is_printed_is_shown_with_a_failure() -> None:
    report = check(online("print('here I am'); return m, l"))
    assert report.printed == "here I am"
    assert "it printed: here I am" in repr(report)
    assert check(online(f"print('x' * 1000 + 'end'); {RIGHT}")).printed.startswith("… x")


def test_a_second_mistake_does_not_hide_the_first() -> None:
    """The old l is kept, and with no score before it the result is wrong in another way as well."""
    report = check(
        online("return max(m, float(x.max())), (l or 1e-9) + float(torch.exp(x - max(m, float(x.max()))).sum())")
    )
    assert "the old ℓ is not rescaled" in report.diagnosis


def test_of_two_bugs_that_both_show_the_one_that_says_more_is_named() -> None:
    """Half the smallest number goes up, too, as if nothing became 0; floor(y + 0.5) is off at 52 bits besides."""
    source = "def nearest_number(x, mantissa, lowest):\n    step = math.ldexp(1.0, max(math.frexp(x)[1] - 1, lowest) - mantissa)\n"
    report = check(defined(f"{source}    return math.floor(x / step + 0.5) * step", "nearest_number"))
    assert "ties always go up" in report.diagnosis


NO_NAME = {  # each fails with other words or other numbers than the bug whose name it might be given
    "crossover": "def crossover(old, new):\n    return None if new[0] > 10**7 else 1",
    "nearest_number": "def nearest_number(x, mantissa, lowest):\n    return x if mantissa == 52 else x + 1.0",
    "causal_blocks": "def causal_blocks(q_start, k_start, block_m, block_n, n_q, n_k):\n    return 'masked'[n_q:]",
    "exp2_scale": "def exp2_scale(s, d, slope):\n    return torch.softmax(2 * s, 0), 0.0",
    "fused_row": "def fused_row(q, k, v):\n    return k[len(k)]",
    "hadamard_rotation": "def hadamard_rotation(x, sign):\n    return x @ torch.ones(3)",
    "online_update": "def online_update(m, l, x):\n    return max(m, float(x.max())), l + float(torch.exp(x - x.max()).sum()) + 1.0",
    "dv_kernel": "@triton.jit\ndef dv_kernel(q_ptr, k_ptr, L_ptr, do_ptr, dv_ptr, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):\n"
    "    tl.store(dv_ptr + 10**7 + tl.arange(0, BLOCK), 1.0)",
}


@pytest.mark.parametrize("name", NO_NAME)
def test_a_bug_that_nobody_knows_gets_no_name(name) -> None:
    report = check(defined(NO_NAME[name], name))
    assert report.status == "failed"
    assert report.diagnosis == ""


def test_another_exception_of_the_same_type_is_another_bug() -> None:
    one, other = (
        Failure("exception", "ZeroDivisionError: division by zero"),
        Failure("exception", "ZeroDivisionError: 0.0 to a power"),
    )
    past = [Failure("exception", f"OutOfRangeError: the kernel reads element {n} of K, which has 8") for n in (8, 9)]
    assert material.gist(one) != material.gist(other)
    assert material.gist(past[0]) == material.gist(past[1])


@pytest.mark.parametrize(
    ("value", "again"),
    [
        (1023.9999999999999, 1023.9999999999999),
        (0.1 + 0.2, 0.30000000000000004),
        (torch.tensor([0.1, 1 / 3, 16777217.0]), torch.tensor([0.1, 1 / 3, 16777217.0])),
        (torch.tensor([65504.0, 6e-8], dtype=torch.float16), torch.tensor([65504.0, 6e-8], dtype=torch.float16)),
        (torch.tensor([1 / 3], dtype=torch.float64), torch.tensor([1 / 3], dtype=torch.float64)),
    ],
)
def test_an_argument_that_is_shown_can_be_typed_in(value, again) -> None:
    exercise = exercises()["buffers_needed"]
    names = list(inspect.signature(defined(exercise.stub, exercise.name)).parameters)
    said = shown(exercise, Case("", (value,) * len(names)))[0].removeprefix(f"{names[0]} = ")
    typed = ast.literal_eval(said)
    assert (
        torch.equal(torch.tensor(typed, dtype=again.dtype), again)
        if isinstance(again, torch.Tensor)
        else typed == again
    )


def test_a_kernel_that_is_to_be_mended_runs_as_it_was_given() -> None:
    report = check(defined(exercises()["debug_it"].stub, "debug_it"))
    assert report.status == "not attempted"
    first, *rest = repr(report).splitlines()
    assert "Mend the kernel and run the cell again" in first
    assert "  ✗ four heads share two of K and V" in rest
    assert "came back, right is" in rest[-1]
    assert not report.diagnosis


def test_other_arguments_are_refused_before_anything_runs() -> None:
    report = check(defined("def online_update(m, x): return 1", "online_update"))
    assert report.failed == "the signature"
    assert "keep (m, l, x)" in report.details[0]


@pytest.mark.parametrize(
    ("found", "right", "words"),
    [
        (True, 1, "True came back; return a whole number"),
        (64.0, 64, "64.0 came back; return a whole number, with // or int()"),
        (1, True, "1 came back; return True or False"),
        (np.int64(3), 3, ""),
        (np.float64(0.5), 0.5, ""),
        (None, (1.0, 2.0), "is a return missing?"),
        ((None, 2.0), (1.0, 2.0), "item 1 of 2: None came back, right is 1.0"),
        (
            torch.ones(2),
            torch.ones(2, dtype=torch.int8),
            "the numbers are right, but their type is torch.float32; return torch.int8",
        ),
        (torch.full((2,), 1.5), torch.ones(2, dtype=torch.int8), "[1.5, 1.5] came back, right is [1, 1] (int8)"),
        (None, 42, "None came back, right is 42: is a return missing?"),
        (1.00002, 1.0, "(off by 2e-05; 1e-05 is allowed)"),
        (1, 1.0, ""),
        (math.nan, 1.0, "nan came back"),
        (math.inf, math.inf, ""),
        (torch.ones(2, 3), torch.ones(3, 2), "shape [2, 3] came back, right is [3, 2]"),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0]), "1 of 2 numbers are off; at [1] nan came back"),
        ([1.0], torch.ones(1), "a list came back; return a tensor"),
        ([1, 2], (1, 2, 3), "a list of 2 came back, right is one of 3"),
        ({"K": 1}, {"K": 2}, "K: 1 came back"),
        (torch.full((2,), 1e-9), torch.zeros(2), "2 of 2 numbers are off"),
    ],
)
def test_differences_in_words(found, right, words) -> None:
    said = differs(found, right, 1e-5)
    assert words in said if words else not said


# --- hints, solutions, progress ---


def test_hints_and_solutions_fold() -> None:
    assert hint("online_update").data.count("<details>") == 3
    assert "Hint 2" in hint("online_update", 2).data
    assert "```python" in solution("online_update").data
    with pytest.raises(ValueError, match="number is 4; pass 1, 2 or 3"):
        hint("online_update", 4)
    with pytest.raises(ValueError, match="exercise is 'nothing'"):
        solution("nothing")
    with pytest.raises(ValueError, match="exercise is 'defined'"):
        check(defined)
    with pytest.raises(ValueError, match="did you mean 'phase_of'"):
        hint("phase_off")
    with pytest.raises(ValueError, match="pass the function itself, without calling it"):
        check((1, 2))
    with pytest.raises(ValueError, match=r"pass the function itself: check\(phase_of\)"):
        check("phase_of")


def test_progress_keeps_what_was_passed(tmp_path, monkeypatch) -> None:
    check(online("..."))
    assert progress_file.load() == {}
    check(online("return m, l"))
    assert progress_file.load() == {"online_update": "failed"}
    check(online(RIGHT))
    check(online("return m, l"))
    assert progress_file.load() == {"online_update": "passed"}
    assert "def online_update(" in progress_file.code("online_update")
    assert f"1 of {len(ALL)} passed" in repr(progress())
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "no folder" / "p.json"))
    assert check(online(RIGHT)).status == "passed"

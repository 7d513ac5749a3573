"""The check: what fails is said in numbers, in time and in words; hints, solutions and progress."""

import ast
import inspect
import math
import os
import threading
import time

import numpy as np
import pytest
import torch
from written import RIGHT, defined, online

from course_lib import runtime
from course_lib.exercises import (
    check,
    compiling,
    exercises,
    hint,
    isolation,
    material,
    progress,
    progress_file,
    solution,
    talk,
)
from course_lib.exercises.base import Case
from course_lib.exercises.checking import shown
from course_lib.exercises.differences import differs
from course_lib.exercises.forked_process import Failure

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")
ALL = list(exercises().values())


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))


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
        ("return None", "None came back: is a return missing?"),
        ("return 1, 2, 3", "a tuple of 3 came back; return a tuple of 2: m, l"),
    ],
)
def test_whatever_happens_ends_in_words(body, words) -> None:
    report = check(online(body))
    assert report.status == "failed"
    assert any(words in line for line in report.details), report


def test_an_endless_loop_ends_in_time() -> None:
    begin = time.perf_counter()
    report = check(online("while True: pass"))
    assert "did not end within 5 seconds" in report.details[-1]
    assert time.perf_counter() - begin < 12


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


def test_other_arguments_are_refused_before_anything_runs() -> None:
    report = check(defined("def online_update(m, x): return 1", "online_update"))
    assert report.failed == "the signature"
    assert "keep (m, l, x)" in report.details[0]


KERNEL = """
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    {}
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tl.store(c_ptr + i, tl.load(a_ptr + 10**8 + i))", "the kernel reads element "),
        ("tl.store(c_ptr - 10**8 + i, tl.load(a_ptr + i))", "the kernel writes element -"),
        ("tl.store(c_ptr + 10**12 + i, tl.load(a_ptr + i))", "beside all tensors"),
        ("while M > 0:\n        i += 0", "did not end within 5 seconds"),
        ("tl.store(c_ptr + i, tl.load(a_ptr + i) + undefined)", "undefined"),
    ],
)
def test_a_wrong_kernel_leaves_the_notebook_alive(body, words) -> None:
    report = check(defined(KERNEL.format(body), "matmul_kernel"))
    assert report.status == "failed"
    assert any(words in line for line in report.details), report


TILED = exercises()["matmul_kernel"].solution.source
LAUNCH = exercises()["matmul_kernel"].compiles
POINTERS = """
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK)
    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (tl.program_id(0) * BLOCK, 0), (BLOCK, BLOCK), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (1, K), (0, tl.program_id(1) * BLOCK), (BLOCK, BLOCK), (0, 1))
    c = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK), (BLOCK, BLOCK), (1, 0))
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        x = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, tl.load(b, boundary_check=(0, 1), padding_option="zero"), acc, input_precision="ieee")
        a, b = tl.advance(a, (0, BLOCK)), tl.advance(b, (BLOCK, 0))
    tl.store(c, acc, boundary_check=(0, 1))
"""


def changed(old: str, new: str):
    assert old in TILED
    return defined(TILED.replace(old, new), "matmul_kernel")


def test_what_only_the_interpreter_takes_is_refused_in_the_compilers_words() -> None:
    zeros = next(line.strip() for line in TILED.splitlines() if "tl.zeros" in line)
    source = TILED.replace(zeros, "acc = 0").replace("tl.dot(a, b, acc, ", "acc + tl.dot(a, b, ")
    report = check(defined(source, "matmul_kernel"))
    assert report.failed == "right in Triton's interpreter, but not for a GPU"
    assert "Loop-carried variable" in report.details[0]
    assert check(defined(POINTERS, "matmul_kernel")).status == "passed"


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("matmul_kernel", ', input_precision="ieee"', "", "multiplies in TF32"),
        ("matmul_kernel", 'input_precision="ieee"', 'input_precision="tf32"', "multiplies in TF32"),
        ("matmul_kernel", 'input_precision="ieee"', "allow_tf32=False", ""),
        ("matmul_kernel", 'input_precision="ieee"', 'input_precision="tf32x3"', ""),
        ("window_kernel", 'tl.dot(p, v, input_precision="ieee")', "tl.dot(p, v)", "multiplies in TF32"),
        ("dv_kernel", ', input_precision="ieee"', "", "multiplies in TF32"),
    ],
)
def test_full_precision_is_full_precision_on_a_gpu(name, old, new, words) -> None:
    source = exercises()[name].solution.source
    assert old in source
    report = check(defined(source.replace(old, new), name))
    assert (report.status, words in repr(report)) == ("failed" if words else "passed", True), report
    assert not words or any("tl.dot(" in line for line in report.details[1:])


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("1 / 0", ""),
        ("while True: pass", ""),
        ("from course_lib.kernels import tl, triton, matmul\nSIZE = tl.constexpr(0)", ""),
        ("SIZE = 1 / 0", "SIZE is not defined"),
        ("@missing\n@triton.jit\ndef matmul_kernel(): ...", ""),
    ],
)
def test_the_compiler_is_asked_whatever_else_is_on_the_page(cell, words) -> None:
    kernel = TILED.replace("acc = tl.zeros(", "acc = SIZE + tl.zeros(") if "SIZE" in cell else TILED
    said = compiling.refusal([cell, kernel], "matmul_kernel", [LAUNCH])
    assert words in said, said
    assert bool(words) == bool(said), said
    if "SIZE" not in cell:
        said = compiling.refusal([cell, kernel.replace("K, BLOCK)", "K, BLCK)")], "matmul_kernel", [LAUNCH])
        assert "BLCK is not defined" in said, said


def test_a_kernel_that_is_not_defined_is_not_compiled() -> None:
    broken = TILED.replace("@triton.jit", "@missing\n@triton.jit")
    said = compiling.refusal(["1 / 0", broken], "matmul_kernel", [LAUNCH])
    assert said == "could not be compiled: NameError: name 'missing' is not defined"


def test_a_compiler_that_does_not_end_is_no_pass_and_is_asked_again(monkeypatch) -> None:
    monkeypatch.setattr(compiling, "SECONDS", 0.01)
    kernel = TILED.replace("acc = tl.zeros", "acc = 1 * tl.zeros")
    report = check(defined(kernel, "matmul_kernel"))
    assert report.status == "failed"
    assert "could not be compiled: the compiler did not end" in report.details[0]
    monkeypatch.undo()
    assert check(defined(kernel, "matmul_kernel")).status == "passed"


def test_a_compiler_that_breaks_off_has_allowed_nothing(monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_run", lambda *_: (70, '{"refused": ""}', "it fell"))
    kernel = TILED.replace("acc = tl.zeros", "acc = 2 * tl.zeros")
    assert compiling.refusal([kernel], "matmul_kernel", [LAUNCH]) == "could not be compiled: it fell"


@pytest.mark.parametrize(("code", "said"), [(0, "answer"), (70, "exit code 70"), (-9, "signal 9"), (None, talk.LOST)])
def test_a_sandboxs_answer_counts_if_its_process_ended_well(code, said, monkeypatch) -> None:
    monkeypatch.setattr(isolation, "GRACE", 0.1)
    (answer, to), (told, tell) = os.pipe(), os.pipe()
    os.write(to, b"answer")
    os.close(to)
    if code is not None:
        os.write(tell, b"%d" % code)
    try:
        found = talk.Talk(answer, told, threading.Event()).rest(5.0).decode()
    except talk.WorkError as error:
        found = str(error)
    assert said in found
    for descriptor in (answer, told, tell):
        os.close(descriptor)


def test_a_case_may_bring_its_own_block_sizes() -> None:
    seen = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *args, **constants: seen.append((grid, constants))

    for name, options, grid in (
        ("matmul_kernel", {"BLOCK": 32}, (2, 1)),
        ("dv_kernel", {"BLOCK": 64}, (1,)),
        ("window_kernel", {"BLOCK_M": 32}, (2,)),
    ):
        exercise = exercises()[name]
        rows = torch.ones(40, 16)
        args = {"matmul_kernel": (torch.ones(40, 8), torch.ones(20, 8)), "window_kernel": (rows, rows, rows, 0.25, 7)}
        case = Case("", args.get(name, (rows,) * 4), options)
        exercise.run(Kernel(), case)
        assert seen[-1][0] == grid
        assert options.items() <= seen[-1][1].items()
        assert options.items() <= exercise.constants(case).items()
        assert any(f"{key} = {value}" in line for key, value in options.items() for line in shown(exercise, case))


def test_masked_numbers_are_undefined_without_other() -> None:
    report = check(changed(", other=0.0", ""))
    assert report.status == "failed"
    assert any("has no other=" in line for line in report.details)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (") & (", ") and (", "tl.maximum, a & b and tl.where"),
        ("tl.zeros", "torch.zeros", "torch, math and NumPy do not work on its blocks"),
        ("@triton.jit\n", "", "keep the line @triton.jit above def"),
        ("tl.store(", "tl.load(", "NaN also stands where the kernel has stored nothing"),
    ],
)
def test_what_is_no_triton_is_said_so(old, new, words) -> None:
    source = "\n".join(x for x in TILED.splitlines() if new != "tl.load(" or "tl.store" not in x)
    report = check(defined(source.replace(old, new), "matmul_kernel"))
    assert any(words in line for line in report.details), report
    assert "A = a tensor of shape" in report.details[0] or "triton.jit" in words


def test_after_a_check_the_interpreter_is_as_before() -> None:
    from triton.runtime import interpreter

    before = type(interpreter.interpreter_builder).create_masked_load
    check(defined(KERNEL.format("tl.store(c_ptr + i, tl.load(a_ptr + 10**8 + i))"), "matmul_kernel"))
    assert type(interpreter.interpreter_builder).create_masked_load is before


@pytest.mark.parametrize(
    ("found", "right", "words"),
    [
        (True, 1, "True came back; return a whole number"),
        (64.0, 64, "64.0 came back; return a whole number, with // or int()"),
        (1, True, "1 came back; return True or False"),
        (np.int64(3), 3, ""),
        (np.float64(0.5), 0.5, ""),
        (None, (1.0, 2.0), "is a return missing?"),
        (1.00002, 1.0, "(off by 2e-05; 1e-05 is allowed)"),
        (1, 1.0, ""),
        (math.nan, 1.0, "nan came back"),
        (math.inf, math.inf, ""),
        (torch.ones(2, 3), torch.ones(3, 2), "shape [2, 3] came back, right is [3, 2]"),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0]), "1 of 2 numbers are off; at [1] nan came back"),
        ([1.0], torch.ones(1), "a list came back; return a tensor"),
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

"""The check of a kernel: memory accesses are watched, and the compiler is asked as for a GPU."""

import os
import threading
from importlib.metadata import version

import pytest
import torch
from packaging.version import Version
from written import defined

from course_lib import runtime
from course_lib.exercises import check, exercises
from course_lib.exercises.base import Case
from course_lib.exercises.checker import compiling
from course_lib.exercises.checker.checking import shown
from course_lib.exercises.processes import isolation
from course_lib.exercises.sandbox import talk

pytestmark = [
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter"),
    pytest.mark.usefixtures("own_progress"),
]


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


@pytest.mark.skipif(Version(version("triton")) >= Version("3.9"), reason="Triton has no block pointers from 3.9 on")
def test_block_pointers_are_an_answer_too() -> None:
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

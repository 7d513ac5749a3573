"""What runs a student's code in the sandbox: a page and arguments go in, what the functions return comes out. It judges nothing.

What it says before the page's own code runs can be believed; all that it says afterwards may have been made up by that code.
"""

import contextlib
import functools
import inspect
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch

from course_lib.exercises import values
from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.catalogue import graded
from course_lib.exercises.harness import guarded_memory
from course_lib.exercises.page.definitions import Statements, needed, script
from course_lib.exercises.page.functions import signature_of, source_of, untouched
from course_lib.exercises.processes import apart, forked_process, isolation

KERNEL = "kernel.py"
COMPILER = Path(__file__).with_name("compile_kernel.py")


def answers(question: dict[str, Any]) -> Iterator[Any]:
    """question: 'exercise', 'page' (code cells), 'cases' (plain data of each). Yields

    'ready'; of a kernel's exercise the part of the page that is run, and of what is left out the first line; how the definition went,
    (kind, words …) with 'missing', 'not attempted', 'refused' or 'defined'; and of a function that is defined the outcome of each case.
    """
    exercise, page = graded()[question["exercise"]], question["page"]
    yield "ready"
    if exercise.apart:
        yield from _apart(exercise, page, question)
        return
    cases = [Case(*case) for case in values.decode(question["cases"])]
    left_out = ""
    if exercise.compiles:
        text, left_out = kernel_page(page, exercise.name)
        page = ["from course_lib.kernels import tl, triton", text]
        yield text, left_out
    told, function = _defined(exercise, needed(page, [exercise.name]), left_out)
    yield told
    if told[0] == "defined":
        with first_settings():
            yield from _outcomes(exercise, function, cases)


def _apart(exercise: Exercise, page: Sequence[str], question: dict[str, Any]) -> Iterator[Any]:
    """The same of a function whose calls are not to know each other, nor the cases."""
    statements, given = needed(page, [exercise.name]), [question.pop("cases")]
    isolation.prctl(isolation.DUMPABLE, 0)  # nobody else reads this process's memory

    def define() -> tuple[tuple[str, ...], Any]:
        told, function = _defined(exercise, statements)
        return told, guarded_memory.Near(function)

    with apart.Page(define, first_settings, forget=given.clear) as page_apart:

        def called(*args: Any) -> Any:
            return page_apart(*guarded_memory.far(*args))

        told = called()
        yield told
        if told[0] == "defined":
            yield from _outcomes(exercise, called, [Case(*case) for case in values.decode(given[0])])


def _defined(exercise: Exercise, statements: Statements, left_out: str = "") -> tuple[tuple[str, ...], Any]:
    """How the definition of an exercise's function went, (kind, words …), and the function."""
    space, errors = statements.executed()
    function = space.get(exercise.name)
    if exercise.name in errors or not callable(function):
        return ("missing", errors.get(exercise.name) or left_out or "no cell defines it"), None
    if untouched(function, exercise.stub):
        return ("not attempted",), None
    with first_settings():
        if refused := wrong_shape(exercise, function):
            return ("refused", *refused), None
    return ("defined", source_of(function)[:20_000]), function


def _outcomes(exercise: Exercise, function: Callable[..., Any], cases: Sequence[Case]) -> Iterator[Any]:
    calls = [functools.partial(run_case, exercise, function, case) for case in cases]
    yield from (outcome.as_data() for outcome in forked_process.in_process(function, calls))


def run_case(exercise: Exercise, function: Callable[..., Any], case: Case) -> Any:
    """The exercise's way to run a case, in which the library's own answers are not to be had."""
    with refused(exercise.answers):
        return exercise.run(function, case)


@contextlib.contextmanager
def refused(names: Sequence[str]) -> Iterator[None]:
    """Meanwhile a call of one of these functions of the library, "course_lib.module.name", raises RuntimeError."""
    answers = {pkgutil.resolve_name(name).__code__: name for name in names}

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in answers:
            raise RuntimeError(f"{answers[frame.f_code]} was called; write it yourself")

    before = sys.getprofile()
    if answers:
        sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def kernel_page(page: Sequence[str], name: str, own: str = "") -> tuple[str, str]:
    """Of a page with a kernel the text that is compiled, without Triton's names, and the first line that is left out."""
    from course_lib.exercises.page.plain_kernels import plain  # chooses the mode

    try:
        text, left_out = plain(script(page, [name], own))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "", f"{type(error).__name__}: {error}"
    return text, left_out and f"left out: {left_out}"


def compiled(question: dict[str, Any], answer: int) -> NoReturn:
    """Become the compiler of question 'text', 'name' and 'launches', which writes to the file descriptor ``answer``."""
    Path(KERNEL).write_text(question["text"], encoding="utf-8")
    os.dup2(answer, 1)
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, str(COMPILER), KERNEL]
    os.execve(sys.executable, [*command, question["name"], json.dumps(question["launches"])], environment)


@contextlib.contextmanager
def first_settings() -> Iterator[None]:
    """PyTorch as it is before a page sets anything."""
    kind, device = torch.get_default_dtype(), torch.get_default_device()
    elsewhere = torch.device("cpu") if device.type != "cpu" else contextlib.nullcontext()
    torch.set_default_dtype(torch.float32)
    try:
        with elsewhere, torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(kind)


def wrong_shape(exercise: Exercise, function: Callable[..., Any]) -> tuple[str, str] | None:
    """What is wrong with a function that cannot be called as the check calls it, and what to do."""
    if exercise.compiles and inspect.getattr_static(function, "fn", None) is None:
        return "the decorator", "keep the line @triton.jit above def"
    wanted, mine = exercise.signature, signature_of(function)
    if mine is not None and list(wanted.parameters) != list(mine.parameters):
        return (
            "the signature",
            f"its arguments are ({', '.join(mine.parameters)}); keep ({', '.join(wanted.parameters)})",
        )
    return None

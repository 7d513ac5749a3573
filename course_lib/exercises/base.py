"""What an exercise is: a question, a stub, cases, an oracle, hints, and wrong answers with the name of their bug."""

import ast
import copy
import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from course_lib import checks


class Case(NamedTuple):
    """One call of the student's function: the property that it tests, in words, and the arguments.

    options: what ``run`` decides otherwise than usual; of a kernel constants that it is launched with, {"BLOCK": 32}.
    """

    property: str
    args: tuple[Any, ...]
    options: Mapping[str, Any] = MappingProxyType({})

    def fresh(self) -> "Case":
        """The same with arguments of its own: a function may change them in place."""
        return self._replace(args=copy.deepcopy(self.args))


class Solution(NamedTuple):
    """The answer as code, and what is to be learned from it."""

    source: str
    explanation: str


def call(function: Callable[..., Any], case: Case) -> Any:
    """The plainest way to run a case."""
    return function(*case.args)


def as_it_is(case: Case, result: Any) -> Any:
    """The plainest way to look at a result."""
    return result


@dataclass(frozen=True)
class Exercise:
    """One exercise, as its module of ``tasks`` describes it. What it is checked by lies in ``oracles``.

    asked: Markdown. stub: the code cell up to the call of ``check``; it defines ``name`` with the body ``...``, or with one that is to be
    mended; todo: what to do with it. level: 1 a few minutes from the page, 2 a new step, 3 half an hour and an idea. core: whether later
    lectures build on it.
    run(function, case): calls the function; for kernels, launches it. examine(case, result): what is compared with the right
    result, where that is not the result itself; it gets plain data, where answers are judged, out of reach of students' code.
    tolerance: of numbers, relative to the largest expected one. parts: names of the parts where a result is a tuple, or
    a dictionary of tuples.
    remark(case, result): a reason to reject what is right but not what was asked (bytes moved, say), or ''. arguments: names of a
    case's arguments where they are not the function's.
    compiles: of a kernel, its arguments with Triton's word for their type ("*fp32", "i32", "fp32"), or the value of constants:
    what passes is compiled with them, and with those of the cases' options. A matmul of fp32 numbers in TF32 is refused there.
    answers: functions of the library, "course_lib.module.name", that would be the answer; who calls one is told to write it, and where
    students are graded they have no body. apart: whether in grading each call has a process of its own, which knows nothing of the
    others: of functions that are to learn from each other by messages alone, or that work on a memory that counts.
    """

    name: str
    lecture: str
    title: str
    level: int
    minutes: int
    asked: str
    stub: str
    hints: tuple[str, str, str]
    run: Callable[[Callable[..., Any], Case], Any] = call
    examine: Callable[[Case, Any], Any] = as_it_is
    tolerance: float = 1e-5
    parts: tuple[str, ...] = ()
    remark: Callable[[Case, Any], str] = field(default=lambda case, result: "")
    arguments: tuple[str, ...] = ()
    compiles: Mapping[str, str | int] = field(default_factory=dict)
    answers: tuple[str, ...] = ()
    apart: bool = False
    todo: str = "Replace the three dots"
    core: bool = False

    def constants(self, case: Case) -> dict[str, str | int]:
        """``compiles`` as it is in a case: with the constants that its options name."""
        return {key: case.options.get(key, value) for key, value in self.compiles.items()}

    @property
    def _oracle(self) -> Any:
        return importlib.import_module(f"course_lib.exercises.oracles.{self.name}")

    def cases(self) -> Iterable[Case]:
        """From the smallest to those that wrong answers do not survive; the first that fails is shown to the student."""
        return self._oracle.cases()

    def expected(self, *args: Any) -> Any:
        """The right result by other means than the solution (float64, brute force, a closed form)."""
        return self._oracle.expected(*args)

    @property
    def wrong(self) -> Mapping[str, Callable[..., Any]]:
        """The known bugs, diagnosis -> a function that has it. A diagnosis ends the sentence "this is what you get …"."""
        return self._oracle.WRONG

    @property
    def solution(self) -> Solution:
        """Raises ModuleNotFoundError in a student's copy, which has none."""
        module = importlib.import_module(f"course_lib.exercises.solutions.{self.name}")
        return Solution(module.SOURCE, module.EXPLANATION)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The stub's arguments."""
        found = next(x for x in ast.parse(self.stub).body if isinstance(x, ast.FunctionDef) and x.name == self.name)
        found.decorator_list, found.returns = [], None
        for argument in (*found.args.args, *found.args.kwonlyargs):
            argument.annotation = None
        space: dict[str, Any] = {}
        exec(compile(ast.Module([found], []), "<stub>", "exec"), space)
        return inspect.signature(space[self.name])

    @property
    def cell(self) -> str:
        """The code cell of a notebook."""
        return f"{self.stub.strip()}\n\n\ncheck({self.name})"

    @property
    def heading(self) -> str:
        """The Markdown cell above it."""
        stars = "★" * self.level + "☆" * (3 - self.level)
        core = ", core" if self.core else ""
        return f"### Exercise: {self.title}\n\n*{stars}, about {self.minutes} minutes{core}.* {self.asked.strip()}"


def check_name(name: str, known: Sequence[str]) -> str:
    """Return the name if it is one of the exercises; else raise ValueError, with the one that was perhaps meant."""
    near = difflib.get_close_matches(name, known, 1)
    if name not in known and near:
        raise ValueError(f"exercise is {name!r}; did you mean {near[0]!r}?")
    return checks.one_of("exercise", name, known)

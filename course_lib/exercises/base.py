"""What an exercise is: a question, a stub, cases, an oracle, hints, and wrong answers with the name of their bug."""

import copy
import difflib
import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

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


@dataclass(frozen=True)
class Exercise:
    """One exercise, as its module of ``tasks`` describes it. What it is checked by lies in ``oracles``.

    asked: Markdown. stub: the code cell up to the call of ``check``; it defines ``name`` with the body ``...``. level: 1 to 3.
    run(function, case): calls the function; for kernels, launches it. tolerance: of numbers, relative to the largest
    expected one. parts: names of the parts where a result is a tuple. remark(case, result): a reason to reject what is right
    but not what was asked (bytes moved, say), or ''. arguments: names of a case's arguments where they are not the function's.
    compiles: of a kernel, its arguments with Triton's word for their type ("*fp32", "i32", "fp32"), or the value of constants:
    what passes is compiled with them, and with those of the cases' options. A product of fp32 numbers in TF32 is refused there.
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
    tolerance: float = 1e-5
    parts: tuple[str, ...] = ()
    remark: Callable[[Case, Any], str] = field(default=lambda case, result: "")
    arguments: tuple[str, ...] = ()
    compiles: Mapping[str, str | int] = field(default_factory=dict)

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

    @property
    def cell(self) -> str:
        """The code cell of a notebook."""
        return f"{self.stub.strip()}\n\n\ncheck({self.name})"

    @property
    def heading(self) -> str:
        """The Markdown cell above it."""
        stars = "★" * self.level + "☆" * (3 - self.level)
        return f"### Exercise: {self.title}\n\n*{stars}, about {self.minutes} minutes.* {self.asked.strip()}"


def differs(found: Any, right: Any, tolerance: float, parts: tuple[str, ...] = ()) -> str:
    """In words how ``found`` differs from ``right``; '' if it does not.

    Whole numbers, booleans and text have to be equal; floating-point numbers within ``tolerance`` of the largest right one.
    Tuples and dictionaries are compared part by part.
    """
    if found is None and right is not None:
        return "None came back: is a return missing?"
    if isinstance(right, tuple):
        if not isinstance(found, tuple | list) or len(found) != len(right):
            what = f"a tuple of {len(found)}" if isinstance(found, tuple) else f"a {type(found).__name__}"
            return f"{what} came back; return a tuple of {len(right)}: {', '.join(parts) or 'see above'}"
        for i, (one, other) in enumerate(zip(found, right)):
            if words := differs(one, other, tolerance):
                return f"{parts[i] if i < len(parts) else f'part {i + 1}'}: {words}"
        return ""
    if isinstance(right, dict):
        if not isinstance(found, dict) or set(found) != set(right):
            return f"{found!r} came back; return a dictionary with {', '.join(map(repr, right))}"
        return next((f"{key}: {words}" for key in right if (words := differs(found[key], right[key], tolerance))), "")
    if isinstance(right, torch.Tensor):
        return _tensor_differs(found, right, tolerance)
    if getattr(found, "size", None) == 1 or (isinstance(found, torch.Tensor) and found.numel() == 1):
        found = found.item()  # numbers of NumPy and PyTorch
    if isinstance(right, float):
        if isinstance(found, bool) or not isinstance(found, int | float):
            return f"{found!r} came back; return a number"
        same = found == right or math.isclose(found, right, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
        if same or (math.isnan(found) and math.isnan(right)):
            return ""
        return _two(found, right) + _near(abs(found - right), tolerance * abs(right))
    if type(found) is type(right) and found == right:
        return ""
    if type(found) is not type(right) and found == right:
        wanted = "True or False" if isinstance(right, bool) else "a whole number, with // or int()"
        return f"{found!r} came back; return {wanted if isinstance(right, bool | int) else f'a {type(right).__name__}'}"
    return f"{found!r} came back, right is {right!r}"


def _near(distance: float, allowed: float) -> str:
    """A word on the tolerance to who is not far off."""
    return f" (off by {distance:.2g}; {allowed:.2g} is allowed)" if distance < 100 * allowed else ""


def _tensor_differs(found: Any, right: torch.Tensor, tolerance: float) -> str:
    if not isinstance(found, torch.Tensor):
        return f"a {type(found).__name__} came back; return a tensor of shape {list(right.shape)}"
    if found.shape != right.shape:
        return f"shape {list(found.shape)} came back, right is {list(right.shape)}"
    if not right.is_floating_point():
        if found.is_floating_point() or not torch.equal(found, right):
            return f"{_short(found)} came back, right is {_short(right)} ({str(right.dtype).removeprefix('torch.')})"
        return ""
    one, other = found.detach().cpu().double(), right.cpu().double()
    finite = other[other.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 1.0
    bad = ~torch.isclose(one, other, rtol=0, atol=tolerance * max(size, 1e-30), equal_nan=True)
    if not bad.any():
        return ""
    where = bad.nonzero()[0].tolist()
    at = f"at {where}" if where else "here"
    share = f"{int(bad.sum())} of {bad.numel()} numbers are off; " if bad.numel() > 1 else ""
    mine, true = float(one[tuple(where)]), float(other[tuple(where)])
    return f"{share}{at} {_two(mine, true)}{_near(abs(mine - true), tolerance * size)}"


def _short(x: torch.Tensor) -> str:
    return str(x.tolist()) if x.numel() <= 32 else f"{str(x.flatten()[:32].tolist())[:-1]}, …]"


def _two(found: float, right: float) -> str:
    """Both numbers, with as many digits as it takes to tell them apart."""
    digits = next((n for n in (6, 9, 17) if f"{found:.{n}g}" != f"{right:.{n}g}"), 6)
    return f"{found:.{digits}g} came back, right is {right:.{digits}g}"


def check_name(name: str, known: Sequence[str]) -> str:
    """Return the name if it is one of the exercises; else raise ValueError, with the one that was perhaps meant."""
    near = difflib.get_close_matches(name, known, 1)
    if name not in known and near:
        raise ValueError(f"exercise is {name!r}; did you mean {near[0]!r}?")
    return checks.one_of("exercise", name, known)

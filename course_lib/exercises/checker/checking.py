"""check(function): runs the cases, says what fails in numbers, and names the bug if it is a known one."""

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.exercises.base import Case, Exercise
from course_lib.exercises.catalogue import exercises
from course_lib.exercises.checker import compiling, progress_file
from course_lib.exercises.checker.diagnosis import diagnose
from course_lib.exercises.checker.differences import NO_RETURN, differs, text
from course_lib.exercises.checker.material import Material, attempts, material
from course_lib.exercises.page.definitions import definitions, script
from course_lib.exercises.page.functions import none_is_meant, page_of, source_of, to_be_mended, untouched
from course_lib.exercises.processes.forked_process import Failure, Outcome
from course_lib.exercises.sandbox.answering import first_settings, wrong_shape
from course_lib.exercises.values import printable
from course_lib.show.tables import beside_bar

LONGEST = 300  # characters of one argument in a message


class Report(NamedTuple):
    """What became of a check. status: 'not attempted', 'missing', 'passed' or 'failed'; passed: the properties that hold, in order.

    details: lines on what failed; of what is not attempted, what to do comes before them.
    """

    exercise: str
    status: str
    passed: tuple[str, ...] = ()
    failed: str = ""
    details: tuple[str, ...] = ()
    diagnosis: str = ""
    printed: str = ""

    @classmethod
    def of(cls, data: Any) -> "Report":
        """Of the plain data of one. Raises ValueError for what is none."""
        try:
            exercise, status, passed, failed, details, diagnosis, printed = data
            lines = [tuple(map(printable, part)) for part in (passed, details)]
            words = [printable(x) for x in (exercise, status, failed, diagnosis, printed)]
        except (TypeError, RuntimeError) as error:
            raise ValueError(f"not the data of a report: {error}") from None
        return cls(words[0], words[1], lines[0], words[2], lines[1], words[3], words[4])

    def __repr__(self) -> str:
        first, details = f"{self.exercise}: {self.status}", self.details
        if self.status == "not attempted":
            first += f". {''.join(details[:1])} and run the cell again; hint({self.exercise}) helps."
            details = details[1:]
        lines = [first, *(f"  ✓ {name}" for name in self.passed)]
        if self.failed:
            lines.append(f"  ✗ {self.failed}")
        lines += [f"      {line}" for line in details]
        if self.diagnosis:
            lines.append(f"  This is what you get {self.diagnosis}.")
        if self.printed:
            lines.append(f"  it printed: {self.printed}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return beside_bar(repr(self), {"passed": True, "failed": False}.get(self.status))


def check_exercise(
    exercise: Exercise, function: Callable[..., Any], keep: bool = True, page: Sequence[str] | None = None
) -> Report:
    """The report on one attempt; ``keep`` writes it to the progress file. ``page``: the code of the page that defines the function."""
    if untouched(function, exercise.stub):
        return _as_it_was_given(exercise, function)
    with first_settings():
        report = _shape(exercise, function) or _judge(exercise, function)
    if report.status == "passed" and exercise.compiles:
        page = page_of(function) if page is None else page
        words = compiling.refusal(page, exercise.name, launches(exercise), source_of(function))
        report = not_for_a_gpu(report, words)
    if keep:
        keep_result(report, page_of(function) if page is None else page, source_of(function))
    return report


def _as_it_was_given(exercise: Exercise, function: Callable[..., Any]) -> Report:
    """The report on a stub. One that is to be mended is run, so that its first failing case shows; what is wrong with it is not named."""
    report = Report(exercise.name, "not attempted", details=(exercise.todo,))
    if not to_be_mended(exercise.stub):
        return report
    with first_settings():
        found = _judge(exercise, function)
    return report._replace(passed=found.passed, failed=found.failed, details=(*report.details, *found.details))


def keep_result(report: Report, page: Sequence[str], own: str) -> None:
    """Write a report's status to the progress file, and the code if it has passed. ``own``: the function's source on ``page``."""
    code = ""
    if report.status == "passed":
        with contextlib.suppress(ValueError, RecursionError):  # a page that cannot be written down costs nobody a pass
            code = script(page, [report.exercise], own)
    progress_file.save(report.exercise, report.status, code)


def reports(sources: Sequence[str], names: Sequence[str], own: str = "") -> Iterator[Report]:
    """A report on each of the named exercises as a page's code cells answer them; 'missing' where none can be defined.

    own: the source of the function that is meant, where the page has several.
    """
    for name in names:
        space, errors = definitions(sources, [name], own)
        if name in errors or not callable(space.get(name)):
            yield Report(name, "missing", (), errors.get(name, "no cell defines it"))
        else:
            yield check_exercise(exercises()[name], space[name], keep=False, page=sources)


def _shape(exercise: Exercise, function: Callable[..., Any]) -> Report | None:
    refused = wrong_shape(exercise, function)
    return refused and Report(exercise.name, "failed", (), refused[0], refused[1:])


def _judge(exercise: Exercise, function: Callable[..., Any]) -> Report:
    known = material(exercise)
    return judged(exercise, known, attempts(exercise, function, known.cases), lambda: source_of(function))


def judged(exercise: Exercise, known: Material, found: Sequence[Outcome], source: Callable[[], str]) -> Report:
    """The report on what became of each case; ``source``: of the function, asked for if it fails."""
    passed: list[str] = []
    for case, right, outcome in zip(known.cases, known.expected, found):
        words = complaint(exercise, case, right, outcome, source)
        if words:
            foreign = foreign_words(source()) if exercise.compiles else ()
            name = "" if foreign else diagnose(exercise, known, found)
            words = tuple(x for x in words if x != NOTHING_STORED or not name)
            return Report(
                exercise.name,
                "failed",
                tuple(dict.fromkeys(passed)),
                case.property,
                (*shown(exercise, case), *words, *foreign),
                name,
                _end(outcome.printed),
            )
        passed.append(case.property)
    return Report(exercise.name, "passed", tuple(dict.fromkeys(passed)), printed=_end(found[0].printed))


def launches(exercise: Exercise) -> list[dict[str, str | int]]:
    """What a kernel is compiled with: the constants of each case, each once."""
    each = [exercise.constants(case) for case in material(exercise).cases]
    return [launch for i, launch in enumerate(each) if launch not in each[:i]]


def not_for_a_gpu(report: Report, words: str) -> Report:
    """The report on a kernel that is right in the interpreter, with what the compiler says against it; '' for nothing."""
    failed = "right in Triton's interpreter, but not for a GPU"
    return report._replace(status="failed", failed=failed, details=tuple(words.splitlines())) if words else report


def _end(printed: str) -> str:
    """The last of what was printed, with a sign that there was more."""
    text = printed.strip()
    return text if len(text) <= LONGEST else f"… {text[-LONGEST:]}"


def complaint(
    exercise: Exercise, case: Case, right: Any, outcome: Outcome, source: Callable[[], str]
) -> tuple[str, ...]:
    """What is wrong with an outcome, in lines; () if nothing is. ``source``: of the function, asked for if None came back."""
    if isinstance(outcome.result, Failure):
        return tuple(x for x in (outcome.result.words, outcome.result.line) if x)
    words = differs(outcome.result, right, exercise.tolerance, exercise.parts)
    words = words or exercise.remark(case, outcome.result)
    if not words:
        return ()
    if outcome.result is None and none_is_meant(source(), exercise.stub):
        words = words.removesuffix(NO_RETURN)
    unwritten = bool(exercise.compiles) and "nan came back" in words and not outcome.notes
    return (words, *outcome.notes, *((NOTHING_STORED,) if unwritten else ()))


NOTHING_STORED = "NaN also stands where the kernel has stored nothing"
NO_TORCH = "in a kernel use tl.zeros, tl.exp and so on: torch, math and NumPy do not work on its blocks"
NO_TRUTH = (
    "in a kernel use tl.maximum, a & b and tl.where: Python's max, min, and, or take one of two blocks, not each number"
)


def foreign_words(source: str) -> tuple[str, ...]:
    """What stands in a kernel's source and means something else there than in Python."""
    nodes = list(ast.walk(ast.parse(source)))
    modules = {n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    truth = any(isinstance(n, ast.BoolOp) for n in nodes) or called & {"max", "min"}
    torch = modules & {"torch", "math", "np", "numpy"}
    return tuple(words for words, found in ((NO_TORCH, torch), (NO_TRUTH, truth)) if found)


def shown(exercise: Exercise, case: Case) -> tuple[str, ...]:
    """The arguments of a case, short."""
    names = exercise.arguments or tuple(exercise.signature.parameters)
    if len(names) != len(case.args):
        return ()
    blocks = [f"{name} = {value}" for name, value in exercise.constants(case).items() if name.startswith("BLOCK")]
    return (*(f"{name} = {_value(value)}" for name, value in zip(names, case.args)), *blocks)


def _value(value: Any) -> str:
    """As it can be typed in, so that the failure comes again; large tensors in words."""
    if isinstance(value, torch.Tensor) and value.numel() > 24:
        return f"a tensor of shape {list(value.shape)}, from {float(value.min()):.4g} to {float(value.max()):.4g}"
    return text(value)

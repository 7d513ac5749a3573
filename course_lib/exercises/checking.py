"""check(function): runs the cases, says what fails in numbers, and names the bug if it is a known one."""

import ast
import copy
import functools
import html
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from IPython import get_ipython

from course_lib.exercises import record
from course_lib.exercises.base import Case, Exercise, differs
from course_lib.exercises.catalogue import exercises
from course_lib.exercises.definitions import definitions
from course_lib.exercises.running import Failure, Outcome, outcomes

LONGEST = 300  # characters of one argument in a message


class Report(NamedTuple):
    """What became of a check. status: 'not attempted', 'missing', 'passed' or 'failed'; passed: the properties that hold, in order."""

    exercise: str
    status: str
    passed: tuple[str, ...] = ()
    failed: str = ""
    details: tuple[str, ...] = ()
    diagnosis: str = ""

    def __repr__(self) -> str:
        if self.status == "not attempted":
            return f"{self.exercise}: not attempted. Replace the three dots and run the cell again; hint({self.exercise}) helps."
        lines = [f"{self.exercise}: {self.status}", *(f"  ✓ {name}" for name in self.passed)]
        if self.failed:
            lines.append(f"  ✗ {self.failed}")
        lines += [f"      {line}" for line in self.details]
        if self.diagnosis:
            lines.append(f"  This is what you get {self.diagnosis}.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        colour = {"passed": "#009E73", "failed": "#D55E00"}.get(self.status, "#8A8A8A")
        lines = html.escape(repr(self)).splitlines()
        body = "\n".join([f"<b>{lines[0]}</b>", *lines[1:]])
        return f'<pre style="border-left: 6px solid {colour}; padding: 0.3em 1em; white-space: pre-wrap">{body}</pre>'


def source_of(function: Callable[..., Any]) -> str:
    """The function's own code, dedented; '' if there is none to read. For a Triton kernel, that of the Python function."""
    try:
        return textwrap.dedent(inspect.getsource(getattr(function, "fn", function)))
    except (OSError, TypeError):
        return ""


def untouched(function: Callable[..., Any]) -> bool:
    """Whether the body is a docstring and three dots."""
    try:
        tree = ast.parse(source_of(function))
    except SyntaxError:
        return False
    found = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if found is None:
        return False
    rest = [node for node in found.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return not rest


def check_exercise(exercise: Exercise, function: Callable[..., Any], keep: bool = True) -> Report:
    """The report on one attempt; ``keep`` writes it to the progress file."""
    if untouched(function):
        return Report(exercise.name, "not attempted")
    cases = list(exercise.cases())
    report = _judge(exercise, function, cases)
    if keep:
        record.save(exercise.name, report.status)
    return report


def reports(sources: Sequence[str], names: Sequence[str]) -> Iterator[Report]:
    """A report on each of the named exercises as a page's code cells answer them; 'missing' where none can be defined."""
    space, errors = definitions(sources, names)
    for name in names:
        if name in errors or not callable(space.get(name)):
            yield Report(name, "missing", (), errors.get(name, "no cell defines it"))
        else:
            yield check_exercise(exercises()[name], space[name], keep=False)


def page_of(function: Callable[..., Any]) -> list[str]:
    """The code of the page that a function is defined on: the cells of a notebook that have been run, or its module."""
    shell = get_ipython()
    if shell is not None:
        return list(shell.user_ns["In"])
    module = inspect.getmodule(getattr(function, "fn", function))
    return [inspect.getsource(module)] if module is not None else [source_of(function)]


def _judge(exercise: Exercise, function: Callable[..., Any], cases: Sequence[Case]) -> Report:
    wanted = inspect.signature(_stub_function(exercise.stub, exercise.name))
    mine = inspect.signature(getattr(function, "fn", function))
    if list(wanted.parameters) != list(mine.parameters):
        details = (f"its arguments are ({', '.join(mine.parameters)}); keep ({', '.join(wanted.parameters)})",)
        return Report(exercise.name, "failed", (), "the signature", details)
    found = outcomes(function, [functools.partial(exercise.run, function, _copy(case)) for case in cases])
    passed: list[str] = []
    for case, outcome in zip(cases, found):
        words = _complaint(exercise, case, outcome)
        if words:
            diagnosis = diagnose(exercise, cases, found)
            return Report(
                exercise.name,
                "failed",
                tuple(dict.fromkeys(passed)),
                case.property,
                (*shown(exercise, case), *words),
                diagnosis,
            )
        passed.append(case.property)
    return Report(exercise.name, "passed", tuple(dict.fromkeys(passed)))


def _copy(case: Case) -> Case:
    """Arguments of its own: a function may change them in place."""
    return case._replace(args=copy.deepcopy(case.args))


def _complaint(exercise: Exercise, case: Case, outcome: Outcome) -> tuple[str, ...]:
    if isinstance(outcome.result, Failure):
        return tuple(x for x in (outcome.result.words, outcome.result.line) if x)
    words = differs(outcome.result, exercise.expected(*case.args), exercise.tolerance, exercise.parts)
    words = words or exercise.remark(case, outcome.result)
    said = (f"it printed: {outcome.printed.strip()[:LONGEST]}",) if words and outcome.printed.strip() else ()
    return (words, *said) if words else ()


def shown(exercise: Exercise, case: Case) -> tuple[str, ...]:
    """The arguments of a case, short."""
    names = inspect.signature(_stub_function(exercise.stub, exercise.name)).parameters
    lines = []
    for name, value in zip(names, case.args):
        if hasattr(value, "shape") and getattr(value, "numel", lambda: 0)() > 24:
            text = f"a tensor of shape {list(value.shape)}, from {float(value.min()):.4g} to {float(value.max()):.4g}"
        else:
            text = repr(value.tolist() if hasattr(value, "tolist") else value)
        lines.append(f"{name} = {text[:LONGEST]}")
    return tuple(lines) if len(names) == len(case.args) else ()


@functools.cache
def _stub_function(stub: str, name: str) -> Callable[..., Any]:
    """The stub's function without its decorators, for its signature."""
    tree = ast.parse(stub)
    found = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    found.decorator_list, found.returns = [], None
    for argument in (*found.args.args, *found.args.kwonlyargs):
        argument.annotation = None
    space: dict[str, Any] = {}
    exec(compile(ast.Module([found], []), "<stub>", "exec"), space)
    return space[name]


# --- which bug is it? ---


def diagnose(exercise: Exercise, cases: Sequence[Case], found: Sequence[Outcome]) -> str:
    """The diagnosis of the known-wrong answer that gives the same results, case by case; '' if none does."""
    for diagnosis, function in exercise.wrong.items():
        theirs = _outcomes_of_wrong(exercise, diagnosis, function, tuple(cases))
        if len(theirs) == len(found) and all(_alike(one, other, exercise) for one, other in zip(found, theirs)):
            return diagnosis
    return ""


def _outcomes_of_wrong(
    exercise: Exercise, diagnosis: str, function: Callable[..., Any], cases: Sequence[Case]
) -> list[Outcome]:
    if (exercise.name, diagnosis) not in _known:
        calls = [functools.partial(exercise.run, function, _copy(case)) for case in cases]
        _known[exercise.name, diagnosis] = outcomes(function, calls)
    return _known[exercise.name, diagnosis]


_known: dict[tuple[str, str], list[Outcome]] = {}


def _alike(one: Outcome, other: Outcome, exercise: Exercise) -> bool:
    if isinstance(one.result, Failure) or isinstance(other.result, Failure):
        both = isinstance(one.result, Failure) and isinstance(other.result, Failure)
        return both and (one.result.kind, one.result.words.split(":")[0]) == (
            other.result.kind,
            other.result.words.split(":")[0],
        )
    try:
        return not differs(one.result, other.result, exercise.tolerance)
    except (TypeError, ValueError, RuntimeError):
        return False

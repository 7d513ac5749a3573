"""Runs a student's function where it can do no harm: in a fork of this process, with limits and an eye on memory accesses."""

import contextlib
import inspect
import io
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from course_lib.exercises import values
from course_lib.exercises.harness.accesses import watched_memory
from course_lib.exercises.page.functions import DEEPEST, inside
from course_lib.exercises.processes import isolation

LIMIT = 5.0  # seconds for all cases together
PRINTED = 2000  # characters of what is printed


@dataclass(frozen=True)
class Failure:
    """What ended a case early. kind: 'exception', 'time', 'crash'; line: of the student's own code, with its text."""

    kind: str
    words: str
    line: str = ""


class Outcome(NamedTuple):
    """A case's result, plain data or a Failure, what the function printed, and what its kernel did that may explain a wrong result."""

    result: Any
    printed: str = ""
    notes: tuple[str, ...] = ()

    def as_data(self) -> tuple[Any, ...]:
        """Plain data, of which ``of`` makes the outcome again."""
        failed = isinstance(self.result, Failure)
        result = (self.result.kind, self.result.words, self.result.line) if failed else self.result
        return failed, result, self.printed, self.notes

    @classmethod
    def of(cls, data: Any) -> "Outcome":
        """Raises ValueError for what is no outcome's data."""
        if isinstance(data, values.Other):
            return cls(Failure("exception", data.words))
        try:
            failed, result, printed, notes = data
            result = Failure(*map(values.printable, result)) if failed else result
            return cls(result, values.printable(printed), tuple(map(values.printable, notes)))
        except (TypeError, RuntimeError) as error:
            raise ValueError(f"not the data of an outcome: {error}") from None


def outcomes(function: Callable[..., Any], calls: Sequence[Callable[[], Any]], limit: float = LIMIT) -> list[Outcome]:
    """The outcome of each call, in order; after a call that ended the process, or took too long, none follow.

    Where a process can be forked (Linux, macOS) a crash or an endless loop ends that process only, and all that it started.
    ``function`` is the student's, for the line of an exception.
    """
    if not hasattr(os, "fork"):
        return [Outcome.of(values.plain(outcome.as_data())) for outcome in in_process(function, calls)]
    sent = isolation.forked(lambda: (outcome.as_data() for outcome in in_process(function, calls)), limit)
    return complete(sent, len(calls), limit)


def complete(sent: isolation.Sent, calls: int, limit: float) -> list[Outcome]:
    """The outcomes of so many calls; if there are fewer, the last one says why."""
    try:
        found = [Outcome.of(message) for message in sent.messages[:calls]]
    except ValueError:
        found = []
    return found if len(found) == calls else [*found, Outcome(_missing(sent.ended, limit))]


def _missing(ended: str, limit: float) -> Failure:
    if ended.startswith("it took"):
        return Failure(
            "time", f"it did not end within {limit:g} seconds: does every loop come to an end, and in few enough steps?"
        )
    return Failure("crash", f"{ended or 'it sent no result'}; the notebook is unharmed")


class EndedError(Exception):
    """A call of the function failed in another process; ``failure`` says how."""

    def __init__(self, failure: Failure):
        super().__init__(failure.words)
        self.failure = failure


class Tail(io.TextIOBase):
    """The end of what is printed."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text = (self.text + text[-PRINTED:])[-PRINTED:]
        return len(text)

    def take(self) -> str:
        """What there is; it begins anew."""
        taken, self.text = self.text, ""
        return taken


def in_process(function: Callable[..., Any], calls: Sequence[Callable[[], Any]]) -> Iterator[Outcome]:
    """The outcome of each call, in order, in this process; memory accesses of kernels are watched."""
    with watched_memory() as notes, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of a kernel's infinities in the interpreter
        for call in calls:
            printed = Tail()
            notes.clear()
            try:
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                    result = values.plain(call())
            except BaseException as error:  # SystemExit and KeyboardInterrupt, too
                result = failure(function, error)
            yield Outcome(result, printed.text, tuple(notes))


def failure(function: Any, error: BaseException) -> Failure:
    """What an exception says, and of the student's function the line."""
    if isinstance(error, EndedError):
        return error.failure
    cause: BaseException = error
    try:
        for _ in range(DEEPEST):  # Triton's interpreter wraps what a kernel raises
            cause = cause.__cause__ if isinstance(cause.__cause__, BaseException) else cause
        said = str(cause)
    except BaseException:
        said = ""
    return Failure("exception", f"{type(cause).__name__}: {said or 'no message'}"[:600], _line(function, cause))


def _line(function: Callable[..., Any], error: BaseException) -> str:
    """The last line of the student's function on the way to the error."""
    plain = inside(function)
    if plain is None:
        return ""
    try:
        lines, first = inspect.getsourcelines(plain)
    except (OSError, TypeError, ValueError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.name == plain.__name__ and f.lineno and first <= f.lineno < first + len(lines)]
    if not own:
        return ""
    number = own[-1].lineno or first
    return f"line {number - first + 1}: {lines[number - first].strip()}"

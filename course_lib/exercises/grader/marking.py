"""One exercise of one page: put to the sandbox, and judged by what comes out of it."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from course_lib.exercises import values
from course_lib.exercises.base import Exercise
from course_lib.exercises.checker import checking, compiling
from course_lib.exercises.checker.checking import Report
from course_lib.exercises.checker.material import Material, examined, material
from course_lib.exercises.grader.unseen import unseen
from course_lib.exercises.processes.forked_process import LIMIT, Failure, complete
from course_lib.exercises.sandbox.client import BEGIN, Sandbox
from course_lib.exercises.sandbox.talk import INTERRUPTED, LOST, Talk, WorkError

OTHER_NUMBERS = "right for the numbers that the check shows, not for others"
UNREADABLE = "its answer cannot be read"


class Clock:
    """The time that a notebook has; it runs from ``start`` on, but not while it is judged, or waits for another one's judging."""

    def __init__(self, seconds: float):
        self.seconds, self._end = seconds, 0.0

    def start(self) -> None:
        self._end = self._end or time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic()) if self._end else self.seconds

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self._end += time.monotonic() - begin if self._end else 0.0


class _Known(NamedTuple):
    """What an exercise is judged by: the cases of the check, others, and both as the sandbox gets them, in that order."""

    shown: Material
    unseen: Material
    cases: Any


class Marker:
    """Reports on exercises, with the same unseen cases for all pages. Threads may share one."""

    def __init__(self, box: Sandbox, seed: str):
        self._box, self._seed = box, seed
        self._known: dict[str, _Known] = {}
        self._judging = threading.Lock()

    def report(self, exercise: Exercise, page: Sequence[str], clock: Clock) -> Report:
        """Raises WorkError where there is none, with the reason."""
        if not any(exercise.name in cell for cell in page):
            return Report(exercise.name, "missing", (), "no cell defines it")
        with clock.stopped():
            known = self._of(exercise)
        question = {"kind": "answer", "exercise": exercise.name, "page": list(page), "cases": known.cases}
        try:
            with self._box.work(question, clock.left) as talk:
                report, text = self._asked(exercise, known, talk, clock)
            if report.status == "passed" and exercise.compiles:
                report = self._compiled(exercise, text, report)
        except (ValueError, TypeError):  # of another shape than what is sent
            raise WorkError(UNREADABLE) from None
        except WorkError as error:
            if str(error).startswith("it took"):
                raise WorkError(f"it took more than {clock.seconds:g} seconds") from None
            raise
        return report

    def _of(self, exercise: Exercise) -> _Known:
        with self._judging:
            if exercise.name not in self._known:
                shown, more = material(exercise), unseen(exercise, self._seed)
                cases = [("", case.args, dict(case.options)) for case in (*shown.cases, *more.cases)]
                self._known[exercise.name] = _Known(shown, more, values.encode(cases))
            return self._known[exercise.name]

    def _asked(self, exercise: Exercise, known: _Known, talk: Talk, clock: Clock) -> tuple[Report, str]:
        """The report, and of a kernel the text that was run."""
        talk.message(BEGIN)
        clock.start()
        text, left_out = talk.message(clock.left) if exercise.compiles else ("", "")
        kind, *words = talk.message(clock.left)
        if kind != "defined":
            status = {"missing": "missing", "not attempted": "not attempted", "refused": "failed"}.get(str(kind))
            if status is None:
                raise WorkError(UNREADABLE)
            return Report.of((exercise.name, status, (), "".join(words[:1]), words[1:], "", "")), text
        count = len(known.shown.cases) + len(known.unseen.cases)
        limit = (
            LIMIT * count / len(known.shown.cases) * (2 if exercise.apart else 1)
        )  # a process for each call takes time
        sent = talk.messages(count, min(limit, clock.left))
        if sent.ended in (LOST, INTERRUPTED) or (sent.ended.startswith("it took") and not clock.left):
            raise WorkError(sent.ended)
        found = complete(sent, count, limit)
        with clock.stopped(), self._judging:
            try:
                report = _judged(exercise, known, found, text)
            except Exception as error:
                report = Report(exercise.name, "failed", (), f"what came back cannot be judged: {type(error).__name__}")
        return (report._replace(details=(*report.details, left_out)) if left_out and report.failed else report), text

    def _compiled(self, exercise: Exercise, text: str, report: Report) -> Report:
        launches = checking.launches(exercise)
        question = {"kind": "compile", "text": text, "name": exercise.name, "launches": launches}
        with self._box.work(question, compiling.SECONDS) as talk:
            try:
                said = talk.rest(compiling.SECONDS).decode("utf-8", "replace")
            except WorkError as error:
                if str(error) in (LOST, INTERRUPTED):
                    raise
                said = json.dumps({"refused": f"could not be compiled: {error}"})
        words = compiling.verdict(said)
        return checking.not_for_a_gpu(
            report, "could not be compiled: the compiler broke off" if words is None else words
        )


def _judged(exercise: Exercise, known: _Known, found: list[Any], text: str) -> Report:
    first = len(known.shown.cases)
    found = examined(exercise, (*known.shown.cases, *known.unseen.cases), found)
    report = checking.judged(exercise, known.shown, found[:first], lambda: text)
    if report.status != "passed":
        return report
    if exercise.compiles and checking.NO_TORCH in checking.foreign_words(text):
        return report._replace(status="failed", failed=checking.NO_TORCH)
    if len(found) < first + len(known.unseen.cases) and not isinstance(found[-1].result, Failure):
        return report._replace(status="failed", failed=UNREADABLE)
    for case, right, outcome in zip(known.unseen.cases, known.unseen.expected, found[first:]):
        if words := checking.complaint(exercise, case, right, outcome, lambda: text):
            details = (case.property, *checking.shown(exercise, case), *words)
            return report._replace(status="failed", failed=OTHER_NUMBERS, details=details)
    return report

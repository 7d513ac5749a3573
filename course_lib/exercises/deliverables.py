"""The five deliverables of lecture 14: each has a check with a clear message, and an answer of two sentences for the instructor to read.

deliver(3, (gain, crossing), answer="Attention takes 23 % of my step. So no kernel makes it more than 1.3 times as fast.")

What 3 and 4 hand in are functions, and exercises like others, graded as these are. The others depend on what only the student's machine
has: a kernel, losses, a checkpoint.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.exercises import check, deliverable_checks
from course_lib.exercises.deliverable_checks import Refused
from course_lib.exercises.judging import Report
from course_lib.exercises.running import refused

SENTENCES = 2


def _passes(*names: str) -> Callable[[Any], Sequence[str]]:
    """A check of functions that are exercises."""

    def checked(work: Any) -> list[str]:
        functions = work if isinstance(work, tuple) else (work,)
        if [getattr(f, "__name__", "") for f in functions] != list(names):
            raise Refused(f"hand in {' and '.join(names)}")
        found: list[str] = []
        for name, report in zip(names, map(check, functions)):
            if report.status != "passed":
                raise Refused(repr(report), found)
            found += [f"{name}: {words}" for words in report.passed]
        return found

    return checked


DELIVERABLES: dict[int, tuple[str, Callable[[Any], Sequence[str]]]] = {
    1: ("swap it in", deliverable_checks.swapped),
    2: ("judge the curves", deliverable_checks.judged),
    3: ("count the time", _passes("gain", "crossing")),
    4: ("one step with a cache", _passes("cached_step")),
    5: ("let it talk", deliverable_checks.talked),
}


def deliver(number: int, work: Any, answer: str) -> Report:
    """Check the deliverable with this number, 1 to 5: what is handed in, and that the answer has two sentences and a number.

    Its status is 'accepted', 'not yet', or, of an answer of three dots, 'not attempted'. Raises ValueError for another number.
    """
    if type(number) is not int or number not in DELIVERABLES:
        raise ValueError(f"number is {number!r}; pass 1 to {len(DELIVERABLES)}")
    title, accepts = DELIVERABLES[number]
    report = Report(f"deliverable {number}, {title}", "not yet")
    if str(answer).strip().strip(".…") == "":
        todo = "Replace the three dots by two sentences and run the cell again."
        return report._replace(status="not attempted", todo=todo)
    try:
        with refused(["attention.attention"]):
            found = tuple(accepts(work))
    except Refused as reason:
        return report._replace(passed=tuple(reason.found), failed=str(reason))
    except Exception as error:  # somebody's function, called with what it did not expect
        return report._replace(failed=f"{type(error).__name__}: {error}")
    words = complaint(str(answer))
    return report._replace(status="not yet" if words else "accepted", passed=found, failed=words)


def complaint(answer: str) -> str:
    """What an answer lacks; '' if nothing. A sentence ends before a space and a capital, or at the end."""
    sentences = len(re.split(r"(?<=[.!?])\s+(?=[A-Z])", answer.strip()))
    if sentences != SENTENCES:
        return f"the answer has {sentences} sentence{'s' * (sentences != 1)}; write {SENTENCES}"
    if not re.search(r"\d", answer):
        return "the answer has no number; say one that you measured or computed"
    return ""

"""Run in a copy of the course for students: which of its functions, handed in as they are, are right answers to which exercises?

Prints JSON: [exercise, function] for each that passes. All functions of ``course_lib.exercises``, and the public ones of the rest, are
called with each exercise's cases; those that start processes or write files return no result and are left out.
"""

import importlib
import inspect
import json
import pkgutil
import signal
import sys
from collections.abc import Iterator
from typing import Any

import course_lib
from course_lib.exercises import exercises
from course_lib.exercises.base import Exercise
from course_lib.exercises.checker import checking
from course_lib.exercises.checker.differences import differs
from course_lib.exercises.checker.material import material
from course_lib.exercises.processes import isolation
from course_lib.exercises.values import plain

LEFT_OUT = (
    "isolation", "fresh_process", "forked_process", "landlock", "progress_file", "__main__", "grader", "handout", "sandbox",
    "recordings", "publish", "fork_server", "compiled", "counters",
)  # fmt: skip
SECONDS = 0.3  # for a call: what takes longer has taken the arguments for something else


def shipped() -> dict[str, Any]:
    """The functions and kernels by name, each once."""
    found: dict[Any, str] = {}
    for info in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
        if set(info.name.split(".")) & set(LEFT_OUT):
            continue
        module = importlib.import_module(info.name)
        own = info.name.startswith("course_lib.exercises")
        for name, value in vars(module).items():
            if (inspect.isfunction(value) or hasattr(value, "fn")) and (own or not name.startswith("_")):
                found.setdefault(value, f"{getattr(value, '__module__', info.name)}.{name}")
    return {name: value for value, name in found.items()}


def passing(exercise: Exercise, functions: dict[str, Any]) -> Iterator[list[str]]:
    """Those that are right in the first two cases, tried one after another, and then in all."""
    known = material(exercise)
    asked = exercise.signature.parameters
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("too long"))
    for name, function in functions.items():
        try:
            try:
                inspect.signature(getattr(function, "fn", function)).bind(*asked)
                signal.setitimer(signal.ITIMER_REAL, SECONDS * (5 if exercise.compiles else 1))
                right = all(
                    not differs(
                        exercise.examine(case, plain(exercise.run(function, case.fresh()))), right, exercise.tolerance
                    )
                    for case, right in list(zip(known.cases, known.expected))[:2]
                )
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException:  # the alarm's too, which may come while it is being switched off
            right = False
        if right and checking._judge(exercise, function).status == "passed":
            yield [exercise.name, name]


def main() -> None:
    functions = shipped()
    isolation.GIGABYTES = 1  # what takes more has taken the arguments for something else
    found = []
    for exercise in exercises().values():
        kind = {n: f for n, f in functions.items() if hasattr(f, "fn") == bool(exercise.compiles)}
        sent = isolation.forked(lambda e=exercise, k=kind: passing(e, k), 60.0)
        assert not sent.ended, (exercise.name, sent)
        found += sent.messages
    print(json.dumps({"tried": len(functions), "passed": found}))


if __name__ == "__main__":
    main()

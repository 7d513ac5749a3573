"""All exercises: a module of ``tasks`` each."""

import functools
import importlib
import pkgutil

from course_lib.exercises import handed_in, tasks
from course_lib.exercises.base import Exercise


def modules() -> list[str]:
    """The names of the modules that hold them."""
    return [f"{tasks.__name__}.{m.name}" for m in pkgutil.iter_modules(tasks.__path__)]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """All exercises by name, in the order of the lectures."""
    found: list[Exercise] = [importlib.import_module(name).EXERCISE for name in modules()]
    return {e.name: e for e in sorted(found, key=lambda e: (e.lecture, e.level, e.name))}


@functools.cache
def graded() -> dict[str, Exercise]:
    """All that is graded, by name: the exercises, and the functions of deliverables."""
    return exercises() | {e.name: e for e in handed_in.FUNCTIONS}

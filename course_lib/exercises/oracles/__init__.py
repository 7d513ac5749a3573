"""What the exercises are checked by: cases, right results, known-wrong answers. A student's copy has their results only, as data.

A module for each exercise. Only ``base``, ``checker`` and ``grader`` look here, by name.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


class variant:  # noqa: N801 - stands where a function's name would
    """A known-wrong answer: ``f``, whose last parameter says what goes wrong, with that. Called, or launched, like the answer."""

    def __init__(self, f: Callable[..., Any], bug: Any):
        kernel = getattr(f, "fn", None)
        *asked, self._switch = inspect.signature(kernel or f).parameters.values()
        self._f, self._bug = f, {self._switch.name: bug}
        self.__signature__ = inspect.Signature(asked)
        if kernel:
            self.fn = self  # as of a Triton kernel, without a source to be read for its mistakes

    def __call__(self, *args: Any) -> Any:
        return self._f(*args, **self._bug)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        return functools.partial(self._f[grid], **self._bug)  # type: ignore[index]


def variants(f: Callable[..., Any], bugs: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Known-wrong answers of one function, by their diagnosis: what its last parameter is, by the same."""
    return {diagnosis: variant(f, bug) for diagnosis, bug in bugs.items()}

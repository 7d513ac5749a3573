"""The functions that deliverables 3 and 4 of lecture 14 hand in, as the grader puts them to its sandbox.

``deliver`` runs where the student's own code does, which can make it say anything; what a grade rests on is judged from outside.
"""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.base import Case, Exercise

LECTURE = "14"
CHARACTERS = 12


def turn(x: torch.Tensor, position: int) -> torch.Tensor:
    """x [B, H, 1, D] by the rotation of its position, counted from 0."""
    from course_lib.gpt.model import angles, rotated  # takes a second to import

    return rotated(x, angles(position, 1, x.shape[-1], x))


def _step_by_step(step: Callable[..., Any], case: Case) -> Any:
    """o of all characters, [B, H, CHARACTERS, D], by a step for each, which is given what the one before has kept."""
    kept: tuple[Any, Any] = (None, None)
    rows = []
    for i in range(CHARACTERS):
        o, *kept = step(*(x[:, :, i : i + 1] for x in case.args), *kept, turn)  # type: ignore[assignment]
        rows.append(o)
    return torch.cat(rows, dim=2)


def _function(name: str, title: str, minutes: int, stub: str, **more: Any) -> Exercise:
    return Exercise(name, LECTURE, title, 2, minutes, "", stub, ("", "", ""), **more)


FUNCTIONS = (
    _function("gain", "count the time", 20, "def gain(step, attention, faster): ..."),
    _function("crossing", "count the time", 20, "def crossing(width, mlp, causal): ..."),
    _function(
        "cached_step", "one step with a cache", 30, "def cached_step(q, k, v, keys, values, turn): ...", run=_step_by_step,
        arguments=("q", "k", "v"), apart=True,
    ),
)  # fmt: skip

"""Lecture 14: what a layer does with one new character, over a cache of the characters before."""

import torch

from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness.ranks import attend

CHARACTERS = 12


def turn(x, position):
    """x [B, H, 1, d] by the rotation of its position, counted from 0."""
    from course_lib.gpt.model import angles, rotated  # takes a second to import

    return rotated(x, angles(position, 1, x.shape[-1], x))


def run(step, case):
    """o of all characters, and how much is kept at the end, by a step for each, which is given what the one before has kept."""
    kept: list = [None, None]
    rows = []
    for i in range(CHARACTERS):
        o, *kept = step(*(x[:, :, i : i + 1] for x in case.args), *kept, turn)
        rows.append(o)
    return torch.cat(rows, dim=2), [list(x.shape) for x in kept]


EXERCISE = Exercise(
    lecture="14",
    title="one step with a cache",
    run=run,
    parts=("o of all characters", "shapes of keys and values"),
    arguments=("q of all characters", "k", "v"),
    hints=(
        "If n characters are kept, at which position does the new one stand?",
        "A key is turned once, by its own position, and kept turned. Which of the three are never turned?",
        "The new character sees itself, so it is kept before it attends. Does a single query, the last, need a mask?",
    ),
)

# --- for teachers ---

SOLUTION = """
def cached_step(q, k, v, keys, values, turn):
    n = 0 if keys is None else keys.shape[2]
    q, k = turn(q, n), turn(k, n)
    keys = k if keys is None else torch.cat((keys, k), dim=2)
    values = v if values is None else torch.cat((values, v), dim=2)
    p = torch.softmax(q @ keys.mT / q.shape[-1] ** 0.5, dim=-1)
    return p @ values, keys, values
"""
WHY = """
Rotations make scores depend on distances alone. So a key may be turned once, by its own position, and kept: the next query is turned by
its own, and the distance comes out right. If old keys were dropped and the next query counted from what is left, it would stand too near
to those that remain, by as many as were dropped.
"""


def cases(draw):
    yield Case("one text, one head of 4", tuple(torch.randn(3, 1, 1, CHARACTERS, 4, dtype=torch.float64)))
    yield Case("two texts, three heads of 8", tuple(torch.randn(3, 2, 3, CHARACTERS, 8, dtype=torch.float64)))


def expected(q, k, v):
    """Causal attention over all characters at once, each turned by its own position."""
    shapes = [list(k.shape)] * 2
    q, k = (torch.cat([turn(x[:, :, i : i + 1], i) for i in range(CHARACTERS)], dim=2) for x in (q, k))
    return attend(q, k, v, causal=True)[0], shapes


TURNED = "turn(q, n), turn(k, n)"
WRONG = {
    "if each character counts as position 0: where it stands is how many are kept": (TURNED, "turn(q, 0), turn(k, 0)"),
    "if one query with is_causal=True sees key 0 alone: a newest character needs no mask": ("p @ values", "values[:, :, :1]"),
    "if keys are kept as they were before they were turned": (TURNED, "turn(q, n), k"),
    "if the query is not turned: only the distance of two turned vectors counts": (TURNED, "q, turn(k, n)"),
    "if the new character does not see itself: keep it first, then attend":
        ("q @ keys.mT", "(q @ keys.mT)[..., : max(n, 1)]", "p @ values", "p @ values[:, :, : max(n, 1)]"),
    "if values are not kept: the next step needs those of all characters": ("values, keys, values", "values, keys, v"),
}  # fmt: skip

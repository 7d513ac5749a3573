"""What wrong results have in common with the right ones, such as a factor, an order or a type: a name for bugs that nobody knows.

A family says what came out, never why. It is the same in every case that is wrong, and in so many that chance does not do it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.exercises.base import Exercise
from course_lib.exercises.checker.differences import differs, text
from course_lib.exercises.processes.forked_process import Failure, Outcome

ENOUGH = 2  # cases that show a family in many numbers
ENOUGH_SINGLE = 4  # cases that show it in one number
FEW = 3  # numbers of a tensor that are too few to tell


class Wrong(NamedTuple):
    """The only wrong part of a result: what came back, what is right, its name, '' where it is all, and what is allowed."""

    found: Any
    right: Any
    name: str
    tolerance: float


def family(exercise: Exercise, expected: Sequence[Any], found: Sequence[Outcome]) -> str:
    """What all wrong results have in common, as a diagnosis; '' if nothing, or if a case ended early."""
    if len(found) != len(expected) or any(isinstance(x.result, Failure) for x in found):
        return ""
    pairs = [(x.result, right) for x, right in zip(found, expected)]
    if all(isinstance(word, str) for pair in pairs for word in pair):
        return _words(pairs)
    wrong = [_wrong(a, b, exercise) for a, b in pairs if differs(a, b, exercise.tolerance)]
    told = [x for x in wrong if x]
    if len(told) < len(wrong) or len({x.name for x in told}) != 1:
        return ""
    looks: tuple[Callable[[list[Wrong]], str], ...] = (_one_off, _narrow, _factor, _transposed, _moved, _cut)
    return next((words for look in looks if (words := look(told))), "").format(it=told[0].name or "the result")


def _wrong(found: Any, right: Any, exercise: Exercise) -> Wrong | None:
    """None where two parts are wrong, or there is another number of them."""
    if not isinstance(right, tuple | list | dict):
        return Wrong(found, right, "", exercise.tolerance)
    if isinstance(right, dict) or not isinstance(found, tuple | list) or len(found) != len(right):
        return None
    bad = [i for i, (a, b) in enumerate(zip(found, right)) if differs(a, b, exercise.tolerance)]
    if len(bad) != 1 or len(exercise.parts) != len(right):
        return None
    return Wrong(found[bad[0]], right[bad[0]], exercise.parts[bad[0]], exercise.tolerance)


def _words(pairs: list[tuple[str, str]]) -> str:
    """Two words that always change places, or one that never comes."""
    became: dict[str, set[str]] = {}
    for found, right in pairs:
        became.setdefault(right, set()).add(found)
    changed = {right: found for right, found in became.items() if found != {right}}
    for right, others in changed.items():
        other = min(others)
        if changed == {right: {other}, other: {right}}:
            return f"if {text(min(right, other))} and {text(max(right, other))} change places"
        if changed == {right: {other}} and len(became) > 2:
            return f"if {text(right)} never comes back, but {text(other)} in its place"
    return ""


def _one_off(wrong: list[Wrong]) -> str:
    whole = all(type(x.found) is int and type(x.right) is int for x in wrong)
    off = {x.found - x.right for x in wrong} if whole and len(wrong) >= ENOUGH_SINGLE else set()
    words = {1: "large", -1: "small"}.get(min(off), "") if len(off) == 1 else ""
    return words and f"if {{it}}, where it is wrong, is one too {words}"


def _pairs(wrong: list[Wrong], finite: bool = True) -> list[tuple[torch.Tensor, torch.Tensor, float]]:
    """In double precision, with what is allowed; empty if not all are tensors of one kind of numbers, of the right shapes."""
    told = []
    for x in wrong:
        a, b = (y if isinstance(y, torch.Tensor) and not y.is_complex() else None for y in (x.found, x.right))
        if a is None or b is None or a.shape != b.shape or a.is_floating_point() != b.is_floating_point():
            return []
        a, b = a.double(), b.double()
        if finite and not (a.isfinite().all() and b.isfinite().all()):
            return []
        of = b[b.isfinite()].abs()
        told.append((a, b, x.tolerance * max(float(of.max()) if of.numel() else 1.0, 1e-30)))
    return told


def _near(a: torch.Tensor, b: torch.Tensor, allowed: float) -> torch.Tensor:
    return torch.isclose(a, b, rtol=0, atol=allowed, equal_nan=True)


def _narrow(wrong: list[Wrong]) -> str:
    """The right numbers in a type of 16 bits."""
    for x, (a, b, _) in zip(wrong, pairs := _pairs(wrong, finite=False)):
        if x.found.dtype not in (torch.float16, torch.bfloat16) or x.right.dtype == x.found.dtype:
            return ""
        kept = b.to(x.found.dtype).double()
        if not torch.isclose(a, kept, rtol=torch.finfo(x.found.dtype).eps, atol=0, equal_nan=True).all():
            return ""
    return "if {it} comes back in 16 bits: it is asked for in more" if pairs else ""


def _factor(wrong: list[Wrong]) -> str:
    """One factor in each case; cases with a few numbers, which may be any multiples, do not contradict."""
    factors = []
    for a, b, allowed in _pairs(wrong):
        if int((b.abs() > allowed).sum()) <= FEW:
            continue
        at = b.abs().argmax()
        c = float(a.flatten()[at] / b.flatten()[at])
        if c == 0 or not _near(a, c * b, allowed * max(1.0, abs(c))).all():
            return ""
        factors.append(c)
    if len(factors) < ENOUGH:
        return ""
    one, other = factors[0], max(factors, key=lambda c: abs(c - factors[0]))
    if abs(other - one) > 1e-3 * abs(other):
        said = f"{one:.4g} times the right one in one case, {other:.4g} times in another"
        return f"if a factor is missing or too much: {{it}} is {said}"
    return "if {it} has the wrong sign" if abs(one + 1) < 1e-3 else f"if {{it}} is always {one:.4g} times the right one"


def _transposed(wrong: list[Wrong]) -> str:
    for x in wrong:
        if not (isinstance(x.found, torch.Tensor) and isinstance(x.right, torch.Tensor) and x.found.dim() > 1):
            return ""
        if differs(x.found.mT, x.right, x.tolerance):
            return ""
    return "if {it} is transposed" if len(wrong) >= ENOUGH else ""


def _moved(wrong: list[Wrong]) -> str:
    """The right numbers in other places."""
    told = 0
    for a, b, allowed in _pairs(wrong):
        one, other = (x.flatten().sort().values for x in (a, b))
        if not _near(one, other, min(allowed, 1e-5 * float(b.abs().max()))).all():
            return ""
        told += len(b.unique()) > FEW
    return "if {it} has the right numbers in other places: none is new, and none is missing" if told >= ENOUGH else ""


def _cut(wrong: list[Wrong]) -> str:
    """Rows at the end that are 0, behind rows that are right."""
    told = 0
    for a, b, allowed in _pairs(wrong, finite=False):
        if not b.dim():
            return ""
        first = int((~_near(a, b, allowed)).nonzero()[0, 0])
        if not (a[first:] == 0).all():
            return ""
        told += first > 0
    return "if the last part of {it} is left out: it is 0" if told >= ENOUGH else ""

"""What wrong results have in common with the right ones, such as a factor, an order or a type: a name for bugs that nobody knows.

A family says what came out, never why. It is the same in every case that is wrong, and in so many that chance does not do it.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.exercises.base import Exercise
from course_lib.exercises.checker.differences import differs, text
from course_lib.exercises.processes.forked_process import Failure, Outcome

ENOUGH = 2  # cases that show a family in many numbers
ENOUGH_SINGLE = 4  # cases that show it in one number
FEW = 3  # numbers of a tensor that are too few to tell
COARSE = 2**-4  # of the largest number: how far off 16 bits may lead


class Wrong(NamedTuple):
    """A wrong part of a result: what came back, what is right, its name, '' where it is all, and what is allowed."""

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
    if not all(wrong):
        return ""
    parts: dict[str, list[Wrong]] = {}
    for x in (part for found_wrong in wrong for part in found_wrong):
        parts.setdefault(x.name, []).append(x)
    for look in _LOOKS:
        words = {look(told) for told in parts.values()}
        if len(words) == 1 and "" not in words:  # several parts have to show the same
            return words.pop().format(**_grammar(list(parts)))
    return ""


def _grammar(parts: list[str]) -> dict[str, str]:
    """The words of a diagnosis that depend on how many parts are wrong."""
    if len(parts) > 1:
        it = f"{', '.join(parts[:-1])} and {parts[-1]}"
        return {"it": it, "be": "are", "come": "come", "have": "have", "they": "they", "one": "ones"}
    return {"it": parts[0] or "the result", "be": "is", "come": "comes", "have": "has", "they": "it", "one": "one"}


def _wrong(found: Any, right: Any, exercise: Exercise) -> list[Wrong]:
    """The wrong parts; none where there is another number of them, or where one is not to be told by what came back."""
    if isinstance(right, dict):
        return _of_dictionary(found, right, exercise) if isinstance(found, dict) and set(found) == set(right) else []
    if not isinstance(right, tuple | list):
        return [Wrong(found, right, "", exercise.tolerance)]
    if not isinstance(found, tuple | list) or len(found) != len(right) or len(exercise.parts) != len(right):
        return []
    named = zip(found, right, exercise.parts)
    return [Wrong(a, b, name, exercise.tolerance) for a, b, name in named if differs(a, b, exercise.tolerance)]


def _of_dictionary(found: dict[Any, Any], right: dict[Any, Any], exercise: Exercise) -> list[Wrong]:
    """Of parts that ranks have, those of all ranks as one tensor."""
    ranks: dict[str, list[tuple[Any, Any]]] = {}
    wrong = []
    for key, b in right.items():
        a, name = found[key], re.sub(r"(?: of)? ?rank \d+$", "", str(key))
        if isinstance(b, tuple):
            if not isinstance(a, tuple | list) or len(a) != len(b) or len(exercise.parts) != len(b):
                return []
            for part, one, other in zip(exercise.parts, a, b):
                ranks.setdefault(part, []).append((one, other))
        elif isinstance(b, torch.Tensor) and name != key:
            ranks.setdefault(name, []).append((a, b))
        elif differs(a, b, exercise.tolerance):
            if "rank" in str(key) or isinstance(b, str):
                return []
            wrong.append(Wrong(a, b, name, exercise.tolerance))
    for name, pairs in ranks.items():
        if any(differs(a, b, exercise.tolerance) for a, b in pairs):
            if any(not isinstance(a, torch.Tensor) or a.shape != pairs[0][1].shape for a, _ in pairs):
                return []
            a, b = (torch.stack(x) for x in zip(*pairs))
            wrong.append(Wrong(a, b, name, exercise.tolerance))
    return wrong


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
    return words and f"if {{it}}, where it is wrong, {{be}} one too {words}"


def _unrounded(wrong: list[Wrong]) -> str:
    """Quotients where whole numbers are asked for. A float may have no room for the fraction."""
    if not all(type(x.found) is float and type(x.right) is int and abs(x.found - x.right) <= 1 for x in wrong):
        return ""
    broken = [x for x in wrong if not x.found.is_integer()]
    for way, rounded in (("up", math.ceil), ("down", math.floor)):
        if len(broken) >= ENOUGH_SINGLE and all(rounded(x.found) == x.right for x in broken):
            return f"if {{it}} {{be}} not rounded {way}: a whole number is asked for"
    return ""


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
    return "if {it} {come} back in 16 bits: {they} {be} asked for in more" if pairs else ""


def _through_16_bits(wrong: list[Wrong]) -> str:
    """Numbers that have 16 bits, whatever their type, near right ones that have more."""
    kinds, told = {"bf16": torch.bfloat16, "fp16": torch.float16}, 0
    for a, b, allowed in _pairs(wrong):
        if int((b.abs() > allowed).sum()) > FEW:
            if not _near(a, b, COARSE * float(b.abs().max())).all():
                return ""
            kinds = {k: t for k, t in kinds.items() if (a == a.to(t)).all() and int((b != b.to(t)).sum()) > FEW}
            told += 1
    kind = next(iter(kinds), "") if told >= ENOUGH else ""
    return kind and f"if {{it}} {{be}} computed in {kind}, or rounded to it on the way: more bits are asked for"


def _factor(wrong: list[Wrong]) -> str:
    """One factor in each case; cases with a few numbers, which may be any multiples, do not contradict."""
    factors, lengths = [], []
    for a, b, allowed in _pairs(wrong):
        if int((b.abs() > allowed).sum()) <= FEW:
            continue
        at = b.abs().argmax()
        c = float(a.flatten()[at] / b.flatten()[at])
        if c == 0 or not _near(a, c * b, allowed * max(1.0, abs(c))).all():
            return ""
        factors.append(c)
        lengths.append(b.shape[-1] if b.dim() else 1)
    if len(factors) < ENOUGH:
        return ""
    one, other = factors[0], max(factors, key=lambda c: abs(c - factors[0]))
    if abs(other - one) > 1e-3 * abs(other):
        for power, words in ((0.5, "not divided by √d"), (-0.5, "divided by √d once too often")):
            if all(abs(c - d**power) < 1e-3 * c for c, d in zip(factors, lengths)):
                return f"if {{it}} {{be}} {words}"
        said = f"{one:.4g} times the right {{one}} in one case, {other:.4g} times in another"
        return f"if a factor is missing or too much: {{it}} {{be}} {said}"
    if abs(one + 1) < 1e-3:
        return "if {it} {have} the wrong sign"
    return f"if {{it}} {{be}} always {one:.4g} times the right {{one}}"


def _transposed(wrong: list[Wrong]) -> str:
    for x in wrong:
        if not (isinstance(x.found, torch.Tensor) and isinstance(x.right, torch.Tensor) and x.found.dim() > 1):
            return ""
        if differs(x.found.mT, x.right, x.tolerance):
            return ""
    return "if {it} {be} transposed" if len(wrong) >= ENOUGH else ""


def _moved(wrong: list[Wrong]) -> str:
    """The right numbers in other places."""
    told = 0
    for a, b, allowed in _pairs(wrong):
        one, other = (x.flatten().sort().values for x in (a, b))
        if not _near(one, other, min(allowed, 1e-5 * float(b.abs().max()))).all():
            return ""
        told += len(b.unique()) > FEW
    return (
        "if {it} {have} the right numbers in other places: none is new, and none is missing" if told >= ENOUGH else ""
    )


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


_LOOKS: tuple[Callable[[list[Wrong]], str], ...] = (
    _one_off,
    _unrounded,
    _narrow,
    _factor,
    _transposed,
    _moved,
    _cut,
    _through_16_bits,
)

"""How a result differs from the right one, in words: for any two values, without an exception."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from course_lib.exercises.values import Other, Whatever, plain

LONGEST = 300  # characters of a value
MANY = 32  # numbers of a tensor
NO_RETURN = ": is a return missing?"


def differs(found: Any, right: Any, tolerance: float, parts: Sequence[str] = ()) -> str:
    """In words how ``found``, whatever it is, differs from ``right``, which is plain data; '' if it does not.

    Whole numbers, booleans and text have to be equal; floating-point numbers within ``tolerance`` of the largest right one.
    Tuples and dictionaries are compared part by part; ``parts`` names those of a tuple, or of each tuple in a dictionary. ``ANY`` is
    equal to all.
    """
    found = plain(found)
    words = _differs(found, right, tolerance, parts)
    return words + NO_RETURN if words and found is None else words


def _differs(found: Any, right: Any, tolerance: float, parts: Sequence[str] = ()) -> str:
    if isinstance(right, Whatever):
        return ""
    if found is None and right is not None:
        return "None came back" + (f", right is {text(right)}" if isinstance(right, int | float | str) else "")
    if isinstance(right, tuple | list):
        return _parts_differ(found, right, tolerance, parts)
    if isinstance(right, dict):
        if not isinstance(found, dict) or set(found) != set(right):
            return f"{text(found)} came back; return a dictionary with {', '.join(map(repr, right))}"
        return next(
            (f"{key}: {words}" for key in right if (words := _differs(found[key], right[key], tolerance, parts))), ""
        )
    if isinstance(right, torch.Tensor):
        return _tensor_differs(found, right, tolerance)
    if isinstance(right, np.ndarray):
        same = isinstance(found, np.ndarray) and np.array_equal(found, right, equal_nan=right.dtype.kind in "fc")
        return "" if same else f"{text(found)} came back, right is {text(right)}"
    return _number_differs(_single(found), right, tolerance)


def _parts_differ(found: Any, right: Sequence[Any], tolerance: float, parts: Sequence[str]) -> str:
    if not isinstance(found, tuple | list) or len(found) != len(right):
        if isinstance(found, list):
            return f"a list of {len(found)} came back, right is one of {len(right)}"
        what = f"a tuple of {len(found)}" if isinstance(found, tuple) else _kind(found)
        return f"{what} came back; return a tuple of {len(right)}: {', '.join(parts) or 'see above'}"
    for i, (one, other) in enumerate(zip(found, right)):
        if words := _differs(one, other, tolerance):
            name = parts[i] if i < len(parts) else f"item {i + 1} of {len(right)}"
            return f"{name}: {words}"
    return ""


def _single(found: Any) -> Any:
    """The number in a tensor or an array that holds one."""
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        return plain((found.double() if found.is_floating_point() else found).item())
    return plain(found.item()) if isinstance(found, np.ndarray) and found.size == 1 else found


def _number_differs(found: Any, right: Any, tolerance: float) -> str:
    simple = found is None or isinstance(found, bool | int | float | str)
    if isinstance(right, Other):
        return "" if isinstance(found, Other) and found == right else f"{text(found)} came back"
    if not simple:
        return f"{text(found)} came back; return {_wanted(right)}"
    if isinstance(right, float):
        if isinstance(found, bool | str):
            return f"{text(found)} came back; return a number"
        try:
            near = math.isclose(found, right, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
            distance = abs(found - right)
        except OverflowError:
            return f"{text(found)} came back, right is {text(right)}"
        if found == right or near or (math.isnan(found) and math.isnan(right)):
            return ""
        return _two(found, right, tolerance) + _near(distance, tolerance * abs(right))
    if right == "" and isinstance(found, str):
        return found  # words where there should be none
    if type(found) is not type(right) and found == right:
        return f"{text(found)} came back; return {_wanted(right)}"
    return "" if found == right else f"{text(found)} came back, right is {text(right)}"


def _wanted(right: Any) -> str:
    """What to return where something of another type came back."""
    if isinstance(right, bool):
        return "True or False"
    if right is None:
        return "None"
    if isinstance(right, int):
        return "a whole number, with // or int()"
    return "a number" if isinstance(right, float) else f"a {type(right).__name__}"


def _near(distance: float, allowed: float) -> str:
    """A word on the tolerance to who is not far off."""
    return f" (off by {distance:.2g}; {allowed:.2g} is allowed)" if distance < 100 * allowed else ""


def _tensor_differs(found: Any, right: torch.Tensor, tolerance: float) -> str:
    if not isinstance(found, torch.Tensor):
        return f"{_kind(found)} came back; return a tensor of shape {list(right.shape)}"
    if found.shape != right.shape:
        return f"shape {list(found.shape)} came back, right is {list(right.shape)}"
    if found.dtype.is_complex and right.dtype.is_complex:
        same = torch.equal(*(x.to(torch.complex128) for x in (found, right)))
        return "" if same else f"{text(found)} came back, right is {text(right)}"
    if found.dtype.is_complex:
        return f"a tensor of complex numbers came back; return one of {_dtype(right)}"
    if not right.is_floating_point():
        whole = not found.is_floating_point() or torch.equal(found.double().trunc(), found.double())
        if not whole or not torch.equal(found.long(), right.long()):
            return f"{text(found)} came back, right is {text(right)} ({_dtype(right)})"
        wrong = found.is_floating_point()
        return f"the numbers are right, but their type is {found.dtype}; return {right.dtype}" if wrong else ""
    one, other = found.double(), right.double()
    finite = other[other.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 1.0
    bad = ~torch.isclose(one, other, rtol=0, atol=tolerance * max(size, 1e-30), equal_nan=True)
    if not bad.any():
        return ""
    where = bad.nonzero()[0].tolist()
    at = f"at {where}" if where else "here"
    share = f"{int(bad.sum())} of {bad.numel()} numbers are off; " if bad.numel() > 1 else ""
    mine, true = float(one[tuple(where)]), float(other[tuple(where)])
    return f"{share}{at} {_two(mine, true, tolerance)}{_near(abs(mine - true), tolerance * size)}"


def _kind(found: Any) -> str:
    return found.words if isinstance(found, Other) else f"a {type(found).__name__}"


def _dtype(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def text(value: Any) -> str:
    """A plain value as it can be typed in, shortened if it is long. A tensor's numbers are as short as its type allows."""
    if isinstance(value, Other):
        return value.words
    if isinstance(value, torch.Tensor | np.ndarray) and math.prod(value.shape) > MANY:
        return f"{text(value.reshape(-1)[:MANY])[:-1]}, …]"
    try:
        said = repr(_listed(value))
    except ValueError:  # a whole number of thousands of digits
        return "a number of more digits than Python writes"
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} …"


class _Short(float):
    """A number of float32 or less, with the fewest digits that are this number there."""

    def __repr__(self) -> str:
        return repr(float(str(np.float32(self)))) if math.isfinite(self) else float.__repr__(self)


def _listed(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        narrow = value.is_floating_point() and value.dtype != torch.float64
        listed = (value.double() if narrow else value).tolist()
        return _shortened(listed) if narrow else listed
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return type(value)(_listed(part) for part in value)
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    return value


def _shortened(listed: Any) -> Any:
    return [_shortened(part) for part in listed] if isinstance(listed, list) else _Short(listed)


def _two(found: float, right: float, tolerance: float) -> str:
    """Both numbers, with as many digits as it takes to tell them apart; all of them where they have to be equal."""
    digits = next((n for n in (6, 9, 17) if f"{found:.{n}g}" != f"{right:.{n}g}"), 6)
    one, other = (repr(x) if tolerance == 0 else f"{x:.{digits}g}" for x in (found, right))
    return f"{one} came back, right is {other}"

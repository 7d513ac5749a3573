"""Argument checks shared by the public functions.

Each check raises before anything is computed, and its message names the argument, what was given and what to pass.
"""

import math
import numbers
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
WHOLE = int, torch.SymInt, numbers.Integral  # a length that torch.export leaves open is a SymInt; NumPy's are Integral


def shown(value: Any) -> str:
    """``value`` as text for a message, cut short; of a tensor and of an int with too many digits, the type."""
    if isinstance(value, torch.Tensor):
        return f"<{type(value).__name__}>"
    try:
        return reprlib.repr(value)
    except Exception:  # an int of more than 4,300 digits, or a repr of somebody else's
        return f"<{type(value).__name__}>"


def positive_int(name: str, value: Any) -> int:
    """Return ``value`` if it is an integer of at least 1, else raise TypeError or ValueError."""
    return whole(name, value, 1)


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return ``value`` if it is an integer from ``least`` to ``most`` (None: any), else raise TypeError or ValueError."""
    if isinstance(value, WHOLE) and not isinstance(value, bool):
        if least <= value and (most is None or value <= most):  # type: ignore[operator]
            return value if isinstance(value, int | torch.SymInt) else int(value)  # type: ignore[return-value]
        error: type[Exception] = ValueError
        given = shown(value)
    else:
        error, given = TypeError, f"{shown(value)} ({type(value).__name__})"
    wanted = f"of at least {least}" if most is None else f"from {least:,} to {most:,}"
    raise error(f"{name} is {given}; pass a whole number {wanted}")


def number(name: str, value: Any, least: float = -math.inf, above: float = -math.inf) -> float:
    """Return ``value`` as a float if it is a finite real number within the bounds, else raise TypeError or ValueError."""
    bound = f" of at least {least:g}" if least > -math.inf else f" above {above:g}" if above > -math.inf else ""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {shown(value)} ({type(value).__name__}); pass a finite number{bound}")
    try:
        found = float(value)
    except OverflowError:  # a whole number or a fraction beyond all floats
        found = math.inf
    if not (least <= found < math.inf and found > above):  # comparisons alone, which torch.compile can follow
        raise ValueError(f"{name} is {shown(value)}; pass a finite number{bound}")
    return found


def function(name: str, value: Any) -> Callable[..., Any]:
    """Return ``value`` if it can be called, else raise TypeError."""
    if not callable(value):
        raise TypeError(f"{name} is {shown(value)} ({type(value).__name__}); pass a function")
    return value  # type: ignore[no-any-return]


def truth(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False, else raise TypeError: 'no' would count as true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {shown(value)} ({type(value).__name__}); pass True or False")
    return value


def text(name: str, value: Any) -> str:
    """Return ``value`` if it is a string, else raise TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)} ({type(value).__name__}); pass text")
    return value


def instance(name: str, value: Any, kind: type, example: str) -> Any:
    """Return ``value`` if it is a ``kind``, else raise TypeError with an ``example`` of what to pass."""
    if not isinstance(value, kind):
        raise TypeError(
            f"{name} is {shown(value)} ({type(value).__name__}); pass a {kind.__name__}, for example {example}"
        )
    return value


def one_of(name: str, value: Any, choices: Sequence[Any]) -> Any:
    """Return ``value`` if it is one of ``choices`` and of its type (True is not 1), else raise ValueError listing them."""
    for choice in choices:
        if value is choice:
            return value
        if isinstance(value, type(choice)) and not isinstance(value, bool) and value == choice:
            return value
    raise ValueError(f"{name} is {shown(value)}; choose one of {', '.join(map(repr, choices))}")


def dense(name: str, x: Any) -> torch.Tensor:
    """Return ``x`` if it is a tensor whose elements lie in memory one by one: not sparse, nested or quantised. Reads no values."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}; pass a torch.Tensor")
    if x.is_nested:
        raise TypeError(f"{name} is a nested tensor; pass its parts one by one, for example {name}.unbind()[0]")
    if x.layout is not torch.strided:
        raise TypeError(f"{name} has layout {x.layout}; pass a dense tensor, for example {name}.to_dense()")
    if x.is_quantized:
        raise TypeError(f"{name} is quantised ({x.dtype}); pass plain numbers, for example {name}.dequantize()")
    return x


def readable(name: str, x: Any) -> torch.Tensor:
    """Return ``x`` if it is a dense, non-empty tensor of real numbers of any kind that can be read: not meta."""
    dense(name, x)
    if x.is_complex():
        raise TypeError(f"{name} has dtype {x.dtype}; pass real numbers, for example {name}.real")
    if x.numel() == 0:
        raise ValueError(f"{name} is empty (shape {list(x.shape)}); pass at least one element")
    if x.is_meta:
        raise ValueError(f"{name} is on the meta device and holds no numbers; pass a tensor on a CPU or GPU")
    return x


def float_tensor(name: str, x: Any, ndim: int | None = None, look_inside: bool = True) -> torch.Tensor:
    """Return ``x`` if it is a dense, non-empty tensor (of ``ndim`` dimensions, if given) of ``FLOATS`` without NaN or +inf.

    ``look_inside=False`` leaves the values unread, as kernel launchers must: reading them would cost a pass over memory.
    """
    dense(name, x)
    if x.dtype not in FLOATS:
        raise TypeError(f"{name} has dtype {x.dtype}; pass floating-point numbers, for example {name}.float()")
    if ndim is not None and x.dim() != ndim:
        raise ValueError(f"{name} has shape {list(x.shape)}; pass a tensor with {ndim} dimension{'s' * (ndim > 1)}")
    if x.numel() == 0:
        raise ValueError(f"{name} is empty (shape {list(x.shape)}); pass at least one element")
    if look_inside and not bool((readable(name, x) < torch.inf).all()):
        raise ValueError(f"{name} contains NaN or +inf; remove it first, for example with torch.nan_to_num")
    return x


def same_dtype_and_device(**tensors: torch.Tensor) -> None:
    """Raise if the tensors differ in dtype or device; the message names the pair."""
    (first_name, first), *others = tensors.items()
    for name, x in others:
        if x.dtype != first.dtype:
            raise TypeError(
                f"{first_name} is {first.dtype} but {name} is {x.dtype}; convert one, for example {name}.to({first.dtype})"
            )
    same_device(**tensors)


def same_device(**tensors: torch.Tensor) -> None:
    """Raise if the tensors are on different devices; the message names the pair."""
    (first_name, first), *others = tensors.items()
    for name, x in others:
        if x.device != first.device:
            raise ValueError(
                f"{first_name} is on {first.device} but {name} is on {x.device}; move one, for example {name}.to({str(first.device)!r})"
            )


def same_shape(**tensors: torch.Tensor) -> None:
    """Raise if the tensors differ in shape; the message names the pair."""
    (first_name, first), *others = tensors.items()
    for name, x in others:
        if x.shape != first.shape:
            raise ValueError(
                f"{first_name} has shape {list(first.shape)} but {name} has {list(x.shape)}; pass tensors of one shape"
            )


def matmul_shapes(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raise unless a [m, k] and b [k, n] can be multiplied and are of one dtype and device. Reads no values."""
    same_dtype_and_device(a=a, b=b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a has {a.shape[1]} columns but b has {b.shape[0]} rows; they must be equal: a [m, k], b [k, n]"
        )


def attention_shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[int, int, int, int]:
    """Check that q [Nq, d], k [Nk, d] and v [Nk, dv] belong together; return (Nq, Nk, d, dv). Reads no values."""
    same_dtype_and_device(q=q, k=k, v=v)
    if q.shape[1] != k.shape[1]:
        raise ValueError(
            f"q has head dimension {q.shape[1]} but k has {k.shape[1]}; they must be equal: q [Nq, d], k [Nk, d]"
        )
    if k.shape[0] != v.shape[0]:
        raise ValueError(
            f"k has {k.shape[0]} rows but v has {v.shape[0]}; each key needs one value: k [Nk, d], v [Nk, dv]"
        )
    return q.shape[0], k.shape[0], q.shape[1], v.shape[1]


def causal_mask(causal: Any, causal_offset: Any = 0) -> int:
    """The offset; TypeError unless ``causal`` is True or False and it a whole number, ValueError for an offset without a mask."""
    truth("causal", causal)
    offset = whole("causal_offset", causal_offset, -(2**31), 2**31)
    if not causal and offset:
        raise ValueError(f"causal_offset is {shown(offset)} but causal is False; pass causal=True with it")
    return offset


def grouped_heads(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    names: tuple[str, ...] = ("q", "k", "v"),
    paged: bool = False,
) -> None:
    """ValueError unless q is [B, H, Nq, D], k and v are [B, Hk, Nk, D], and H is a multiple of Hk; of one dtype and device.

    ``names``: what the caller calls them. ``paged``: k and v are pages, of any number.
    """
    same_dtype_and_device(**dict(zip(names, (q, k, v), strict=True)))
    same_shape(**dict(zip(names[1:], (k, v), strict=True)))
    (b, h, _, d), (b_k, h_k, _, d_k) = q.shape, k.shape
    if (b != b_k and not paged) or d != d_k or h_k == 0 or h % h_k:
        equal = "head size" if paged else "batch and head size"
        raise ValueError(
            f"{names[0]} is {list(q.shape)} but {names[1]} is {list(k.shape)}; {equal} must be equal, "
            f"{names[0]}'s heads a multiple of {names[1]}'s"
        )


def several(name: str, values: Any, length: int | None = None, least: int = 1) -> Sequence[Any]:
    """Return ``values`` if it is a list or the like, of ``length`` entries or of ``least``, else raise TypeError or ValueError."""
    if (
        not hasattr(values, "__len__")
        or isinstance(values, str | bytes | Mapping | set)
        or getattr(values, "ndim", 1) == 0
    ):
        raise TypeError(f"{name} is {shown(values)} ({type(values).__name__}); pass a list")
    if len(values) != length if length is not None else len(values) < least:
        raise ValueError(f"{name} has {len(values):,} entries; pass {length or f'at least {least}'}")
    return values  # type: ignore[no-any-return]


def floats(name: str, values: Any, length: int | None = None, above: float = -math.inf) -> list[float]:
    """A sequence, array or vector of finite numbers as a list, else TypeError or ValueError; lengths as for ``several``."""
    plain = values.tolist() if isinstance(several(name, values, length), torch.Tensor) else values
    return [number(f"{name}[{i}]", value, above=above) for i, value in enumerate(plain)]


def entries(name: str, values: Any) -> Mapping[str, Any]:
    """Return ``values`` if it is a mapping of names to something, else raise TypeError or ValueError."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise TypeError(f"{name} is {shown(values)} ({type(values).__name__}); pass a dictionary by names")
    if not values:
        raise ValueError(f"{name} has 0 entries; pass at least one")
    return values

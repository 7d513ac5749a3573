"""Plain data: results and arguments as they are compared, kept in files and sent between processes, without any code of their own.

Plain are None, bool, int, float, str, tuples, lists and dictionaries of plain values, dense tensors and NumPy's arrays of numbers.
Whatever else there is becomes an ``Other``, which says what it was. ``encode`` and ``decode`` are JSON and back; nothing is pickled.
"""

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

LARGEST = 64 << 20  # bytes of a tensor or an array
DEEPEST = 20  # lists in lists
PARTS = 100_000  # commas and brackets of a message: what is read and compared part by part has to be short
_WHOLE = 2**63  # from here on numbers are written in hexadecimal: decimals of thousands of digits are refused by Python


@dataclass(frozen=True)
class Other:
    """What is no plain data, in words: 'a sparse tensor'."""

    words: str


@dataclass(frozen=True)
class Whatever:
    """Stands in an expected result where any is right: another part of the check decides."""


ANY = Whatever()


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """The value as plain data; never raises. It may run code of the value's class, so it belongs where the value was made."""
    try:
        return _plain(value, depth)
    except Exception as error:
        return Other(f"a {type(value).__name__}, of which nothing is to be had ({type(error).__name__})")


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str, Other, Whatever):
        return value
    if depth == 0:
        return Other(f"a {kind.__name__} inside {DEEPEST} others")
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, np.generic):
        item = value.item()
        return Other(f"a {kind.__name__}") if isinstance(item, np.generic) else _plain(item, depth - 1)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc" or value.nbytes > LARGEST:
            return Other(f"an array of {value.dtype}, shape {list(value.shape)}")
        return np.array(value, dtype=value.dtype.newbyteorder("="), order="C")
    for base in (int, float, str):
        if isinstance(value, base):  # of a class derived from it
            return getattr(base, f"__{base.__name__}__")(value)
    if isinstance(value, tuple | list):
        parts = [plain(part, depth - 1) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        keys = [plain(key, depth - 1) for key in value]
        if all(map(_is_key, keys)):
            return dict(zip(keys, [plain(part, depth - 1) for part in value.values()]))
        return Other("a dictionary with keys that are neither words nor numbers of eight bytes")
    return Other(f"a {kind.__name__}")


def _is_key(key: Any) -> bool:
    """Whether it may be looked up by: any number of larger whole numbers, and of tuples of them, can be made to have the same hash."""
    return key is None or isinstance(key, str | float) or (isinstance(key, int) and -_WHOLE < key < _WHOLE)


def _tensor(x: torch.Tensor) -> torch.Tensor | Other:
    with torch._C.DisableTorchFunctionSubclass():
        strange = (
            ("nested", x.is_nested),
            (str(x.layout).removeprefix("torch."), x.layout != torch.strided),
            ("quantized", x.is_quantized),
            ("meta", x.is_meta),
        )
        for name, found in strange:
            if found:
                return Other(f"a {name} tensor")
        if x.numel() * x.element_size() > LARGEST:
            return Other(f"a tensor of shape {list(x.shape)}, too large to be compared")
        kept = torch.empty(x.shape, dtype=x.dtype).copy_(x.detach())
        one = kept.reshape(-1)[:1]
        (one.double() if one.is_floating_point() else one).tolist()  # raises where the type is a mere container of bits
        return kept


def printable(text: Any) -> str:
    """Text that every file and page takes: half of a surrogate pair is written as an escape."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


# --- as JSON ---


def encode(value: Any) -> Any:
    """Plain data as JSON knows it; ``plain`` is applied first. Raises nothing."""
    return _encoded(plain(value))


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, bool | float) or type(value) is str:
        return value
    if isinstance(value, int):
        return value if -_WHOLE < value < _WHOLE else {"int": hex(value)}
    if isinstance(value, Other):
        return {"other": value.words}
    if isinstance(value, Whatever):
        return {"any": True}
    if isinstance(value, torch.Tensor):
        data = value.reshape(-1).view(torch.uint8).numpy().tobytes()
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), _text(data)]}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.name, list(value.shape), _text(value.tobytes())]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(part) for part in value]}
    if isinstance(value, list):
        return [_encoded(part) for part in value]
    return {"dict": [[_encoded(key), _encoded(part)] for key, part in value.items()]}


def written(value: Any) -> bytes:
    """A value as the text of a message; of one with too many parts only how many bytes these have."""
    data = json.dumps(encode(value)).encode()
    return json.dumps(encode(too_large(len(data)))).encode() if _many(data) else data


def too_large(size: int) -> Other:
    """What stands for a result that no message takes."""
    return Other(f"what it returned is too large: {size:,} bytes")


def read(data: bytes | bytearray) -> Any:
    """Back from the text of a message. Raises ValueError or RecursionError for what ``written`` does not write."""
    if _many(data):
        raise ValueError("too many parts")
    return decode(json.loads(data))


def _many(data: bytes | bytearray) -> bool:
    return data.count(b",") + data.count(b"[") + data.count(b"{") > PARTS


def decode(data: Any) -> Any:
    """Back from JSON. Raises ValueError for what ``encode`` does not write."""
    try:
        return _decoded(data, DEEPEST + 2)
    except (TypeError, KeyError, AttributeError, RuntimeError, OverflowError, IndexError) as error:
        raise ValueError(f"not the data of a value: {error}") from None


def _decoded(data: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("too deep")
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [_decoded(part, depth - 1) for part in data]
    [(kind, content)] = data.items()
    if kind == "int":
        return int(content, 16)
    if kind == "other":
        return Other(str(content))
    if kind == "any":
        return ANY
    if kind == "tuple":
        return tuple(_decoded(part, depth - 1) for part in content)
    if kind == "dict":
        pairs = [(_decoded(key, 2), _decoded(part, depth - 1)) for key, part in content]
        if not all(_is_key(key) for key, _ in pairs):
            raise ValueError("a dictionary with such keys")
        return dict(pairs)
    name, shape, text = content
    raw = bytearray(base64.b64decode(text, validate=True))
    if kind == "array":
        dtype = np.dtype(name)
        if dtype.kind not in "biufc":
            raise ValueError(f"an array of {dtype}")
        return np.frombuffer(raw, dtype).reshape(shape).copy()
    dtype_ = getattr(torch, name)
    if kind != "tensor" or not isinstance(dtype_, torch.dtype) or math.prod(shape) * dtype_.itemsize != len(raw):
        raise ValueError(f"no {kind} of {name}")
    if not raw:
        return torch.empty(shape, dtype=dtype_)
    whole = torch.frombuffer(raw, dtype=torch.uint8)
    return (whole != 0 if dtype_ is torch.bool else whole.view(dtype_)).reshape(shape)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

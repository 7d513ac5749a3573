"""Bytes that a Triton kernel moves, counted by listening to Triton's interpreter.

    traffic(flash_online, q, k, v, block_m=64)        # -> cost.Traffic, comparable with ``==``
    operations(flash_v2, q, k, v)                     # -> {"exp": …, "divide": …, "multiply": …}

Every load and store of the interpreter passes through two functions of its builder, with the addresses and the mask;
we sum the mask times the element size, for the tensor that the addresses lie in. Private API of Triton: the pinned
version and the exact equalities in the tests are its guard.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from course_lib import runtime
from course_lib.cost import Traffic

# Arguments of our kernels are named after the papers' matrices: q_ptr is Q. Vectors keep their small letters.
_MATRICES = set("abckopqsv")


class OutOfRangeError(RuntimeError):
    """A kernel read or wrote outside of a tensor; the message names the tensor and how far outside."""


class _Region(NamedTuple):
    name: str
    begin: int
    end: int


class _Listener:
    def __init__(self) -> None:
        self.regions: list[_Region] = []
        self.bytes: dict[str, dict[str, int]] = {"read": {}, "written": {}}
        self.operations = {"exp": 0, "divide": 0, "multiply": 0}

    def place(self, argument: str, x: torch.Tensor) -> None:
        name = argument.removesuffix("_ptr")
        if name in _MATRICES:
            name = name.upper()
        elif name[:1] == "d" and name[1:] in _MATRICES:  # a gradient: do is dO
            name = "d" + name[1:].upper()
        extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))
        self.regions.append(_Region(name, x.data_ptr(), x.data_ptr() + extent * x.element_size()))

    def access(self, kind: str, addresses: Any, mask: Any, element_bytes: int) -> None:
        touched = np.asarray(addresses).ravel()[np.asarray(mask).ravel().astype(bool)]
        if not touched.size:
            return
        first, last = int(touched.min()), int(touched.max())
        region = next((r for r in self.regions if r.begin <= first < r.end), None)
        if region is None or last + element_bytes > region.end:
            raise OutOfRangeError(self._complaint(kind, region, first, last, element_bytes))
        totals = self.bytes[kind]
        totals[region.name] = totals.get(region.name, 0) + touched.size * element_bytes

    def _complaint(self, kind: str, region: _Region | None, first: int, last: int, element_bytes: int) -> str:
        if region is None:
            region = min(self.regions, key=lambda r: min(abs(r.begin - first), abs(r.end - first)))
        before, beyond = (x // element_bytes for x in (region.begin - first, last + element_bytes - region.end))
        where = f"{before} elements before its beginning" if before > 0 else f"{beyond} elements beyond its end"
        verb = {"read": "reads", "written": "writes"}[kind]
        return f"the kernel {verb} outside of {region.name}: up to {where}; check the mask and the strides"


@contextlib.contextmanager
def _listening() -> Iterator[_Listener]:
    """Hear every access of every kernel that the interpreter runs meanwhile."""
    from triton.runtime import interpreter

    builder, executor, listener = interpreter.InterpreterBuilder, interpreter.GridExecutor, _Listener()
    load, store, arguments = builder.create_masked_load, builder.create_masked_store, executor._init_args_hst
    arithmetic = {"create_exp": "exp", "create_exp2": "exp", "create_fdiv": "divide", "create_fmul": "multiply"}
    originals = {function: getattr(builder, function) for function in arithmetic}

    def masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        listener.access("read", ptrs.data, mask.data, ptrs.get_element_ty().primitive_bitwidth // 8)
        return load(self, ptrs, mask, *rest, **options)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        listener.access("written", ptrs.data, mask.data, ptrs.get_element_ty().primitive_bitwidth // 8)
        return store(self, ptrs, value, mask, *rest, **options)

    def counted(function: str) -> Callable[..., Any]:
        def operation(self: Any, *operands: Any) -> Any:
            result = originals[function](self, *operands)
            listener.operations[arithmetic[function]] += result.data.size
            return result

        return operation

    def init_arguments(self: Any, args: Any, kwargs: Any) -> Any:
        on_host, options = arguments(self, args, kwargs)
        listener.regions = []
        for name, x in [*zip(self.arg_names, on_host), *options.items()]:
            if isinstance(x, torch.Tensor):
                listener.place(name, x)
        return on_host, options

    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store
    executor._init_args_hst = init_arguments
    for function in arithmetic:
        setattr(builder, function, counted(function))
    try:
        yield listener
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store
        executor._init_args_hst = arguments
        for function, original in originals.items():
            setattr(builder, function, original)


def traffic(launcher: Callable[..., Any], *args: Any, **kwargs: Any) -> Traffic:
    """Bytes read and written, per tensor, by the kernels that ``launcher(*args, **kwargs)`` launches.

    On the interpreter lane any callable will do. On the GPU lane the call is repeated in a child process, interpreted,
    on CPU copies of the tensors; ``launcher`` then has to be a function that can be imported.
    Raises OutOfRangeError, naming the tensor, for an access outside of it; errors of the launcher pass through;
    KernelsUnavailableError without Triton, or with 3.6, whose interpreter is broken.
    """
    heard = _listen(launcher, args, kwargs)
    return Traffic(reads=heard.bytes["read"], writes=heard.bytes["written"])


def operations(launcher: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, int]:
    """Scalar operations of the same launches: how many results of 'exp' (2^x, too), 'divide' and 'multiply' the kernels computed.

    Whole blocks are counted, with what a mask hides of them. Raises as ``traffic``.
    """
    return _listen(launcher, args, kwargs).operations


def _listen(launcher: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Listener:
    runtime.require_kernels()
    if version("triton").startswith("3.6"):
        raise runtime.KernelsUnavailableError(
            f"counting bytes needs Triton's interpreter of 3.7 or later; {version('triton')} is installed, whose "
            "interpreter fails on loops with a runtime bound (its compiler is fine). Pass shapes to course_lib.cost instead."
        )
    if runtime.lane() == "GPU":
        return _in_child(launcher, args, kwargs)
    with _listening() as listener:
        try:
            launcher(*args, **kwargs)
        except Exception as error:
            if isinstance(error.__cause__, OutOfRangeError):
                raise error.__cause__ from None
            raise
    return listener


def _in_child(launcher: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Listener:
    def to_cpu(x: Any) -> Any:
        return x.cpu() if isinstance(x, torch.Tensor) else x

    try:
        call = pickle.dumps((launcher, [to_cpu(x) for x in args], {name: to_cpu(x) for name, x in kwargs.items()}))
    except (pickle.PicklingError, AttributeError) as error:
        raise ValueError(
            f"launcher is {launcher!r}, which a child process cannot import ({error}); "
            "on the GPU lane pass a launcher of the library and its arguments, or set TRITON_INTERPRET=1 before the start"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "call", Path(folder) / "answer"
        question.write_bytes(call)
        environment = os.environ | {"TRITON_INTERPRET": "1"}
        subprocess.run(
            [sys.executable, "-m", "course_lib.traffic", str(question), str(answer)], env=environment, check=True
        )
        result = pickle.loads(answer.read_bytes())
    if isinstance(result, Exception):
        raise result
    return result


def _child(question: Path, answer: Path) -> None:
    # Imported by its own name, so that what is pickled belongs to course_lib.traffic and not to __main__.
    from course_lib import traffic as library

    launcher, args, kwargs = pickle.loads(question.read_bytes())
    try:
        result: Any = library._listen(launcher, tuple(args), kwargs)
    except Exception as error:
        result = error
    answer.write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    _child(Path(sys.argv[1]), Path(sys.argv[2]))

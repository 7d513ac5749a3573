"""Bytes that a Triton kernel moves, counted by listening to Triton's interpreter.

    traffic(flash_online, q, k, v, block_m=64)        # -> cost.Traffic, comparable with ``==``

Every load, store and atomic operation of the interpreter passes through a few functions of its builder, with the addresses
and the mask; we sum the mask times the element size, for the argument that the addresses were computed from. That is told by
the pointer itself: the kernel gets each with the number of its argument in the bits above the address, which arithmetic on
pointers leaves alone, and they are cut off before memory is touched. So arguments may share memory, as the parts of a packed
projection do, or be one tensor. Private API of Triton: the pinned version and the exact equalities in the tests are its guard.
"""

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

from course_lib import checks, runtime
from course_lib.instruments import fork_server
from course_lib.model.cost import Traffic

# Arguments of our kernels are named after the papers' matrices: q_ptr is Q. Vectors keep their small letters.
_MATRICES = set("abckopqsv")
_ABOVE = np.uint64(48)  # addresses of a process have no more bits
_ADDRESS = (np.uint64(1) << _ABOVE) - np.uint64(1)


class OutOfRangeError(RuntimeError):
    """A kernel read or wrote outside of a tensor; the message names the tensor and how far outside."""


class _Argument(NamedTuple):
    name: str
    begin: int
    end: int


def _tensors(name: str, x: Any) -> Iterator[tuple[str, Any]]:
    """The tensors of an argument: itself, those of a tuple, or what a descriptor describes."""
    if isinstance(x, tuple):
        for i, part in enumerate(x):
            yield from _tensors(f"{name}[{i}]", part)
    elif hasattr(x, "block_shape"):
        yield from _tensors(name, x.base)
    elif hasattr(x, "data_ptr"):
        yield name, x


class _Listener:
    def __init__(self) -> None:
        self.launches = 0
        self.arguments: list[_Argument] = []
        self.numbers: dict[int, int] = {}  # by the identity of a tensor that is handed to the kernel
        self.bytes: dict[str, dict[str, int]] = {"read": {}, "written": {}}

    def launch(self, arguments: Iterable[tuple[str, Any]]) -> None:
        """Take note of the tensors that the next kernel is given."""
        self.launches, self.arguments, self.numbers = self.launches + 1, [], {}
        for argument, value in arguments:
            for name, x in _tensors(argument, value):
                self._place(name, x)

    def _place(self, argument: str, x: Any) -> None:
        name = argument.removesuffix("_ptr")
        if name in _MATRICES:
            name = name.upper()
        elif name[:1] == "d" and name[1:] in _MATRICES:  # a gradient: do is dO
            name = "d" + name[1:].upper()
        last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
        extent = last + 1 if x.numel() else 0
        self.arguments.append(_Argument(name, x.data_ptr(), x.data_ptr() + extent * x.element_size()))
        self.numbers[id(x)] = len(self.arguments)  # from 1: an address without a number comes from no argument

    def access(self, kinds: Sequence[str], pointers: Any, mask: Any) -> Any:
        """Count an access; the same pointers without the numbers of their arguments."""
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        touched = pointers.data[np.broadcast_to(np.asarray(mask, dtype=bool), pointers.data.shape)]
        if touched.size:
            numbers = touched >> _ABOVE
            for number in [numbers.flat[0]] if numbers.min() == numbers.max() else np.unique(numbers):
                self._count(kinds, int(number), touched[numbers == number] & _ADDRESS, size)
        return type(pointers)(pointers.data & _ADDRESS, pointers.dtype)

    def _count(self, kinds: Sequence[str], number: int, touched: Any, size: int) -> None:
        verb = {"read": "reads", "written": "writes"}[kinds[0]]
        if not 1 <= number <= len(self.arguments):
            raise OutOfRangeError(
                f"the kernel {verb} at an address that none of its arguments leads to; pass the tensor itself"
            )
        argument, first, last = self.arguments[number - 1], int(touched.min()), int(touched.max()) + size
        if first < argument.begin or last > argument.end:
            before, beyond = ((x + size - 1) // size for x in (argument.begin - first, last - argument.end))
            where = f"{before} elements before its beginning" if before > 0 else f"{beyond} elements beyond its end"
            raise OutOfRangeError(
                f"the kernel {verb} outside of {argument.name}: up to {where}; check the mask and the strides"
            )
        for kind in kinds:
            totals = self.bytes[kind]
            totals[argument.name] = totals.get(argument.name, 0) + touched.size * size


@contextlib.contextmanager
def _listening() -> Iterator[_Listener]:
    """Hear every access of every kernel that the interpreter runs meanwhile."""
    from triton.runtime import interpreter

    builder, executor, listener = interpreter.InterpreterBuilder, interpreter.GridExecutor, _Listener()
    load, store, arguments = builder.create_masked_load, builder.create_masked_store, executor._init_args_hst
    update, swap, convert = builder.create_atomic_rmw, builder.create_atomic_cas, interpreter._implicit_cvt

    def masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        return load(self, listener.access(["read"], ptrs, mask.data), mask, *rest, **options)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        return store(self, listener.access(["written"], ptrs, mask.data), value, mask, *rest, **options)

    def atomic_update(self: Any, operation: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        ptrs = listener.access(["read", "written"], ptrs, mask.data)
        return update(self, operation, ptrs, value, mask, *rest)

    def atomic_swap(self: Any, ptrs: Any, *rest: Any) -> Any:
        return swap(self, listener.access(["read", "written"], ptrs, True), *rest)

    def init_arguments(self: Any, args: Any, kwargs: Any) -> Any:
        on_host, options = arguments(self, args, kwargs)
        listener.launch([*zip(self.arg_names, on_host, strict=False), *options.items()])
        return on_host, options

    def numbered(argument: Any) -> Any:
        value = convert(argument)
        if number := listener.numbers.get(id(argument)):
            value.handle.data = value.handle.data | (np.uint64(number) << _ABOVE)
        return value

    with (
        mock.patch.multiple(builder, create_masked_load=masked_load, create_masked_store=masked_store),
        mock.patch.multiple(builder, create_atomic_rmw=atomic_update, create_atomic_cas=atomic_swap),
        mock.patch.object(executor, "_init_args_hst", init_arguments),
        mock.patch.object(interpreter, "_implicit_cvt", numbered),
    ):
        yield listener


def traffic(launcher: Callable[..., Any], *args: Any, **kwargs: Any) -> Traffic:
    """Bytes read and written, per tensor, by the kernels that ``launcher(*args, **kwargs)`` launches.

    Tensors may share memory: bytes are booked on the argument through which the kernel reaches them. An atomic operation
    reads and writes.
    In interpreter mode any callable will do. In GPU mode the call is repeated in a child process, interpreted,
    on CPU copies of the tensors; ``launcher`` then has to be a function that can be imported.
    Raises OutOfRangeError, naming the tensor, for an access outside of it; ValueError for a launcher that launches nothing;
    errors of the launcher pass through; KernelsUnavailableError without Triton, or with 3.6, whose interpreter is broken.
    """
    heard = _listen(launcher, args, kwargs)
    return Traffic(reads=heard.bytes["read"], writes=heard.bytes["written"])


def _listen(launcher: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Listener:
    checks.function("launcher", launcher)
    runtime.require_kernels()
    if version("triton").startswith("3.6"):
        raise runtime.KernelsUnavailableError(
            f"counting bytes needs Triton's interpreter of 3.7 or later; {version('triton')} is installed, whose "
            "interpreter fails on loops with a runtime bound (its compiler is fine). Pass shapes to course_lib.model.cost instead."
        )
    if runtime.mode() == "GPU":
        return _in_child(launcher, args, kwargs)
    with _listening() as listener:
        try:
            launcher(*args, **kwargs)
        except Exception as error:
            # The interpreter wraps what a kernel raises, and once more for each function that the kernel is in.
            inner: BaseException | None = error
            while inner is not None and not isinstance(inner, OutOfRangeError):
                inner = inner.__cause__
            if inner is not None:
                raise inner from None
            raise
    if not listener.launches:
        raise ValueError(f"launcher is {launcher!r}, which launched no kernel; pass one that does")
    return listener


def _in_child(launcher: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Listener:
    def to_cpu(x: Any) -> Any:
        return x.cpu() if isinstance(x, torch.Tensor) else x

    try:
        call = pickle.dumps((launcher, [to_cpu(x) for x in args], {name: to_cpu(x) for name, x in kwargs.items()}))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"launcher is {launcher!r}, which a child process cannot import ({error}); "
            "in GPU mode pass a launcher of the library and its arguments, or set TRITON_INTERPRET=1 before the start"
        ) from None
    found = fork_server.result(_child, call, environment={"TRITON_INTERPRET": "1"})
    if isinstance(found, Exception):
        raise found
    return found  # type: ignore[no-any-return]


def _child(call: bytes) -> _Listener | Exception:
    runtime.mode()  # before the kernels are imported
    launcher, args, kwargs = pickle.loads(call)
    try:
        return _listen(launcher, tuple(args), kwargs)
    except Exception as error:
        return error

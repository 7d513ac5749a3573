"""Watches what a kernel in Triton's interpreter loads and stores."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np
import torch

from course_lib import runtime
from course_lib.instruments.traffic import OutOfRangeError


class BlockTooLargeError(ValueError):
    """A kernel loads more at once than a block."""


NO_OTHER = "a load with a mask has no other=: what it leaves out is undefined, and NaN in this check"


@contextlib.contextmanager
def watched_memory() -> Iterator[list[str]]:
    """Make Triton's interpreter as strict as a GPU should be taken to be; in other modes nothing is changed.

    A load, store or atomic operation outside the kernel's tensors raises OutOfRangeError. What a masked load without ``other`` leaves out
    is NaN. Yields a list in which notes on the latter are collected.
    """
    notes: list[str] = []
    if runtime.mode() != "interpreter":
        yield notes
        return
    from triton.runtime import interpreter

    builder, executor = type(interpreter.interpreter_builder), interpreter.GridExecutor
    load, store, arguments = builder.create_masked_load, builder.create_masked_store, executor._init_args_hst
    change, exchange = builder.create_atomic_rmw, builder.create_atomic_cas
    tensors: list[tuple[str, int, int, int]] = []

    def init(self: Any, args: Any, kwargs: Any) -> Any:
        host, named = arguments(self, args, kwargs)
        tensors[:] = _places({**dict(zip(self.arg_names, host)), **named})
        return host, named

    def look(what: str, pointers: Any, mask: Any) -> None:
        used = pointers.data[_used(pointers, mask)]
        if not used.size or not tensors:
            return
        for _, first, last, size in tensors:
            low, high = int(used.min()), int(used.max())
            if first <= low and high + size <= last:
                return
        outside = used
        for _, first, last, size in tensors:
            outside = outside[(outside < first) | (outside + size > last)]
        if not outside.size:
            return
        address = int(outside[0])
        name, first, last, size = min(tensors, key=lambda t: min(abs(address - t[1]), abs(address - t[2])))
        at, length = (address - first) // size, (last - first) // size
        raise OutOfRangeError(
            f"the kernel {what} element {at} of {name}, which has {length} ({outside.size} accesses beside all tensors): "
            "is a mask missing, or a row's length wrong?"
        )

    def watched_load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        look("reads", pointers, mask)
        found = load(self, pointers, mask, other, *rest, **named)
        left_out = ~_used(pointers, mask)
        if other is None and left_out.any() and np.issubdtype(found.data.dtype, np.floating):
            found.data[left_out] = np.nan
            notes[:] = [NO_OTHER]
        return found

    def watched_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        look("writes", pointers, mask)
        return store(self, pointers, value, mask, *rest, **named)

    def watched_change(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        look("changes", pointers, mask)
        return change(self, operation, pointers, value, mask, *rest)

    def watched_exchange(self: Any, pointers: Any, *rest: Any) -> Any:
        look("changes", pointers, np.True_)
        return exchange(self, pointers, *rest)

    with (
        mock.patch.multiple(builder, create_masked_load=watched_load, create_masked_store=watched_store),
        mock.patch.multiple(builder, create_atomic_rmw=watched_change, create_atomic_cas=watched_exchange),
        mock.patch.object(executor, "_init_args_hst", init),
    ):
        yield notes


def _places(arguments: Mapping[str, Any]) -> list[tuple[str, int, int, int]]:
    """Of a kernel's tensors the name, the first address, that behind the last, and the bytes of a number."""
    return [
        (name, x.data_ptr(), x.untyped_storage().data_ptr() + x.untyped_storage().nbytes(), x.element_size())
        for name, x in arguments.items()
        if isinstance(x, torch.Tensor)
    ]


def _used(pointers: Any, mask: Any) -> Any:
    """Which elements are loaded or stored; block pointers bring their mask as an array."""
    given = mask if isinstance(mask, np.ndarray | np.bool_) else mask.data
    return np.broadcast_to(given, pointers.data.shape).astype(bool)


@contextlib.contextmanager
def loads_of_at_most(numbers: int, block: str) -> Iterator[None]:
    """Inside, a load of more than ``numbers`` numbers raises BlockTooLargeError, which names the ``block``; in other modes none does.

    What an atomic operation gives back is loaded, too.
    """
    if runtime.mode() != "interpreter":
        yield
        return

    def look(pointers: Any, mask: Any) -> None:
        if pointers.data.size > numbers:
            raise BlockTooLargeError(f"a load brings more at once than a block, {block}: load block by block")

    with _each_load(look):
        yield


@contextlib.contextmanager
def _each_load(look: Callable[[Any, Any], None]) -> Iterator[None]:
    """Have ``look(pointers, mask)`` called before each load, and before each atomic operation: it gives back what was there."""
    from triton.runtime import interpreter

    builder = type(interpreter.interpreter_builder)
    load, change, exchange = builder.create_masked_load, builder.create_atomic_rmw, builder.create_atomic_cas

    def watched_load(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        look(pointers, mask)
        return load(self, pointers, mask, *rest, **named)

    def watched_change(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        look(pointers, mask)
        return change(self, operation, pointers, value, mask, *rest)

    def watched_exchange(self: Any, pointers: Any, *rest: Any) -> Any:
        look(pointers, np.True_)
        return exchange(self, pointers, *rest)

    with (
        mock.patch.object(builder, "create_masked_load", watched_load),
        mock.patch.multiple(builder, create_atomic_rmw=watched_change, create_atomic_cas=watched_exchange),
    ):
        yield


@contextlib.contextmanager
def stored() -> Iterator[list[int]]:
    """How many numbers each store of a kernel in Triton's interpreter writes; atomic additions are stores, too."""
    from triton.runtime import interpreter

    counts: list[int] = []
    builder = type(interpreter.interpreter_builder)
    store, add = builder.create_masked_store, builder.create_atomic_rmw

    def counted_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        counts.append(int(_used(pointers, mask).sum()))
        return store(self, pointers, value, mask, *rest, **named)

    def counted_add(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        counts.append(int(_used(pointers, mask).sum()))
        return add(self, operation, pointers, value, mask, *rest)

    with mock.patch.multiple(builder, create_masked_store=counted_store, create_atomic_rmw=counted_add):
        yield counts


@contextlib.contextmanager
def loaded() -> Iterator[dict[str, Any]]:
    """How often a kernel in Triton's interpreter loads each number of a tensor, an array by the name of its argument.

    Atomic operations load, too. A tensor that is not loaded has no array.
    """
    from triton.runtime import interpreter

    times: dict[str, Any] = {}
    tensors: list[tuple[str, int, int, int]] = []
    executor = interpreter.GridExecutor
    arguments = executor._init_args_hst

    def init(self: Any, args: Any, kwargs: Any) -> Any:
        host, named = arguments(self, args, kwargs)
        tensors[:] = _places({**dict(zip(self.arg_names, host)), **named})
        return host, named

    def look(pointers: Any, mask: Any) -> None:
        used = pointers.data[_used(pointers, mask)]
        for name, first, last, size in tensors:
            places = (used[(first <= used) & (used < last)].astype(np.int64) - first) // size
            if places.size:
                found = times.setdefault(name, np.zeros((last - first) // size, np.int64))
                found += np.bincount(places, minlength=found.size)

    with _each_load(look), mock.patch.object(executor, "_init_args_hst", init):
        yield times

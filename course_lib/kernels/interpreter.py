"""Triton's interpreter, spared six detours: half of the time, and the same results bit for bit."""

import dataclasses
import inspect
from typing import Any

from triton.runtime import interpreter as triton_interpreter


def speed_up() -> None:
    """Apply all of them, once; where a version of Triton lacks what one of them replaces, that one is left out."""
    patch_the_language_once()
    remember_types()
    remember_shapes()
    remember_builtins()
    remember_what_meets()
    skip_the_unread_check()


def remember_types() -> None:
    """Let each lookup of NumPy's type for one of Triton's build its table of all types once, and not every time."""
    stock = getattr(triton_interpreter, "_get_np_dtype", None)
    if stock is None or hasattr(stock, "stock"):
        return
    known: dict[str, Any] = {}

    def numpy_type(dtype: Any) -> Any:
        element = getattr(dtype, "element_ty", dtype) if dtype.is_block() else dtype
        if element.name not in known:
            known[element.name] = stock(element)
        return known[element.name]

    numpy_type.stock = stock  # type: ignore[attr-defined]
    triton_interpreter._get_np_dtype = numpy_type


def remember_shapes() -> None:
    """Let the type of a block and a tensor take what depends on their shape alone from the first of that shape.

    Each operation of a kernel makes several of both, and spends more on wrapping the numbers of their shapes than NumPy
    does on the operation.
    """
    from triton.language import core

    if hasattr(core.tensor.__init__, "stock"):
        return
    block_type, tensor = core.block_type.__init__, core.tensor.__init__
    types: dict[Any, dict[str, Any]] = {}
    tensors: dict[str, dict[str, Any]] = {}

    def make_type(self: Any, element_ty: Any, shape: Any) -> None:
        pointer = (
            (element_ty.const, element_ty.address_space) if element_ty.is_ptr() else None
        )  # its name need not tell
        key = element_ty.name, pointer, *[getattr(size, "value", size) for size in shape]
        if key in types:
            vars(self).update(types[key])
        else:
            block_type(self, element_ty, shape)
            types[key] = dict(vars(self))

    def make_tensor(self: Any, handle: Any, type: Any) -> None:
        if type.name in tensors:
            vars(self).update(tensors[type.name], handle=handle, type=type, dtype=type.scalar)
        else:
            tensor(self, handle, type)
            tensors[type.name] = {
                name: value for name, value in vars(self).items() if name not in ("handle", "type", "dtype")
            }

    make_type.stock, make_tensor.stock = block_type, tensor  # type: ignore[attr-defined]
    core.block_type.__init__, core.tensor.__init__ = make_type, make_tensor


def remember_builtins() -> None:
    """Let a launch replace the language's functions without a search for them through all names of its modules."""
    stock = getattr(triton_interpreter, "_patch_builtin", None)
    if stock is None or hasattr(stock, "stock") or not hasattr(triton_interpreter, "_LangPatchScope"):
        return
    from triton import language
    from triton.language import core

    places = (language, core, core.tensor, language.math, core.tensor_descriptor_base)
    known = {place: [name for name, x in inspect.getmembers(place) if core.is_builtin(x)] for place in places}

    def replaced(member: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            named["_semantic"] = triton_interpreter.interpreter_semantic
            return member(*args, **named)

        return call

    def patch(place: Any, builder: Any, scope: Any) -> None:
        if place not in known:
            stock(place, builder, scope)
            return
        for name in known[place]:
            member = getattr(place, name)
            if core.is_builtin(member):
                scope.set_attr(place, name, replaced(member))

    patch.stock = stock  # type: ignore[attr-defined]
    triton_interpreter._patch_builtin = patch


def remember_what_meets() -> None:
    """Let the operands of an operation find the shape that they have in common by their own two, once these have met.

    Two blocks of one shape, and two scalars, stay as they are.
    """
    semantic: Any = getattr(triton_interpreter, "interpreter_semantic", None)
    stock = getattr(semantic, "broadcast_impl_value", None)
    if stock is None or hasattr(stock, "stock"):
        return
    from triton.language import core

    builder = semantic.builder
    known: dict[Any, list[int]] = {}  # by two shapes, the one they have in common

    def spread(x: Any, shape: list[int]) -> Any:
        if x.type.shape.values == shape:
            return x
        return semantic.tensor(builder.create_broadcast(x.handle, shape), core.block_type(x.type.scalar, shape))

    def filled(x: Any, block: Any) -> Any:
        kind = block.with_element_ty(x.type.scalar)
        return semantic.tensor(builder.create_splat(kind, x.handle), kind)

    def broadcast(one: Any, other: Any) -> Any:
        left, right = one.type, other.type
        if not left.is_block():
            return (filled(one, right), other) if right.is_block() else (one, other)
        if not right.is_block():
            return one, filled(other, left)
        shapes = left.shape.values, right.shape.values
        if shapes[0] == shapes[1]:
            return one, other
        key = *shapes[0], None, *shapes[1]
        if key in known:
            return spread(one, known[key]), spread(other, known[key])
        found = stock(one, other)
        if len(shapes[0]) == len(shapes[1]):
            known[key] = list(found[0].type.shape)
        return found

    broadcast.stock = stock  # type: ignore[attr-defined]
    semantic.broadcast_impl_value = broadcast


def skip_the_unread_check() -> None:
    """Leave out the check of each sum and product of integers for overflow: only a debug build reads its result."""
    builder: Any = getattr(triton_interpreter, "interpreter_builder", None)
    options: Any = getattr(builder, "options", None)
    if getattr(options, "sanitize_overflow", False) and not getattr(options, "debug", True):
        builder.options = dataclasses.replace(options, sanitize_overflow=False)


def patch_the_language_once() -> None:
    """Let a kernel's calls of ``@triton.jit`` functions, ``tl.max`` and ``tl.sum`` among them, skip what is already done.

    To run a kernel in Python the interpreter replaces some two hundred functions of ``triton.language``, and does so anew
    for every function the kernel calls, every time. What is in place is left in place here.
    """
    stock = getattr(triton_interpreter, "_patch_lang", None)
    if stock is None or hasattr(stock, "stock"):
        return
    from triton import language
    from triton.language import core

    def patch(fn: Any) -> Any:
        modules = [x for x in fn.__globals__.values() if x is language or x is core]
        running = "__index__" in vars(core.tensor)  # there from a kernel's start to its end
        if running and modules and not any(core.is_builtin(module.load) for module in modules):
            return None
        return stock(fn)

    patch.stock = stock  # type: ignore[attr-defined]
    triton_interpreter._patch_lang = patch

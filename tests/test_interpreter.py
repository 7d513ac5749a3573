"""What the course changes in Triton's interpreter: the same results with the language replaced once a launch."""

import itertools
import re

import numpy as np
import pytest
import torch

from course_lib import runtime
from course_lib.kernels import tl, triton
from course_lib.kernels.loop_orders import flash_v2

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(runtime.mode() != "interpreter", reason="it is about Triton's interpreter"),
]


@triton.jit
def doubled(x):
    return 2 * x


@triton.jit
def calling_kernel(x_ptr, y_ptr, TIMES: tl.constexpr, FAILS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    for _ in range(TIMES):
        x = doubled(x) - tl.max(x)
    if FAILS:
        x += undefined_name  # noqa: F821
    tl.store(y_ptr + tl.arange(0, 16), x)


@pytest.fixture
def stock(monkeypatch):
    """Triton's own function and how often it is called, as the course calls it: the list grows."""
    from triton.runtime import interpreter

    from course_lib.kernels.interpreter import patch_the_language_once

    calls, own = [], interpreter._patch_lang.stock

    def counted(fn):
        calls.append(fn)
        return own(fn)

    monkeypatch.setattr(interpreter, "_patch_lang", counted)
    return calls, patch_the_language_once


def run(times=10, fails=False) -> torch.Tensor:
    x = torch.arange(16.0)
    y = torch.empty_like(x)
    calling_kernel[(3,)](x, y, times, fails)
    return y


def test_functions_that_a_kernel_calls_find_the_language_replaced(stock) -> None:
    calls, once = stock
    x, q = run(), torch.randn(1, 40, 16)
    output = flash_v2(q, q, q, 16, 16)
    slow = len(calls)
    once()
    calls.clear()
    assert torch.equal(run(), x)
    assert all(torch.equal(one, other) for one, other in zip(flash_v2(q, q, q, 16, 16), output))
    assert len(calls) <= 4 < slow / 10  # for each launch the kernel's own modules, and those of tl.max


def test_after_a_kernel_the_language_is_the_compilers_again() -> None:
    before = {name: vars(tl.tensor).get(name) for name in ("__index__", "__bool__", "T")} | {"load": tl.load}
    right = run()
    with pytest.raises(Exception, match="undefined_name"):
        run(fails=True)
    assert {name: vars(tl.tensor).get(name) for name in ("__index__", "__bool__", "T")} | {"load": tl.load} == before
    assert tl.core.is_builtin(tl.load)
    assert torch.equal(run(), right)


def test_types_are_looked_up_as_triton_does() -> None:
    from triton.runtime import interpreter

    names = (
        "int1 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 float8e5 float8e4nv"
    )
    for name in names.split():
        plain = getattr(tl, name)
        pointer = tl.pointer_type(plain)
        for dtype in (plain, tl.block_type(plain, [4]), pointer, tl.block_type(pointer, [4])):
            assert interpreter._get_np_dtype(dtype) == interpreter._get_np_dtype.stock(dtype), dtype


def test_blocks_and_tensors_are_made_as_triton_makes_them() -> None:
    core = tl.core
    shapes = ([4], [1, 16], [core.constexpr(4), 16], core.tuple([2, core.constexpr(8)]))
    elements = (tl.float16, tl.int32, tl.pointer_type(tl.float16), tl.pointer_type(tl.float16, const=True))
    elements += (tl.pointer_type(tl.float16, 3),)
    for types in ([tl.block_type(element, shape) for element in elements for shape in shapes], elements):
        for dtype in types * 2:
            made, tensor = core.tensor("handle", dtype), core.tensor.__new__(core.tensor)
            core.tensor.__init__.stock(tensor, "handle", dtype)
            assert (made.handle, made.type, made.dtype) == ("handle", dtype, tensor.dtype)
            assert (made.numel.value, [x.value for x in made.shape]) == (
                tensor.numel.value,
                [x.value for x in tensor.shape],
            )
            assert vars(made).keys() == vars(tensor).keys()
            if dtype.is_block():
                plain = core.block_type.__new__(core.block_type)
                core.block_type.__init__.stock(plain, dtype.element_ty, list(dtype.shape))
                assert (dtype.name, dtype.numel, list(dtype.shape)) == (plain.name, plain.numel, list(plain.shape))
                assert dtype == plain
                assert vars(dtype).keys() == vars(plain).keys()
    kinds = [tl.block_type(element, [4]).scalar for element in elements[:1:-1]]
    assert [(kind.const, kind.address_space) for kind in kinds] == [(False, 3), (True, 1), (False, 1)]
    with pytest.raises(TypeError, match="0d block_type"):
        tl.block_type(tl.float16, [])
    with pytest.raises(ValueError, match="power of 2"):
        tl.block_type(tl.float16, [3])


def test_operands_meet_as_in_tritons_own() -> None:
    from triton.runtime.interpreter import TensorHandle, interpreter_semantic

    meet, shapes = interpreter_semantic.broadcast_impl_value, ([], [8], [1, 8], [4, 1], [4, 8], [4], [1, 4, 8])
    made = []
    for element, dtype in ((tl.float32, "float32"), (tl.int64, "int64"), (tl.pointer_type(tl.float16), "uint64")):
        for shape in shapes:
            values = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape or [1])
            made.append(tl.tensor(TensorHandle(values, element), tl.block_type(element, shape) if shape else element))
    refused = 0
    for one, other in itertools.product(made, repeat=2):
        try:
            right = meet.stock(one, other)
        except ValueError as error:
            refused += 1
            with pytest.raises(ValueError, match=re.escape(str(error))):
                meet(one, other)
            continue
        for _ in range(2):  # the second time what they have in common is known
            for mine, its in zip(meet(one, other), right):
                assert (mine.type, mine.dtype, mine.handle.dtype) == (its.type, its.dtype, its.handle.dtype)
                assert mine.handle.data.dtype == its.handle.data.dtype
                assert mine.handle.data.shape == its.handle.data.shape
                assert (mine.handle.data == its.handle.data).all()
    assert refused > 20


def test_for_a_kernel_the_functions_are_replaced_that_triton_replaces() -> None:
    from triton.runtime import interpreter

    patch = interpreter._patch_builtin
    for place in (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base):
        replaced = []
        for function in (patch, patch.stock):
            scope = interpreter._LangPatchScope()
            function(place, interpreter.interpreter_builder, scope)
            replaced.append({name for _, name, _ in scope._changes})
            again = interpreter._LangPatchScope()
            function(place, interpreter.interpreter_builder, again)  # what is replaced is not replaced twice
            assert not again._changes
            scope.restore()
        assert replaced[0] == replaced[1]


@triton.jit
def large_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr + tl.arange(0, 16), x * x + x)


def test_integers_that_do_not_fit_wrap_around_as_in_tritons_own(monkeypatch) -> None:
    import dataclasses

    from triton.runtime.interpreter import interpreter_builder

    x = torch.arange(16, dtype=torch.int32) << 27
    outputs = []
    for checked in (False, True):
        monkeypatch.setattr(
            interpreter_builder, "options", dataclasses.replace(interpreter_builder.options, sanitize_overflow=checked)
        )
        outputs.append(torch.empty_like(x))
        large_kernel[(1,)](x, outputs[-1])
    assert torch.equal(*outputs)
    assert torch.equal(outputs[0], x * x + x)


def test_it_is_changed_once() -> None:
    from triton.runtime import interpreter

    from course_lib.kernels.interpreter import speed_up

    def changed() -> tuple:
        core = tl.core
        options = interpreter.interpreter_builder.options
        return (
            interpreter._patch_lang,
            interpreter._get_np_dtype,
            core.tensor.__init__,
            core.block_type.__init__,
            interpreter._patch_builtin,
            interpreter.interpreter_semantic.broadcast_impl_value,
            options,
        )

    once = changed()
    assert not once[-1].sanitize_overflow
    speed_up()
    assert all(one is other for one, other in zip(changed(), once))

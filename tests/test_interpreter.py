"""What the course changes in Triton's interpreter: the same results with the language replaced once a launch."""

import pytest
import torch

from course_lib import runtime
from course_lib.kernels import tl, triton
from course_lib.kernels.loop_orders import flash_v2

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(runtime.lane() != "interpreter", reason="it is about Triton's interpreter"),
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


def test_it_is_changed_once() -> None:
    from triton.runtime import interpreter

    from course_lib.kernels.interpreter import patch_the_language_once, remember_types

    changed = interpreter._patch_lang, interpreter._get_np_dtype
    patch_the_language_once()
    remember_types()
    assert (interpreter._patch_lang, interpreter._get_np_dtype) == changed

"""What a kernel of a student's may name, and what its loads and atomic operations are held to."""

import pytest
import torch

from course_lib import runtime
from course_lib.exercises.harness import accesses
from course_lib.exercises.page import plain_kernels
from course_lib.kernels import tl, triton

pytestmark = pytest.mark.skipif(runtime.mode() != "interpreter", reason="exercises run in Triton's interpreter")
BORROWED = [
    "from course_lib.kernels.matmul import _matmul_kernel as other",
    "from course_lib.kernels.portable.rows import _rows as other",
    "import course_lib.kernels.matmul as other",
    "from course_lib.kernels.launching import torch as other",
    "from course_lib.kernels import runtime as other",
    "import torch as other",
    "import numpy as other",
    "from triton.language import core as other",
    "from triton.language.core import builtins as other",
    "from triton.language.extra import modules as other",
    "from triton.language.math import wraps as other",
]
STRANGE = [
    "x = tl.extra.modules",
    "tl.math.wraps(x_ptr)(x_ptr)",
    "triton.compile(x_ptr)",
    "x = isinstance(1, tl.tensor)",
    "x = [1]",
    "x = (1,) == [1]",
    "x = print() is None",
    "tl.store(x_ptr, sum([i for i in range(3)]))",
    "other([1])",
]
OWN = {
    "import triton.language as tl": "tl.float32",
    "from triton.language import exp as other": "other",
    "from triton.language.extra import libdevice as other": "other",
    "from course_lib.kernels import LOG2E as other": "other",
    "from math import pi as other": "other",
    "import numpy as np": "np.pi",
}


def kept(line: str, used: str = "other") -> bool:
    text, _ = plain_kernels.plain(f"{line}\n@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, {used})\n")
    return "def kernel" in text


@pytest.mark.parametrize("line", STRANGE)
def test_a_kernel_reaches_no_module_and_cannot_tell_the_interpreter_from_the_compiler(line) -> None:
    assert "def kernel" not in plain_kernels.plain(f"@triton.jit\ndef kernel(x_ptr):\n    {line}\n")[0]


def test_lists_and_prints_stay_where_the_compiler_takes_them() -> None:
    lines = "    x = tl.zeros([16, 16], dtype=tl.float32)\n    print('x', x)\n    y = x.reshape([256])\n"
    assert plain_kernels.plain(f"@triton.jit\ndef kernel(x_ptr):\n{lines}")[1] == ""


@pytest.mark.parametrize("line", BORROWED)
def test_a_kernel_borrows_nothing_of_the_library_nor_of_python(line) -> None:
    assert not kept(line)


@pytest.mark.parametrize("line", OWN)
def test_a_kernel_has_tritons_functions_and_constants(line) -> None:
    assert kept(line, OWN[line])


@triton.jit
def add(x_ptr, n: tl.constexpr, at: tl.constexpr):
    tl.atomic_add(x_ptr + at + tl.arange(0, n), tl.zeros([n], tl.float32))


@triton.jit
def swap(x_ptr, n: tl.constexpr, at: tl.constexpr):
    tl.atomic_cas(x_ptr.to(tl.pointer_type(tl.int32)) + at, 0, 0)


@pytest.mark.parametrize("kernel", [add, swap])
def test_atomic_operations_stay_within_the_tensors(kernel) -> None:
    x = torch.zeros(32)
    with accesses.watched_memory():
        kernel[(1,)](x, 16, 16)
        for at in (-1, 32):
            with pytest.raises(triton.runtime.errors.InterpreterError, match="beside all tensors"):
                kernel[(1,)](x, 16, at)


def test_what_an_atomic_operation_gives_back_is_loaded() -> None:
    x = torch.zeros(32)
    with accesses.loaded() as numbers:
        add[(1,)](x, 16, 0)
        swap[(1,)](x, 16, 0)
    assert {name: int(times.sum()) for name, times in numbers.items()} == {"x_ptr": 17}
    with (
        accesses.loads_of_at_most(8, "eight"),
        pytest.raises(triton.runtime.errors.InterpreterError, match="block by block"),
    ):
        add[(1,)](x, 16, 0)

"""Triton's interpreter survives a wrong call, an interrupt and threads, and computes what it computes without the course's changes."""

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from course_lib import runtime
from course_lib.kernels import tl, triton

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


def run(times=3, fails=False) -> list[float]:
    x = torch.arange(16.0)
    y = torch.empty_like(x)
    calling_kernel[(2,)](x, y, times, fails)
    return y.tolist()


def expected(times=3) -> list[float]:
    x = torch.arange(16.0)
    for _ in range(times):
        x = 2 * x - x.max()
    return x.tolist()


MISTAKES = {
    "a kernel without its grid": "calling_kernel(torch.arange(16.0), torch.empty(16), 1, False)",
    "one of Triton's own functions": "print(triton.language.cdiv(100, 64))",
    "a kernel that fails": "run(fails=True)",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_after_a_wrong_call_kernels_run_as_before(mistake) -> None:
    program = f"""
        import torch, triton
        from test_interpreter import calling_kernel, expected, run
        from course_lib.kernels.online import flash_online
        for _ in range(2):
            try:
                {MISTAKES[mistake]}
            except Exception as error:
                print(type(error).__name__)
            assert run() == expected()
            q = torch.randn(20, 16)
            torch.testing.assert_close(flash_online(q, q, q), torch.softmax(q @ q.T / 4, 1) @ q)
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((os.path.dirname(__file__), os.getcwd()))},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr[-2000:]


def test_after_interrupts_kernels_run_as_before() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for i in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (i + 1))
                run(40)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            assert run() == expected()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 20


def test_threads_launch_one_after_another() -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: run(), range(48)))
    assert found == [expected()] * 48


def test_integers_that_do_not_fit_wrap_around_as_without_the_change(monkeypatch) -> None:
    import dataclasses

    from triton.runtime.interpreter import interpreter_builder

    outputs = []
    for checked in (False, True):
        options = dataclasses.replace(interpreter_builder.options, sanitize_overflow=checked)
        monkeypatch.setattr(interpreter_builder, "options", options)
        outputs.append(large())
    assert outputs[0] == outputs[1]


@triton.jit
def large_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr + tl.arange(0, 16), x * x + x)


def large() -> list[int]:
    x = torch.arange(16, dtype=torch.int32) << 27
    y = torch.empty_like(x)
    large_kernel[(1,)](x, y)
    assert torch.equal(y, x * x + x)
    return y.tolist()

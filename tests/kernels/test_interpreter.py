"""Triton's interpreter survives a wrong call, an interrupt and threads, and wraps integers around as without the course's changes."""

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


def run(times=3, fails=False, dtype=torch.float32) -> list[float]:
    x = torch.arange(16, dtype=dtype) << 27 if dtype == torch.int32 else torch.arange(16, dtype=dtype)
    y = torch.empty_like(x)
    calling_kernel[(2,)](x, y, times, fails)
    return y.tolist()


def expected(times=3, dtype=torch.float32) -> list[float]:
    x = torch.arange(16, dtype=dtype) << 27 if dtype == torch.int32 else torch.arange(16, dtype=dtype)
    for _ in range(times):
        x = 2 * x - x.max()
    return x.tolist()


MISTAKES = [
    "calling_kernel(torch.arange(16.0), torch.empty(16), 1, False)",  # without its grid
    "triton.language.cdiv(100, 64)",
    "run(fails=True)",
]


def test_after_wrong_calls_kernels_run_as_before() -> None:
    program = f"""
        import torch, triton
        from test_interpreter import calling_kernel, expected, run
        from course_lib.kernels.online import flash_online
        for mistake in {MISTAKES} * 2:
            try:
                eval(mistake)
            except Exception as error:
                print(type(error).__name__)
            assert run() == expected(), mistake
            q = torch.randn(20, 16)
            torch.testing.assert_close(flash_online(q, q, q), torch.softmax(q @ q.T / 4, 1) @ q)
    """
    path = os.pathsep.join((os.path.dirname(__file__), os.getcwd()))
    command = [sys.executable, "-c", textwrap.dedent(program)]
    told = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
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


def test_threads_launch_one_after_another_and_integers_wrap_around() -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: run(), range(48)))
    assert found == [expected()] * 48
    assert run(dtype=torch.int32) == expected(dtype=torch.int32)

"""Kernels whose warps differ in their work, while processes share a GPU: each is interrupted in mid-course, and must go on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import runtime

pytestmark = pytest.mark.kernel

PROCESSES, SECONDS = 6, 10
ATTEND = """
import time
import torch
from course_lib.attention import attention
torch.manual_seed(0)
q, k, v = (torch.randn(16, 32, 1024, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
first = attention(q, k, v, causal=True)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    for _ in range(20):
        o = attention(q, k, v, causal=True)
    assert torch.equal(o, first)
"""
MULTIPLY = """
import time
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""


@pytest.mark.skipif(runtime.mode() != "GPU" or runtime.architecture() != 90, reason="needs a Hopper GPU")
def test_kernels_end_when_processes_share_a_gpu() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program.format(seconds=SECONDS)],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for program in [ATTEND, MULTIPLY] * PROCESSES
    ]  # fmt: skip
    try:
        for process in started:
            _, said = process.communicate(timeout=SECONDS + 90)  # the start of so many takes up to a minute
            assert process.returncode == 0, said
    finally:
        for process in started:
            process.kill()
            process.wait()

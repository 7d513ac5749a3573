"""Kernels whose warps differ in their work, while processes share a GPU: each is interrupted in mid-course, and must go on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import runtime

pytestmark = pytest.mark.kernel

PROCESSES, SECONDS = 6, 10
SHAPES = {  # of q, k and v; whether causal; whether backward, too
    "short causal rows": ((16, 32, 1024, 64), True, False),
    "long rows in turns": ((4, 32, 4096, 64), False, False),
    "backward": ((4, 16, 2048, 128), True, True),
}
ATTEND = """
import time
import torch
from course_lib.attention import attention
torch.manual_seed(0)
q, k, v = (torch.randn(*{shape}, device="cuda", dtype=torch.bfloat16, requires_grad={backward}) for _ in range(3))
def call():
    o = attention(q, k, v, causal={causal})
    return torch.autograd.grad(o, v, o.detach())[0] if {backward} else o
first = call()
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    for _ in range(20):
        found = call()
    assert torch.equal(found, first)
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
@pytest.mark.parametrize("kind", SHAPES)
def test_kernels_end_when_processes_share_a_gpu(kind) -> None:
    shape, causal, backward = SHAPES[kind]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program.format(seconds=SECONDS, shape=shape, causal=causal, backward=backward)],
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

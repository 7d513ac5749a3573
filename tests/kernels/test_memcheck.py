"""The Hopper and 8-bit kernels and attention() under compute-sanitizer's memcheck: no access outside of what was allocated.

Tiles fewer and more than SMs, ragged, causal or not; attention() with head sizes between those of its blocks.
"""

import os
import shutil
import subprocess
import sys

import pytest

from course_lib import runtime

pytestmark = pytest.mark.kernel
TOOL = shutil.which("compute-sanitizer")
HOPPER = runtime.mode() == "GPU" and runtime.architecture() == 90
RUN = """
import sys, torch
from course_lib.attention import attention
from course_lib.kernels import eight_bit, operands
from course_lib.kernels.hopper import forward, pieces
name = sys.argv[1]
for d in (72, 104) if name == "attention()" else (64, 128):
    for b, n_q, n_k in ((2, 339, 203), (2, 128, 512), (2, 1, 130), (50, 530, 530)):
        for causal in (False, True):
            q, k, v = (torch.randn(b, h, n, d, device="cuda", dtype=torch.bfloat16) for h, n in ((4, n_q), (2, n_k), (2, n_k)))
            if name == "attention()":
                attention(q, k, v, causal=causal)
            elif name in eight_bit.KERNELS:
                eight_bit.forward(operands.quantise(q, k, v, torch.ones(d)), causal, causal * (n_k - n_q), name)
            elif name != "pieces":
                forward(name, q, k, v, causal, causal * (n_k - n_q))
            torch.cuda.synchronize()
if name == "pieces":
    x = torch.randn(132 * 64 * 5, 64, device="cuda", dtype=torch.bfloat16)
    pieces.tma_copy(x[:1000])
    pieces.wgmma_matmul(x[:64], x[:128])
    pieces.ring_sums(x, 3)
    torch.cuda.synchronize()
print("done")
"""
NAMES = [
    "Online", "causal block skipping", "TMA", "persistent", "specialised", "overlap", "ping-pong", "late wait", "pieces",
    "attention()", "Hopper", "Triton",
]  # fmt: skip


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")
@pytest.mark.parametrize("name", NAMES)
def test_no_access_out_of_bounds(name) -> None:
    if TOOL is None:
        pytest.fail("compute-sanitizer is missing: it comes with the CUDA toolkit; put its bin folder into PATH")
    command = [TOOL, "--tool", "memcheck", "--error-exitcode", "7", sys.executable, "-c", RUN, name]
    # torch's allocator hands out parts of large blocks; without it each tensor has bounds of its own.
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "done" in done.stdout
    assert "ERROR SUMMARY: 0 errors" in done.stdout

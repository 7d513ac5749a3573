"""Every kernel of lecture 10 under compute-sanitizer's memcheck: no access outside of what was allocated. Needs a GPU."""

import os
import shutil
import subprocess
import sys

import pytest

from course_lib import runtime

pytestmark = pytest.mark.kernel
TOOL = shutil.which("compute-sanitizer")
HOPPER = runtime.lane() == "GPU" and runtime.architecture() == 90
RUN = """
import sys, torch
from course_lib.kernels.hopper import RUNGS, forward
for d in (64, 128):
    for n_q, n_k in ((339, 203), (128, 512), (1, 130)):
        for causal in (False, True):
            q, k, v = (torch.randn(2, h, n, d, device="cuda", dtype=torch.bfloat16) for h, n in ((4, n_q), (2, n_k), (2, n_k)))
            forward(sys.argv[1], q, k, v, causal, n_k - n_q)
            torch.cuda.synchronize()
print("done")
"""


@pytest.mark.skipif(not HOPPER or TOOL is None, reason="needs a Hopper GPU and compute-sanitizer")
@pytest.mark.parametrize("rung", ["Online", "split", "TMA", "persistent", "specialised", "overlap", "ping-pong"])
def test_no_access_out_of_bounds(rung) -> None:
    command = [str(TOOL), "--tool", "memcheck", "--error-exitcode", "7", sys.executable, "-c", RUN, rung]
    # torch's allocator hands out parts of large blocks; without it each tensor has bounds of its own.
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "done" in done.stdout
    assert "ERROR SUMMARY: 0 errors" in done.stdout

"""The modes, each in a fresh process: they are decided once, before triton is imported."""

import os
import re
import subprocess
import sys

import torch

from course_lib import runtime

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | NO_GPU | environment
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


def test_without_a_gpu_the_interpreter_is_chosen_before_triton_is_imported() -> None:
    code = (
        "import sys, torch, course_lib.runtime as r; assert 'triton' not in sys.modules\n"
        "from course_lib.kernels.softmax import online_softmax as f; print(f(torch.zeros(1, 4)).tolist()); print(r.setup())"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    first, mode, device, versions = done.stdout.splitlines()[:4]
    assert first == "[[0.25, 0.25, 0.25, 0.25]]"  # kernels choose by themselves
    assert mode.startswith("mode: interpreter")
    assert device.startswith("device: CPU")
    assert f"torch {torch.__version__}" in versions


def test_a_script_that_imports_triton_too_early_does_what_it_is_told() -> None:
    code = (
        "import triton, torch\nfrom course_lib.attention import attention\nx = torch.ones(1, 1, 4, 16)\n"
        "print(attention(x, x, x).sum())"
    )
    done = run(code)
    assert done.returncode != 0
    assert "triton was imported before course_lib chose interpreter mode" in done.stderr
    (name, value) = re.search(r"(\w+)=(\d)", done.stderr.partition("ModeError")[2]).groups()
    assert run(code, **{name: value}).stdout.strip() == "tensor(64.)"


HIDE_TRITON = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "triton" else real(name, *rest)
import sys
sys.modules["triton"] = None
"""


def test_without_triton_everything_but_a_kernel_call_works() -> None:
    code = f"""{HIDE_TRITON}
import torch
from course_lib import runtime
from course_lib.model import softmax
from course_lib.kernels.softmax import online_softmax
print(runtime.setup().mode, softmax.offline(torch.zeros(2)).tolist())
try:
    online_softmax(torch.zeros(1, 4))
except runtime.KernelsUnavailableError as error:
    print(error)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no kernels [0.5, 0.5]\n")
    assert "this needs Triton, which is not installed here" in done.stdout


def test_setup_seeds() -> None:
    runs = []
    for _ in "ab":
        runtime.setup(seed=3)
        runs.append(torch.randn(3))
    assert torch.equal(*runs)

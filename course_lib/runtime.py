"""Which mode this machine is in, decided before triton is imported.

- GPU mode: Triton compiles the kernels and they run on the CUDA device;
- interpreter mode: Triton's interpreter runs the same kernels on the CPU (slow; sizes up to N = 1024);
- no kernels: triton is not installed (it has no wheels for macOS and Windows). Everything that needs no kernel works.

Set the environment variable TRITON_INTERPRET=1 to choose the interpreter on a machine that has a GPU.
"""

import functools
import importlib.util
import os
import platform
import random
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import torch

Mode = Literal["GPU", "interpreter", "no kernels"]

TOO_EARLY = (
    "triton was imported before course_lib chose interpreter mode, so its kernels would look for a GPU that is not there.\n"
    "In a notebook, restart the kernel (Kernel > Restart) and make this the first cell:\n\n"
    "    from course_lib.runtime import setup\n"
    "    setup()\n\n"
    "In a script, import course_lib.attention before whatever imports triton (transformers, say), or set the environment\n"
    "variable TRITON_INTERPRET=1 before Python starts."
)
NO_TRITON = (
    "this needs Triton, which is not installed here: it has wheels for Linux only (this is {system}).\n"
    "Pages without kernels work as they are. To run the kernels, use Linux: WSL2 on Windows, a container on macOS\n"
    "(docs/installing.md), or any Linux machine; a GPU is not needed."
)


class KernelsUnavailableError(RuntimeError):
    """A kernel was asked for on a machine without Triton; the message says what to do."""


class ModeError(RuntimeError):
    """Triton was imported too early, in the wrong mode; the message says what to put first."""


class Runtime(NamedTuple):
    """What ``setup()`` found; its text is what the first cell of each lecture prints."""

    mode: Mode
    device: str
    versions: dict[str, str]

    def __repr__(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"mode: {self.mode} ({_MODE_TEXT[self.mode]})\ndevice: {self.device}\nversions: {versions}"


_MODE_TEXT = {
    "GPU": "kernels are compiled and run on the GPU",
    "interpreter": "no GPU needed: Triton's interpreter runs the kernels on the CPU",
    "no kernels": "Triton is not installed; pages without kernels work",
}


@functools.cache
def mode() -> Mode:
    """The mode of this process: decided at the first call, the same ever after.

    Raises ModeError if triton was imported before, in a mode that cannot work here.
    """
    if importlib.util.find_spec("triton") is None:
        return "no kernels"
    wants_interpreter = os.environ.get("TRITON_INTERPRET", "0") == "1"
    if torch.cuda.is_available() and not wants_interpreter:
        return "GPU"
    if "triton" in sys.modules and not _imported_for_interpreter():
        raise ModeError(TOO_EARLY)
    os.environ["TRITON_INTERPRET"] = "1"
    return "interpreter"


def _imported_for_interpreter() -> bool:
    """Whether the triton that is already imported was built for its interpreter.

    ``triton.language`` wraps its own helpers (``tl.sum`` and the like) at import, once and for all.
    """
    import triton

    return type(triton.language.sum).__name__ == "InterpretedFunction"


def device() -> torch.device:
    """Where kernels and their tensors live in this mode."""
    return torch.device("cuda" if mode() == "GPU" else "cpu")


@functools.cache
def architecture(device: torch.device | None = None) -> int:
    """The GPU's compute capability as one number: 80 for an A100, 90 for an H100 or H200, 120 for a GeForce 50."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


@functools.cache
def multiprocessors(device: torch.device | None = None) -> int:
    """The number of SMs of the GPU; 132, an H200's, where there is none."""
    return torch.cuda.get_device_properties(device).multi_processor_count if mode() == "GPU" else 132


def cache_folder() -> Path:
    """Where compiled things are kept: flash-attention-course in $XDG_CACHE_HOME or ~/.cache. It need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flash-attention-course"


def require_kernels() -> None:
    """Raise KernelsUnavailableError, with what to do, where Triton is missing; choose the mode otherwise."""
    if mode() == "no kernels":
        raise KernelsUnavailableError(NO_TRITON.format(system=platform.system()))


def setup(seed: int = 0) -> Runtime:
    """Choose the mode, seed Python's and torch's random numbers, set the figures' style; the first cell of a lecture."""
    chosen = mode()
    random.seed(seed)
    torch.manual_seed(seed)
    # Imported here: style loads matplotlib, which a plain `import course_lib.runtime` should not cost.
    from course_lib.show import style

    style.use_style()
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    if chosen != "no kernels":
        versions["triton"] = version("triton")
    name = torch.cuda.get_device_name() if chosen == "GPU" else f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    return Runtime(chosen, name, versions)

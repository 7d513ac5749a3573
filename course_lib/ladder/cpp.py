"""The C++ rungs: compiled by this machine's compiler when first asked for, cached, loaded with ctypes."""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import torch

from course_lib import checks, runtime
from course_lib.files import write_atomically
from course_lib.ladder.python import node_count

SOURCE = Path(__file__).parent / "attention.cpp"
FLAGS = {"-O2": ("-O2",), "-O3": ("-O3", "-march=native")}
MOST_NODES = 20_000_000  # with what the heap adds, some 72 bytes each: 1.4 gigabytes


class CompilerMissingError(RuntimeError):
    """This machine has no C++ compiler; the message says how to get one."""


class CppCompileError(RuntimeError):
    """The compiler refused the source; the message holds the command and what the compiler said."""


def compiler() -> str:
    """The path of the C++ compiler: $CXX, or c++, g++, clang++, whichever is there. Raises CompilerMissingError."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["c++", "g++", "clang++"]:
        if path := shutil.which(name):
            return path
    if wanted:
        raise CompilerMissingError(
            f"CXX is {wanted!r}, which is not a program here; unset CXX or set it to a C++ compiler"
        )
    raise CompilerMissingError(
        "no C++ compiler (c++, g++ or clang++) is on the PATH; install one: 'apt install g++' on Debian and Ubuntu, "
        "'xcode-select --install' on macOS, 'conda install gxx' in a conda environment"
    )


def _run(command: list[str], input: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CppCompileError(f"{' '.join(command)} did not run: {error}") from None
    if done.returncode:
        raise CppCompileError(f"{' '.join(command)}\n{done.stderr.strip()[-2000:]}")
    return done.stdout


@functools.cache
def library(level: str, source: Path = SOURCE) -> ctypes.CDLL:
    """The compiled library for '-O2' or '-O3' (which is -O3 -march=native).

    It is kept in the cache folder under a name made of the source, the compiler and the instructions that this CPU has.
    A folder that cannot be written costs a warning and the compilation in each process. Raises ValueError,
    CompilerMissingError, CppCompileError.
    """
    checks.one_of("level", level, list(FLAGS))
    command = [compiler(), *FLAGS[level], "-std=c++17", "-shared", "-fPIC"]
    about_cpu = _run([*command[: 1 + len(FLAGS[level])], "-dM", "-E", "-x", "c++", "-"], input="")
    key = hashlib.sha256("\0".join([*command, about_cpu, source.read_text(encoding="utf-8")]).encode()).hexdigest()[:16]
    kept = runtime.cache_folder() / f"attention-{key}.so"
    ready = kept if kept.exists() else _compiled([*command, str(source)], kept)
    try:
        loaded = ctypes.CDLL(str(ready))
    except OSError as error:
        raise CppCompileError(f"{ready} was compiled but cannot be loaded: {error}") from None
    for name in ("attention_nodes", "try_attention_flat"):
        function = getattr(loaded, name)
        function.argtypes, function.restype = [ctypes.c_void_p] * 4 + [ctypes.c_long] * 3, ctypes.c_long
    loaded.value_bytes.restype = ctypes.c_long
    return loaded


def _compiled(command: list[str], kept: Path) -> Path:
    """Compile to ``kept``, or, where it cannot be written, into a folder of this process; the path."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, kept.name)
        _run([*command, "-o", str(made)])
        content = made.read_bytes()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, content)
    except OSError as error:
        kept = Path(tempfile.mkdtemp(), kept.name)
        kept.write_bytes(content)
        warnings.warn(
            f"the cache folder cannot be written ({error}); the C++ code is compiled for this process only. "
            "Set XDG_CACHE_HOME to a folder that can be written",
            stacklevel=3,
        )
    return kept


def sizes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[int, int, int]:
    """(Nq, Nk, d). Raises TypeError or ValueError unless q [Nq, d], k and v [Nk, d] belong together."""
    n_q, n_k, d, d_v = checks.attention_shapes(q, k, v)
    if d_v != d:
        raise ValueError(f"v has head dimension {d_v} but q and k have {d}; the rungs need them equal")
    return n_q, n_k, d


def _run_on(name: str, level: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, int]:
    """(o, what the C++ function returns). Raises TypeError for what it, which sees addresses only, cannot take."""
    shape = sizes(q, k, v)
    for letter, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype != torch.float64 or x.device.type != "cpu" or not x.is_contiguous():
            raise TypeError(
                f"{letter} is {x.dtype} on {x.device} with strides {list(x.stride())}; the C++ rungs take contiguous float64 on the "
                f"CPU: pass {letter}.double().cpu().contiguous()"
            )
    o = torch.empty_like(q)
    found = getattr(library(level), name)(*(x.data_ptr() for x in (q, k, v, o)), *shape)
    if found < 0:
        raise MemoryError("the C++ code could not allocate the memory that it needs; pass fewer rows")
    return o, found


def attention_nodes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, int]:
    """(o, number of nodes made), q [Nq, d], k and v [Nk, d] in float64: one heap-allocated node for each number.

    Raises ValueError for shapes that make more than MOST_NODES, MemoryError where memory runs out before.
    """
    n_q, n_k, d = sizes(q, k, v)
    if (nodes := node_count(n_q, n_k, d)) > MOST_NODES:
        raise ValueError(
            f"q is [{n_q}, {d}] and k [{n_k}, {d}], which makes {nodes:,} nodes; pass shapes that make at most {MOST_NODES:,}, "
            "for example q[:256], k[:256] and v[:256]"
        )
    return _run_on("attention_nodes", "-O2", q, k, v)


def attention_flat(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, level: str = "-O2") -> torch.Tensor:
    """o [Nq, d], q [Nq, d], k and v [Nk, d] in float64: loops over flat arrays. Raises MemoryError where memory runs out."""
    return _run_on("try_attention_flat", level, q, k, v)[0]

"""The C++ rungs: compiled by this machine's compiler when first asked for, cached, loaded with ctypes."""

import ctypes
import functools
import hashlib
import math
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import torch

from course_lib import checks, runtime
from course_lib.ladder.python import node_count

SOURCE = Path(__file__).parent / "attention.cpp"
FLAGS = {"-O2": ("-O2",), "-O3": ("-O3", "-march=native")}
MOST_NODES = 20_000_000  # with what the heap adds, some 72 bytes each: 1.4 gigabytes
MOST_PRODUCTS = 2**34  # some 20 seconds, in which no Ctrl+C is heard


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

    It is kept in the cache folder under a name made of the source, the compiler and the instructions that this CPU has, and of
    its own bytes: a file that something has cut short is not loaded, which would end the process, but made anew.
    A folder that cannot be written costs a warning and the compilation in each process. Raises ValueError,
    CompilerMissingError, CppCompileError.
    """
    checks.one_of("level", level, list(FLAGS))
    command = [compiler(), *FLAGS[level], "-std=c++17", "-shared", "-fPIC"]
    about_cpu = _run([*command[: 1 + len(FLAGS[level])], "-dM", "-E", "-x", "c++", "-"], input="")
    key = hashlib.sha256("\0".join([*command, about_cpu, source.read_text(encoding="utf-8")]).encode()).hexdigest()[:16]
    kept = [path for path in runtime.cache_folder().glob(f"attention-{key}-*.so") if path.name == _named(key, path)]
    ready = kept[0] if kept else _compiled([*command, str(source)], key)
    try:
        return _declared(ctypes.CDLL(str(ready)))
    except OSError as error:
        raise CppCompileError(f"{ready} was compiled but cannot be loaded: {error}") from None


def _named(key: str, path: Path) -> str:
    return f"attention-{key}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.so"


def _compiled(command: list[str], key: str) -> Path:
    """Compile into the cache folder, or, where it cannot be written, into a folder of this process; the path."""
    home = runtime.cache_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=home)
    except OSError as error:
        folder = tempfile.mkdtemp()
        home = Path(folder)
        warnings.warn(
            f"the cache folder cannot be written ({error}); the C++ code is compiled for this process only. "
            "Set XDG_CACHE_HOME to a folder that can be written",
            stacklevel=3,
        )
    partial = Path(folder) / "partial.so"
    try:
        _run([*command, "-o", str(partial)])
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        return partial.replace(home / _named(key, partial))
    finally:
        if home != Path(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    array, size = ctypes.c_void_p, ctypes.c_long
    for name in ("attention_nodes", "try_attention_flat"):
        function = getattr(loaded, name)
        function.argtypes, function.restype = [array] * 4 + [size] * 3, size
    loaded.value_bytes.restype = size
    return loaded


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[int, int, int]:
    """(Nq, Nk, d). Raises TypeError or ValueError for what the C++ code, which sees addresses only, cannot take."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.float_tensor(name, x, ndim=2, look_inside=False)
    n_q, n_k, d, d_v = checks.attention_shapes(q, k, v)
    if d_v != d:
        raise ValueError(f"v has head dimension {d_v} but q and k have {d}; the rungs need them equal")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype != torch.float64 or x.device.type != "cpu" or not x.is_contiguous():
            raise TypeError(
                f"{name} is {x.dtype} on {x.device} with strides {list(x.stride())}; the C++ rungs take contiguous float64 on the "
                f"CPU: pass {name}.double().cpu().contiguous()"
            )
    return n_q, n_k, d


def _check_nodes(sizes: tuple[int, int, int]) -> None:
    if (nodes := node_count(*sizes)) > MOST_NODES:
        n_q, n_k, d = sizes
        raise ValueError(
            f"q is [{n_q}, {d}] and k [{n_k}, {d}], which makes {nodes:,} nodes; pass shapes that make at most {MOST_NODES:,}, "
            "for example q[:256], k[:256] and v[:256]"
        )


def _done(result: int) -> int:
    if result < 0:
        raise MemoryError("the C++ code could not allocate the memory that it needs; pass fewer rows")
    return result


def _pointers(*tensors: torch.Tensor) -> list[int]:
    return [x.data_ptr() for x in tensors]


def attention_nodes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, level: str = "-O2") -> tuple[torch.Tensor, int]:
    """(o, number of nodes made), q [Nq, d], k and v [Nk, d] in float64: one heap-allocated node for each number.

    Raises ValueError for shapes that make more than MOST_NODES, MemoryError where memory runs out before.
    """
    checks.one_of("level", level, list(FLAGS))
    sizes = _check(q, k, v)
    _check_nodes(sizes)
    o = torch.empty_like(q)
    return o, _done(library(level).attention_nodes(*_pointers(q, k, v, o), *sizes))


def attention_flat(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, level: str = "-O2") -> torch.Tensor:
    """o [Nq, d], q [Nq, d], k and v [Nk, d] in float64: loops over flat arrays.

    Raises ValueError for shapes with more than MOST_PRODUCTS = Nq · Nk · d, MemoryError where memory runs out.
    """
    checks.one_of("level", level, list(FLAGS))
    sizes = _check(q, k, v)
    if (products := math.prod(sizes)) > MOST_PRODUCTS:
        raise ValueError(
            f"q is {list(q.shape)} and k {list(k.shape)}, which takes Nq · Nk · d = {products:,} products; pass shapes that take at "
            f"most {MOST_PRODUCTS:,}"
        )
    o = torch.empty_like(q)
    _done(library(level).try_attention_flat(*_pointers(q, k, v, o), *sizes))
    return o

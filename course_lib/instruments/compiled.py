"""What the compiler says of a kernel, without a GPU: shared memory, registers, spills, matrix instructions.

    inspect(flash_online, matrix(1024, 64), matrix(1024, 64), matrix(1024, 64), block_m=128, arch=90)

The launcher runs in a process of its own (fork_server.py) in which every kernel launch is caught and compiled for sm_80 or sm_90 instead of
run. Only shapes and dtypes matter, so the tensors may be on the meta device: ``matrix`` makes one. Answers are cached.
"""

import contextlib
import hashlib
import io
import json
import pickle
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from course_lib import checks, data, runtime
from course_lib.files import write_atomically
from course_lib.instruments import assembly, fork_server, measure
from course_lib.instruments.assembly import CompileError

ARCHITECTURES = {80: "A100", 90: "H100 and H200"}


class Compiled(NamedTuple):
    """The compiler's report on one kernel. Sizes in bytes; registers for each thread; instruction counts are static.

    warp_grid: how the warps share a matmul on tensor cores, '4×1' for four times the rows; '' without tensor cores.
    load_bytes: the widths of a thread's loads from HBM, bytes, widest first. instructions: how often each opcode of PTX
    stands in the program. serialised_wgmma: the assembler put a wait after each wgmma, because something else touches
    the registers of one that is under way. order: what comes when in the loop over keys of an attention kernel for sm_90,
    in 'PTX' and in 'machine code' (``assembly.order_in_loop``); empty for other kernels.
    """

    kernel: str
    arch: int
    shared_bytes: int
    registers: int
    spilled_bytes: int
    serialised_wgmma: bool
    mma: int
    wgmma: int
    threads: int
    warp_grid: str
    load_bytes: list[int]
    instructions: dict[str, int]
    order: dict[str, str]

    def count(self, opcode: str) -> int:
        """How many instructions stand in the program whose opcode begins so: 'ex2' for all powers of two."""
        return sum(times for name, times in self.instructions.items() if name.startswith(opcode))

    def fits(self, gpu: data.Gpu) -> bool:
        """Whether a block's shared memory is within what ``gpu`` gives to one."""
        return self.shared_bytes <= gpu.shared_bytes_per_block


def matrix(rows: int, cols: int, dtype: torch.dtype = torch.float16, heads: int | None = None) -> torch.Tensor:
    """A stand-in for a [rows, cols] or [heads, rows, cols] tensor: a shape and a dtype without numbers."""
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"dtype is {checks.shown(dtype)} ({type(dtype).__name__}); pass one of torch's, for example torch.float16"
        )
    shape = [checks.whole("rows", rows, 1, 2**31), checks.whole("cols", cols, 1, 2**16)]
    if heads is not None:
        shape.insert(0, checks.whole("heads", heads, 1, 2**16 - 1))
    return torch.empty(shape, dtype=dtype, device="meta")


def inspect(launcher: Callable[..., Any], *args: Any, arch: int = 90, **kwargs: Any) -> Compiled:
    """Compile the (last) kernel that ``launcher(*args, **kwargs)`` launches, for sm_80 or sm_90.

    Raises ValueError for another architecture and a launcher that launches nothing or that no module has, the launcher's own errors for bad
    arguments, CompileError if the compiler gives up, KernelsUnavailableError without Triton. The first answer takes seconds; it is cached.
    """
    return inspect_all([(launcher, args, kwargs)], arch)[0]


def inspect_all(
    calls: Sequence[tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]], arch: int = 90
) -> list[Compiled]:
    """As ``inspect`` for many (launcher, args, kwargs); a bar shows how many are compiled of those that are not cached."""
    checks.one_of("arch", arch, list(ARCHITECTURES))
    for launcher, _, _ in calls:
        _importable(launcher)
    runtime.require_kernels()
    keys = [_key(launcher, args, kwargs, arch) for launcher, args, kwargs in calls]
    found = {key: answer for key in keys if (answer := _read(key))}
    missing = [i for i, key in enumerate(keys) if key not in found]
    for i in missing if len(missing) < 2 else measure.progress(missing, "compiling"):
        found[keys[i]] = _compile_in_child(calls[i], arch)
        _keep(keys[i], found[keys[i]])
    return [found[key] for key in keys]


def _importable(launcher: Any) -> None:
    checks.function("launcher", launcher)
    try:
        pickle.dumps(launcher)
        found = hasattr(launcher, "__qualname__") and launcher.__module__ != "__main__"
    except (pickle.PicklingError, AttributeError, TypeError):
        found = False
    if not found:
        raise ValueError(
            f"launcher is {checks.shown(launcher)}, which another process cannot import; pass a function that stands in a module"
        )


# --- the cache ---


def _kept(key: str) -> Path:
    return runtime.cache_folder() / "compiled" / f"{key}.json"


def _read(key: str) -> Compiled | None:
    """The answer that is kept; one that something else wrote, or cut short, is made anew."""
    try:
        return Compiled(*json.loads(_kept(key).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _keep(key: str, answer: Compiled) -> None:
    """A folder that cannot be written only costs the next caller its seconds again."""
    with contextlib.suppress(OSError):
        _kept(key).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_kept(key), json.dumps(answer))


def _describe(x: Any) -> Any:
    if isinstance(x, tuple):
        return [_describe(y) for y in x]
    if isinstance(x, torch.dtype):
        return str(x)
    return ["tensor", list(x.shape), str(x.dtype), list(x.stride())] if isinstance(x, torch.Tensor) else x


def _key(launcher: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], arch: int) -> str:
    """All that the answer depends on: the launcher's file and those of the kernels, the call, the compiler."""
    files = [Path(str(sys.modules[name].__file__)) for name in (launcher.__module__, __name__, assembly.__name__)]
    files += sorted(Path(__file__).parents[1].glob("kernels/**/*.py"))
    sources = [file.read_text(encoding="utf-8") for file in files]
    call = [launcher.__qualname__, [_describe(x) for x in args], {k: _describe(x) for k, x in sorted(kwargs.items())}]
    text = json.dumps([call, arch, version("triton"), sources], default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


# --- the child process ---


def _compile_in_child(call: tuple[Callable[..., Any], Sequence[Any], dict[str, Any]], arch: int) -> Compiled:
    launcher, args, kwargs = call
    plain = launcher, [_meta(x) for x in args], {k: _meta(x) for k, x in kwargs.items()}
    environment = {"TRITON_INTERPRET": "0", "CUDA_VISIBLE_DEVICES": "", "TRITON_DUMP_PTXAS_LOG": "1"}
    try:
        found = fork_server.result(_child, pickle.dumps(plain), arch, environment=environment)
    except fork_server.ForkServerError as error:
        raise CompileError(str(error)) from None
    if isinstance(found, Exception):
        raise found
    return found  # type: ignore[no-any-return]


def _meta(x: Any) -> Any:
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(_meta, x))
    return x.to("meta") if isinstance(x, torch.Tensor) else x


def _child(question: bytes, arch: int) -> Any:
    # The kernels are to be compiled although no GPU is there, on tensors that hold no numbers.
    runtime.mode = lambda: "GPU"  # type: ignore[assignment]
    runtime.device = lambda: torch.device("meta")
    import triton
    from triton.backends.compiler import GPUTarget

    gpu = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", arch, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
    )
    triton.runtime.driver.set_active(gpu)
    caught: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def catch(kernel: Any, grid: Any) -> Callable[..., None]:
        return lambda *args, **options: caught.append((kernel, args, options))

    triton.runtime.jit.JITFunction.__getitem__ = catch
    launcher, args, kwargs = pickle.loads(question)  # imports the kernels
    runtime.architecture = lambda device=None: arch  # type: ignore[assignment]
    runtime.multiprocessors = lambda device=None: data.gpu("A100-80" if arch == 80 else "H200").sms  # type: ignore[assignment]
    try:
        launcher(*args, **kwargs)
        if not caught:
            raise ValueError(f"launcher is {launcher.__name__}, which launched no kernel; pass one that does")
        return _compile(*caught[-1], arch)
    except Exception as error:
        plain = isinstance(error, ValueError | TypeError | CompileError)
        return error if plain else CompileError(f"{type(error).__name__}: {error}")


def _compile(kernel: Any, args: tuple[Any, ...], options: dict[str, Any], arch: int) -> Compiled:
    """Compile one caught launch as a real launch would, which Triton's ``warmup`` does without one."""
    with contextlib.redirect_stdout(io.StringIO()) as log:
        binary = kernel.warmup(*args, grid=(1,), **options)
    ptx = binary.asm["ptx"]
    report = assembly.read_report(log.getvalue()) or assembly.ptxas_report(ptx, arch)  # Triton's cache keeps no report
    opcodes = assembly.opcodes(ptx)
    return Compiled(
        kernel=kernel.__name__.strip("_"),
        arch=arch,
        shared_bytes=binary.metadata.shared,
        registers=report.registers,
        spilled_bytes=report.spilled_bytes,
        serialised_wgmma=report.serialised_wgmma,
        mma=sum(n for name, n in opcodes.items() if name.startswith("mma.sync")),
        wgmma=sum(n for name, n in opcodes.items() if name.startswith("wgmma.mma_async")),
        threads=32 * binary.metadata.num_warps,
        warp_grid=assembly.warp_grid(binary.asm["ttgir"]),
        load_bytes=assembly.load_bytes(ptx),
        instructions=dict(sorted(opcodes.items())),
        order=_order(binary),
    )


def _order(binary: Any) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(binary.asm["cubin"])
        try:
            ptx = assembly.order_in_loop(binary.asm["ptx"])
            return {"PTX": ptx, "machine code": assembly.order_in_loop(assembly.disassembled(cubin))}
        except ValueError:
            return {}

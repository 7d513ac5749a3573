"""Reads what the compiler wrote: Triton's GPU dialect, PTX, and the assembler's report."""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class CompileError(RuntimeError):
    """The compiler refused the kernel; the message is the compiler's."""


def opcodes(ptx: str) -> Counter[str]:
    """How often each opcode of PTX stands in the program, inline assembly included."""
    return Counter(re.findall(r"(?:^|[;{]|@!?%?\w+)[ \t]*([a-z]\w*(?:(?:\.|::)\w+)+)(?=[\s;])", ptx, flags=re.M))


def warp_grid(ttgir: str) -> str:
    """How the warps share a product on tensor cores, '4×1' for four times the rows; '' without tensor cores."""
    layout = re.search(r"nvidia_mma<\{[^}]*?warpsPerCTA = \[(\d+), (\d+)\]", ttgir)
    return "" if layout is None else "×".join(layout.groups())


def load_bytes(ptx: str) -> list[int]:
    """The widths of a thread's loads from HBM, bytes, widest first: 16 for `ld.global.v4.b32` and for `cp.async…, 0x10`."""
    loads = re.findall(r"\bld\.global(?:\.\w+)*?(?:\.v(\d))?\.[a-z](\d+)\b", ptx)
    widths = {int(count or 1) * int(size) // 8 for count, size in loads}
    widths |= {int(size, 16) for size in re.findall(r"\bcp\.async\.c[ag]\.\S+ \[[^]]*\], \[[^]]*\], (0x\w+)", ptx)}
    return sorted(widths, reverse=True)


class Assembled(NamedTuple):
    """The assembler's report: registers and spilled bytes (stores and loads) of a thread; whether it gave up on letting
    wgmma run beside other instructions and put a wait after each."""

    registers: int
    spilled_bytes: int
    serialised_wgmma: bool


def ptxas_report(ptx: str, arch: int) -> Assembled:
    """What the assembler that Triton uses for ``arch`` says of a program; raises CompileError if it refuses it."""
    from triton.backends.nvidia import compiler

    ptxas = compiler.get_ptxas(arch).path
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        target = f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}"
        command = [ptxas, "-v", target, str(source), "-o", str(Path(folder) / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = done.stderr + done.stdout
    registers = re.search(r"Used (\d+) registers", report)
    if registers is None:
        raise CompileError(f"the assembler gave no report: {report.strip()[-500:]}")
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill", report)))
    serialised = re.search(r"wgmma\.mma_async instructions are serialized|warpgroup\.wait is injected", report)
    return Assembled(int(registers.group(1)), spilled, serialised is not None)

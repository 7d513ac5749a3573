"""Reads what the compiler wrote: Triton's GPU dialect, PTX, and the assembler's report."""

import itertools
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
    """How the warps share a matmul on tensor cores, '4×1' for four times the rows; '' without tensor cores."""
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


def _assemble(name: str, ptx: str, arch: int, cubin: Path) -> str:
    """Write the machine code of a program to ``cubin``, by the assembler that Triton uses for ``arch``; what that printed."""
    from triton.backends.nvidia import compiler

    source = cubin.with_suffix(".ptx")
    source.write_text(ptx)
    target = f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}"
    command = [compiler.get_ptxas(arch).path, "-v", target, str(source), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = done.stderr + done.stdout
    if done.returncode != 0:
        raise CompileError(f"the assembler refuses {name}: {report.strip()[-500:]}")
    return report


def ptxas_report(ptx: str, arch: int) -> Assembled:
    """What the assembler says of a program; raises CompileError if it refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        report = _assemble("the program", ptx, arch, Path(folder, "kernel.cubin"))
    assembled = read_report(report)
    if assembled is None:
        raise CompileError(f"the assembler gave no report: {report.strip()[-500:]}")
    return assembled


def read_report(report: str) -> Assembled | None:
    """What ``ptxas -v`` printed; None if it says nothing of registers."""
    registers = re.search(r"Used (\d+) registers", report)
    if registers is None:
        return None
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill", report)))
    serialised = re.search(r"wgmma\.mma_async instructions are serialized|warpgroup\.wait is injected", report)
    return Assembled(int(registers.group(1)), spilled, serialised is not None)


def disassembled(cubin: Path) -> str:
    """The machine code of a kernel as the disassembler that comes with Triton prints it; raises CompileError if it cannot."""
    from triton import knobs

    done = subprocess.run([knobs.nvidia.nvdisasm.path, "-c", cubin], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"nvdisasm: {done.stderr.strip()[-500:]}")
    return done.stdout


def assembled(instruction: str) -> list[str]:
    """The machine code that one instruction of PTX with an fp32 operand and result becomes on sm_90: ['MUFU.EX2 R5, R0'].

    Raises CompileError for what the assembler refuses.
    """
    ptx = (
        ".version 8.0 .target sm_90a .address_size 64 .visible .entry one(.param .u64 x) { .reg .b64 %p; .reg .f32 %f; "
        f"ld.param.u64 %p, [x]; ld.global.f32 %f, [%p]; {instruction} %f, %f; st.global.f32 [%p], %f; ret; }}"
    )
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "one.cubin")
        _assemble(repr(instruction), ptx, 90, cubin)
        lines = re.findall(r"/\*\w+\*/ +(.*?) *;", disassembled(cubin))
    load, store = (next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("LDG", "STG"))
    return lines[load + 1 : store]


def order_in_loop(program: str) -> str:
    """What comes when in the innermost loop that multiplies and takes powers: '16 × HGMMA, wait(1), 66 × MUFU.EX2, wait(0)'.

    It begins with a matmul, wherever the program enters the loop. ``program``: machine code as ``disassembled`` gives it,
    or PTX; wait(n) lets at most n matmuls be under way behind it.
    Raises ValueError if no loop has both.
    """
    labels = {found[1]: found.end() for found in re.finditer(r"\n(\.L_x_\d+|\$L__\w+):", program)}
    jumps = re.finditer(r"BRA `\((\.L_x_\d+)\)|\bbra(?:\.uni)?\s+(\$L__\w+);", program)
    # From a label to each jump back to it; of a jump ahead nothing is left.
    loops = [program[labels.get(jump[1] or jump[2], len(program)) : jump.start()] for jump in jumps]
    bodies = [body for body in loops if re.search("EX2|ex2", body) and re.search(r"GMMA|wgmma\.mma", body)]
    if not bodies:
        raise ValueError(
            "program has no loop with wgmma and powers of two; pass PTX or machine code of a kernel for sm_90"
        )
    step = r"([HQ]GMMA|MUFU\.EX2|wgmma(?=\.mma_async)|\bex2\b)|(?:DEPBAR\S+ gsb0, 0x|wgmma\.wait_group\S*\s+)(\d)"
    found = [name or f"wait({left})" for name, left in re.findall(step, min(bodies, key=len))]
    starts = (i for i, name in enumerate(found) if "mma" in name.lower() and "mma" not in found[i - 1].lower())
    first = next(starts, 0)
    runs = ((name, len(list(run))) for name, run in itertools.groupby(found[first:] + found[:first]))
    return ", ".join(name if "wait" in name else f"{times} × {name}" for name, times in runs)

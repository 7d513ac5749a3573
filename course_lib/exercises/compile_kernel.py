"""Run as a script, without the library and without PyTorch: python compile_kernel.py SOURCE NAME ARGUMENTS

Compiles the Triton kernel NAME of the file SOURCE for an H200, which this machine need not have. ARGUMENTS: JSON, the kernel's
arguments with their type in Triton's words ("*fp32", "i32", "fp32"), or their value where they are constants. Prints what the compiler
says against it: the line of the kernel, and why; nothing where it compiles.
"""

import json
import re
import sys
import warnings
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HOPPER = GPUTarget("cuda", 90, 32)


def main(source: str, name: str, arguments: str) -> None:
    space = {"__name__": "kernel", "triton": triton, "tl": tl}
    exec(compile(Path(source).read_text(encoding="utf-8"), source, "exec"), space)
    given = json.loads(arguments)
    constants = {key: value for key, value in given.items() if not isinstance(value, str)}
    signature = {key: value if isinstance(value, str) else "constexpr" for key, value in given.items()}
    warnings.simplefilter("ignore")
    try:
        triton.compile(ASTSource(space[name], signature, constants), target=HOPPER)
    except Exception as error:
        print(complaint(error))


def complaint(error: BaseException) -> str:
    """The line that the compiler points at, and the last thing that it says."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    pointed = [said[i - 1].strip() for i, line in enumerate(said) if i and re.fullmatch(r"\s*\^", line)]
    return "\n".join([said[-1].strip(), *(f"line: {line}" for line in pointed[-1:])])


if __name__ == "__main__":
    main(*sys.argv[1:])

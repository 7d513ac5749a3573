"""Run as a script, without the library and without PyTorch: python compile_kernel.py SOURCE NAME ARGUMENTS

Compiles the Triton kernel NAME of the file SOURCE for an H200, which this machine need not have. ARGUMENTS: JSON, a list; of each
launch the kernel's arguments with their type in Triton's words ("*fp32", "i32", "fp32"), or their value where they are constants.
Prints one line of JSON, {"refused": what speaks against the kernel and the line}, with '' where nothing does. A statement of SOURCE
that raises is passed over, as on the page that it comes from.
"""

import ast
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

HOPPER = GPUTarget("cuda", 90, 32)
ROUNDED = r"tt\.dot .*inputPrecision = tf32 : .*loc\((#loc\d*)\)"  # of fp32 numbers, to 10 bits; tf32x3 makes up for it
TF32 = 'a GPU multiplies in TF32 here: pass input_precision="ieee" to tl.dot'


def main(source: str, name: str, arguments: str) -> None:
    warnings.simplefilter("ignore")
    space, raised = _defined(source)
    kernel: Any = space.get(name)
    while hasattr(kernel, "fn") and not isinstance(kernel, JITFunction):
        kernel = kernel.fn  # what is around it: tuning, say
    if isinstance(kernel, JITFunction):
        lines = Path(source).read_text(encoding="utf-8").splitlines()
        words = next(filter(None, (_refusal(kernel, given, lines) for given in json.loads(arguments))), "")
    else:
        words = f"could not be compiled: {raised or f'{name} is no kernel'}"
    print("\n" + json.dumps({"refused": words}))


def _defined(source: str) -> tuple[dict[str, Any], str]:
    """The names of a file, and the last exception on the way."""
    space: dict[str, Any] = {"__name__": "__main__", "triton": triton, "tl": tl}
    raised = ""
    for node in ast.parse(Path(source).read_text(encoding="utf-8")).body:
        if "course_lib" in ast.dump(node):
            from course_lib import runtime

            runtime.mode = lambda: "GPU"  # type: ignore[assignment]  # its kernels are to be compiled, too
        try:
            exec(compile(ast.Module([node], []), source, "exec"), space)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
    return space, raised


def _refusal(kernel: Any, given: dict[str, Any], lines: list[str]) -> str:
    constants = {key: value for key, value in given.items() if not isinstance(value, str)}
    signature = {key: value if isinstance(value, str) else "constexpr" for key, value in given.items()}
    try:
        compiled = triton.compile(ASTSource(kernel, signature, constants), target=HOPPER)
    except Exception as error:
        return complaint(error)
    text = compiled.asm["ttir"]
    rounded = re.search(ROUNDED, text)
    return "\n".join([TF32, *_line(text, rounded[1], lines)]) if rounded else ""


def _line(text: str, place: str, lines: list[str]) -> list[str]:
    """The line of the source that a place of the compiler's intermediate text stands for, if it is found.

    Only its number counts: the text may come from Triton's cache, and name a file that is gone.
    """
    for _ in range(9):
        found = re.search(rf"^{place} = loc\((.*)\)$", text, re.MULTILINE)
        further = found and re.search(r"#loc\d*", found[1])
        if found and (at := re.match(r'".*kernel\.py":(\d+):\d+$', found[1])) and int(at[1]) <= len(lines):
            return [f"line: {lines[int(at[1]) - 1].strip()}"]
        if not further:
            break
        place = further[0]
    return []


def complaint(error: BaseException) -> str:
    """The line that the compiler points at, and the last thing that it says."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    pointed = [said[i - 1].strip() for i, line in enumerate(said) if i and re.fullmatch(r"\s*\^", line)]
    return "\n".join([said[-1].strip(), *(f"line: {line}" for line in pointed[-1:])])


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Lecture 05: the running state of one query, wrong kernels and what exposes them, and what one head and several take on an H200."""

import inspect
import linecache
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes

from course_lib import data, plots, runtime
from course_lib.figures.loop_pictures import seat_grid
from course_lib.figures.records import label, rows
from course_lib.instruments import compiled, measure
from course_lib.kernels import online, tl, triton
from course_lib.kernels.launching import attention_launch
from course_lib.kernels.loop_orders import flash_v2
from course_lib.kernels.online import flash_online
from course_lib.model import reference
from course_lib.show import style
from course_lib.show.tables import Table

N, BLOCK = 1024, 64  # tokens of the heads in `parallelism`; keys of a block
# What a wrong version of Online's kernel has, and where the right one has something else: {name: (right, wrong)}.
MISTAKES = {
    "m starts at 0": ('tl.full([BLOCK_M], -float("inf"), tl.float32)', "tl.zeros([BLOCK_M], tl.float32)"),
    "m is set once": ("tl.maximum(m, tl.max(s, 1))", "tl.where(start == 0, tl.max(s, 1), m)"),
    "acc not corrected": ("acc * correction[:, None]", "acc"),
    "end not masked": ('tl.where(keys[None, :] < n_k, s, -float("inf"))', "s"),
}


class OneHead(NamedTuple):
    """A version's time for one head with d = 64, in seconds."""

    algorithm: str
    dtype: str
    n: int
    seconds: float


class Heads(NamedTuple):
    """The time of one call for heads of 1,024 tokens in fp16, in seconds; block_m is 0 for a kernel that chooses by itself."""

    algorithm: str
    heads: int
    block_m: int
    programs: int
    seconds: float


def running_state(axes: Sequence[Axes], block: int, spike: int, sharpness: float) -> str:
    """Draw m, ℓ and o of one query over 512 keys, with the factors; a ``spike`` other than 0 is the last score. Counts the corrections."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(512, generator=generator) * sharpness
    values = torch.randn(512, 1, generator=generator)
    scores[-1] = spike or scores[-1]
    return plots.key_blocks(axes, scores, values, block)


def with_mistake(right: str, wrong: str) -> Any:
    """Online's kernel with ``wrong`` in place of the words ``right``."""
    kernel = online._online_kernel
    source = inspect.getsource(getattr(kernel, "fn", kernel))
    if source.count(right) != 1:
        raise ValueError(f"right is {right!r}; pass words that stand in Online's kernel once")
    text, file = source.replace(right, wrong), f"<online with {wrong}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # Triton reads a kernel's source
    space = {"tl": tl, "triton": triton}
    exec(compile(text, file, "exec"), space)
    return space[kernel.__name__]


def caught(draw: Callable[[str], Sequence[torch.Tensor]], names: Sequence[str]) -> Table:
    """Which of ``names`` expose which mistake: whether Online, and it with each of MISTAKES, errs by more than 0.001.

    ``draw(name)`` returns q, k and v [n, d]; each call begins with the same random numbers.
    Raises KernelsUnavailableError without Triton.
    """
    runtime.require_kernels()
    kernels = {"Online": online._online_kernel} | {name: with_mistake(*words) for name, words in MISTAKES.items()}
    cells = []
    for name in names:
        torch.manual_seed(0)
        q, k, v = (x.to(runtime.device()) for x in draw(name))
        expected = reference.attention(q, k, v)
        outputs = [attention_launch(kernel, q, k, v, 32, 64, "ieee") for kernel in kernels.values()]
        errors = [measure.max_error(output, expected) for output in outputs]
        cells.append([name, *("passed" if error <= 1e-3 else "caught" for error in errors)])
    return Table(["input", *kernels], cells)


def seconds(algorithm: str) -> dict[int, float]:
    """The recorded times of a version in fp16, by length."""
    runs = rows(OneHead, "attention_one_head")
    return {run.n: run.seconds for run in runs if (run.algorithm, run.dtype) == (algorithm, "float16")}


def speedup(algorithm: str) -> dict[int, float]:
    """How many times as fast as three lines of PyTorch a version is, by length."""
    standard = seconds("standard")
    return {n: standard[n] / time for n, time in seconds(algorithm).items()}


@style.drawn(
    size=(8, 3.9),
    alt="speed in half precision over that of standard attention against the sequence length, a line per kernel",
)
def one_head_speed(ax: Axes) -> None:
    """How many times as fast as three lines of PyTorch Online and SDPA are for one head, in fp16."""
    for algorithm, name, at in (("online", "Online", (9000, 3.3)), ("sdpa", "SDPA", (5600, 6.2))):
        found, shade = speedup(algorithm), style.colour(algorithm)
        ax.plot(list(found), list(found.values()), style.MARKER[algorithm] + "-", color=shade, mew=2)
        ax.text(*at, name, color=shade, fontsize=12, weight="bold", ha="center", va="center")
    first = speedup("online")[N]
    arrow = {"arrowstyle": "-|>", "color": style.BLACK}
    ax.annotate(f"{first:.1f}×", (N, first + 0.1), (N, first + 1.9), ha="center", fontsize=12, arrowprops=arrow)
    ax.axhline(1, color=style.BLACK, lw=1)
    ax.set_xscale("log", base=2)
    ax.set_xticks([64, 256, 1024, 4096, 16_384], ["64", "256", "1,024", "4,096", "16,384"])
    ax.set(xlabel="sequence length N", ylabel="times as fast as\nthree lines of PyTorch", ylim=(0, 7.6))
    ax.set_title("hardly faster at N = 1,024", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, f"one head, d = 64, {label('attention_one_head')}")


def lite_and_online() -> Table:
    """Lite's and Online's time for one head in fp16 on an H200, by length."""
    lite, right = seconds("lite"), seconds("online")
    times = [(n, 1e6 * lite[n], 1e6 * right[n]) for n in lite]
    return Table(
        ["N", "Lite, µs", "Online, µs", "Online ÷ Lite"],
        [[n, f"{a:.1f}", f"{b:.1f}", f"{b / a:.2f}"] for n, a, b in times],
    )


@style.drawn(
    size=(11, 3.2),
    axes=(1, 3),
    alt="three times the GPU as a grid of boxes, an SM each, with two squares that are filled where a program sits",
)
def idle_sms(axes: Sequence[Axes]) -> None:
    """An H200 as 132 SMs with two seats each, and the programs of one head of 1,024 tokens, of 8 and of 16."""
    for ax, heads in zip(axes, (1, 8, 16), strict=True):
        programs = heads * N // BLOCK
        busy = min(programs, data.gpu("H200").sms)
        words = f"{busy} of {data.gpu('H200').sms} SMs work" + (", most on two programs" if programs > busy else "")
        words += "\na square: room for one program" if heads == 1 else ""
        seat_grid(ax, f"{heads} head{'s' * (heads > 1)}: {programs} programs", programs, 2, words)


def times_by_heads(algorithm: str) -> dict[int, float]:
    """Seconds of one call of 'V2' in blocks of 64 queries, or of 'sdpa', by the number of heads."""
    runs = rows(Heads, "parallelism")
    return {run.heads: run.seconds for run in runs if run.algorithm == algorithm and run.block_m in (0, BLOCK)}


@style.drawn(
    size=(9, 3.6),
    alt="microseconds as a line over the number of heads, and two hollow diamonds, the bounds at one of them",
)
def heads_time(ax: Axes) -> None:
    """The time of one call of V2 over the number of heads of 1,024 tokens, with the bounds for 16 of them."""
    found = {heads: 1e6 * time for heads, time in times_by_heads("V2").items() if heads <= 64}
    ax.plot(list(found), list(found.values()), "o-", color=style.colour("V2"))
    for bound, words, x, side in ((found[8], "at least", 17.6, "left"), (2 * found[8], "at most", 14.5, "right")):
        ax.plot([16], [bound], "D", mfc="white", mec=style.BLACK, ms=9, mew=1.6, zorder=3)
        ax.text(x, bound - 0.6, words, ha=side, va="center", fontsize=11)
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(found), [str(heads) for heads in found])
    ax.set(xlabel="heads of 1,024 tokens (d = 64, fp16)", ylabel="microseconds", ylim=(0, 82))
    ax.set_title("Seven more heads are nearly free", loc="left", fontsize=12.5, weight="bold")
    style.source_note(ax, f"{label('parallelism')}   ◇ bounds from a count")


def query_blocks() -> Table:
    """One head of 1,024 tokens in ever larger blocks of queries: programs, time, and time for each block of keys walked."""
    runs = sorted((run.block_m, run.programs, run.seconds * 1e6) for run in rows(Heads, "parallelism") if _alone(run))
    return Table(
        ["queries per program", "programs", "blocks of keys for each", "µs", "µs per block of keys"],
        [[m, programs, N // BLOCK, f"{us:.1f}", f"{us / (N // BLOCK):.2f}"] for m, programs, us in runs],
    )


def _alone(run: Heads) -> bool:
    return run.algorithm == "V2" and run.heads == 1


def query_blocks_compiled() -> Table:
    """The same blocks of queries as the compiler sees them: scores, registers and spilled bytes of a thread."""
    blocks = sorted(run.block_m for run in rows(Heads, "parallelism") if _alone(run))
    one = compiled.matrix(N, 64, heads=1)
    found = compiled.inspect_all([(flash_v2, (one,) * 3, {"block_m": m}) for m in blocks])
    return Table(
        ["queries per program", "scores per thread", "registers per thread", "spilled bytes"],
        [[m, m * BLOCK // c.threads, c.registers, c.spilled_bytes] for m, c in zip(blocks, found, strict=True)],
    )


def blocks_that_fit() -> Table:
    """Online in fp16 with d = 128 and four choices of blocks: shared memory and spills for sm_80 and sm_90, and the GPUs that it fits.

    The code for sm_80 stands for cards of the Ampere and Ada generations, that for sm_90 for Hopper; others are left out.
    """
    choices = [(64, 32), (64, 64), (64, 128), (128, 64)]
    calls = [(flash_online, (compiled.matrix(N, 128),) * 3, {"block_m": m, "block_n": n}) for m, n in choices]
    gpus = [gpu for gpu in data.gpus().values() if 8 <= float(gpu.compute_capability) < 10]
    cells = []
    for (m, n), old, new in zip(choices, *(compiled.inspect_all(calls, arch) for arch in (80, 90)), strict=True):
        fit = [gpu.name for gpu in gpus if (new if gpu.architecture == "Hopper" else old).fits(gpu)]
        spilled = (old.spilled_bytes, new.spilled_bytes)
        cells.append([f"{m} × {n}", old.shared_bytes, new.shared_bytes, *spilled, ", ".join(fit)])
    return Table(["blocks", "shared, sm_80", "shared, sm_90", "spills, sm_80", "spills, sm_90", "fits"], cells)

"""The same one-head attention at every level of the stack, from Python objects to Triton.

Each rung takes q [Nq, d], k and v [Nk, d] and gives o [Nq, d], all in float64 on the CPU; what it computes with is its own
affair: ``prepare`` brings the inputs into its form, ``run`` is what is timed, ``result`` brings the output back.

    rungs = ladder.rungs()                  # those of this machine, by name
    o = rungs["Python"](q, k, v)
    rungs["C++ -O3"].missing                # '' or why it cannot run here
"""

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from course_lib import checks, runtime
from course_lib.attention import attention
from course_lib.instruments import measure
from course_lib.instruments.peers import plain_attention, sdpa
from course_lib.kernels.lite import flash_lite
from course_lib.kernels.online import flash_online
from course_lib.ladder import cpp, python
from course_lib.ladder.value import Value

_MOST = 2**16  # numbers in a row
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Rung(NamedTuple):
    """One level of the stack. ``largest``: the longest sequence that it can do in a second or a gigabyte.

    ``missing``: why it cannot run on this machine, '' if it can. ``precision``: what it computes in.
    """

    name: str
    prepare: Callable[..., Any]
    run: Callable[..., Any]
    result: Callable[[Any], torch.Tensor]
    largest: int
    precision: str = "float64"
    missing: str = ""

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The whole rung: prepare, run, result. Raises RuntimeError if it is missing here, ValueError for sequences longer than
        ``largest``, and for bad input as always."""
        tensors = _checked(q, k, v)
        self.check(max(len(x) for x in tensors))
        return self.result(self.run(*self.prepare(*tensors)))

    def check(self, n: int) -> None:
        """RuntimeError if the rung is missing here, ValueError if ``n`` rows are more than it can do."""
        if self.missing:
            raise RuntimeError(f"the rung {self.name!r} cannot run here: {self.missing}")
        if n > self.largest:
            raise ValueError(
                f"the longest sequence has {n:,} rows; pass at most {self.largest:,} to the rung {self.name!r}"
            )


def _checked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Tensors:
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.float_tensor(name, x, ndim=2)
    cpp.sizes(q, k, v)
    q, k, v = (x.double().cpu().contiguous() for x in (q, k, v))
    return q, k, v


def _lists(convert: Callable[[Any], Any], *tensors: torch.Tensor) -> list[Any]:
    return [convert(x.tolist()) for x in tensors]


def _on(device: torch.device | str, dtype: torch.dtype, *tensors: torch.Tensor) -> list[torch.Tensor]:
    return [x.to(device, dtype) for x in tensors]


def _back(o: torch.Tensor) -> torch.Tensor:
    return o.double().cpu()


def _from_values(rows: list[list[Value]]) -> torch.Tensor:
    return torch.tensor([[x.data for x in row] for row in rows], dtype=torch.float64)


def _one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    o = attention(q[None, None], k[None, None], v[None, None])
    assert isinstance(o, torch.Tensor)
    return o[0, 0]


def _why_no_cpp() -> str:
    try:
        cpp.library("-O2")
    except (cpp.CompilerMissingError, cpp.CppCompileError) as error:
        return str(error)
    return ""


def rungs() -> dict[str, Rung]:
    """All rungs by name, lowest first; the GPU's are there if there is one, and Triton's run in its interpreter otherwise."""
    no_cpp = _why_no_cpp()
    no_kernels = "Triton is not installed" if runtime.mode() == "no kernels" else ""
    gpu = runtime.mode() == "GPU"
    doubles = partial(_on, "cpu", torch.float64)
    singles = partial(_on, runtime.device(), torch.float32)
    how = "" if gpu else ", interpreted"
    found = [
        Rung("Python + autograd", partial(_lists, python.values), python.attention_values, _from_values, 64),
        Rung("Python", partial(_lists, list), python.attention_floats, partial(torch.tensor, dtype=torch.float64), 256),
        Rung("C++ nodes", doubles, cpp.attention_nodes, lambda pair: pair[0], 256, missing=no_cpp),
        Rung("C++ -O2", doubles, partial(cpp.attention_flat, level="-O2"), _back, 4096, missing=no_cpp),
        Rung("C++ -O3", doubles, partial(cpp.attention_flat, level="-O3"), _back, 4096, missing=no_cpp),
        Rung("PyTorch, CPU", doubles, plain_attention, _back, 4096),
        Rung("SDPA, CPU", doubles, sdpa, _back, 4096),
    ]
    if gpu:
        found += [
            Rung("PyTorch, GPU", singles, plain_attention, _back, 4096, "float32"),
            Rung("SDPA, GPU", singles, sdpa, _back, 4096, "float32"),
        ]
    triton: list[tuple[str, Callable[..., torch.Tensor]]] = [("Lite", flash_lite), ("Online", flash_online)]
    triton += [("attention()", _one_head)] if gpu else []
    longest = 4096 if gpu else 512
    found += [Rung(name + how, singles, call, _back, longest, "float32", no_kernels) for name, call in triton]
    return {rung.name: rung for rung in found}


def timings(
    lengths: Sequence[int], d: int = 16, rows: int | None = None, seconds_each: float = 0.2
) -> list[dict[str, Any]]:
    """Seconds of every rung for every length that it can do, by the wall clock, launch included, warm: medians and quartiles.

    Python's garbage collector rests meanwhile, as in timeit: what it costs depends on all objects of the process.
    ``rows``: only so many queries (default, and at most: as many as keys). One rung and length takes some ``seconds_each``.
    Raises TypeError or ValueError for what is no positive number.
    """
    checks.whole("d", d, 1, _MOST)
    checks.number("seconds_each", seconds_each, above=0)
    for i, n in enumerate(checks.several("lengths", lengths)):
        checks.positive_int(f"lengths[{i}]", n)
    if rows is not None:
        checks.positive_int("rows", rows)
    found = []
    todo = [(rung, n) for rung in rungs().values() if not rung.missing for n in lengths if n <= rung.largest]
    for rung, n in measure.progress(todo, "rungs and lengths"):
        generator = torch.Generator().manual_seed(n)
        q, k, v = (torch.randn(n, d, dtype=torch.float64, generator=generator, device="cpu") for _ in range(3))
        arguments = rung.prepare(q[:rows], k, v)
        call = partial(rung.run, *arguments)
        took = _without_collector(call, seconds_each)
        found.append(
            {
                "rung": rung.name,
                "n": n,
                "d": d,
                "rows": min(rows or n, n),
                "seconds": took.median,
                "quarter": took.quarter,
                "three_quarters": took.three_quarters,
            }
        )
    return found


def _without_collector(call: Callable[[], Any], seconds_each: float) -> measure.Timing:
    collects = gc.isenabled()
    gc.disable()
    try:
        first = measure.seconds(call, repeats=1, warm_up=2, wall=True)  # attention() notes its second call
        repeats = max(1, min(201, round(seconds_each / max(first.median, 1e-6))))
        return measure.seconds(call, repeats=repeats, warm_up=0, wall=True) if repeats > 1 else first
    finally:
        if collects:
            gc.enable()


def peak_bytes(rung: Rung, n: int, d: int = 16) -> int:
    """The most memory that one run of a rung holds for what it makes, bytes.

    Python: tracemalloc. C++: nodes counted, or one row of weights, and the output. torch and Triton: measure.peak_bytes.
    Raises as calling the rung does.
    """
    rung.check(n)
    q, k, v = (torch.randn(n, d, dtype=torch.float64) for _ in range(3))
    if rung.name == "C++ nodes":
        return cpp.attention_nodes(q, k, v)[1] * cpp.library("-O2").value_bytes() + q.nbytes
    if rung.name.startswith("C++"):
        return 8 * n + q.nbytes
    arguments = rung.prepare(q, k, v)
    if not rung.name.startswith("Python"):
        return measure.peak_bytes(partial(rung.run, *arguments), cpu=rung.precision == "float64")
    tracemalloc.start()
    output = rung.run(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del output
    return peak

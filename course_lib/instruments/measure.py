"""Error against an oracle, memory, and time; a progress bar for those who wait. Records of it: ``course_lib.recordings.records``."""

import math
import random
import statistics
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib import checks

T = TypeVar("T")
_MOST = 1_000_000  # calls that are timed one by one


def progress(items: Iterable[T], label: str) -> Iterable[T]:
    """Iterate with a progress bar that is gone when done, and leaves no text among a cell's outputs."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):
        from tqdm import tqdm

        return tqdm(items, desc=label, leave=False)
    from tqdm.notebook import tqdm as notebook_tqdm

    return _in_notebook(notebook_tqdm(items, desc=label, leave=False, display=False))


def _in_notebook(bar: Any) -> Iterator[Any]:
    from IPython.display import display

    view = {"model_id": bar.container.model_id, "version_major": 2, "version_minor": 0}
    shown = display({"application/vnd.jupyter.widget-view+json": view}, raw=True, display_id=True)
    try:
        yield from bar
    finally:
        shown.update({}, raw=True)  # a page that is saved and opened again would miss the bar


def max_error(x: torch.Tensor, oracle: torch.Tensor) -> float:
    """``max |x - oracle|`` in float64, equal infinities counted as 0; inf if there is a NaN or another infinity.

    Tensors of one shape and of real numbers of any kind. Raises TypeError or ValueError for others, and for empty ones.
    """
    return _error(x, oracle, lambda difference: float(difference.abs().max()))


def rms_error(x: torch.Tensor, oracle: torch.Tensor) -> float:
    """The root of the mean of (x - oracle)² in float64; inf as for ``max_error``."""
    return _error(x, oracle, lambda difference: float(difference.pow(2).mean().sqrt()))


def _error(x: torch.Tensor, oracle: torch.Tensor, reduce: Callable[[torch.Tensor], float]) -> float:
    for name, tensor in (("x", x), ("oracle", oracle)):
        checks.readable(name, tensor)
    if x.shape != oracle.shape:
        raise ValueError(f"x has shape {list(x.shape)} but oracle has {list(oracle.shape)}; they must be equal")
    a, b = x.double().cpu(), oracle.double().cpu()
    value = reduce(torch.where(a == b, 0.0, a - b))
    return math.inf if math.isnan(value) else value


def slope(lengths: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent p of seconds ~ N^p, by least squares on logarithms; needs two different lengths.

    Raises ValueError for fewer, for numbers that are not above 0, and for as many seconds as there are not lengths.
    """
    lengths = checks.floats("lengths", checks.several("lengths", lengths, least=2), above=0)
    seconds = checks.floats("seconds", seconds, length=len(lengths), above=0)
    if len(set(lengths)) < 2:
        raise ValueError(f"lengths holds {lengths[0]:g} only; pass at least two different ones")
    return statistics.linear_regression([math.log(n) for n in lengths], [math.log(s) for s in seconds]).slope


def peak_bytes(call: Callable[[], Any], cpu: bool = False) -> int:
    """The most memory that one ``call`` has allocated at a time for tensors, on top of what was there before; bytes.

    On a GPU torch's allocator counts. Without one, or for a call that works on the ``cpu``, the storages of all tensors
    that torch's operators return are counted until they are freed; what an operator uses inside itself is not seen.
    Raises TypeError for a call that is no function.
    """
    checks.function("call", call)
    if checks.truth("cpu", cpu) or not torch.cuda.is_available():
        with _Storages() as storages:
            result = call()
        del result
        return storages.peak
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return peak


class _Storages(TorchDispatchMode):
    """Counts the bytes of live storages that torch's operators make inside the ``with`` block."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def _freed(self, key: int, size: int) -> None:
        self.now -= size
        self.known.discard(key)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = {x.untyped_storage()._cdata for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for x in pytree.tree_leaves(result):
            if not isinstance(x, torch.Tensor):
                continue
            storage = x.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if key not in self.known | inputs:
                self.known.add(key)
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, key, size)
        return result


class Timing(NamedTuple):
    """Seconds for one call: the median, and where the middle half of the repeats begins and ends, within what was measured."""

    median: float
    quarter: float
    three_quarters: float

    @classmethod
    def of(cls, samples: list[float]) -> "Timing":
        """Of the seconds of some calls."""
        low, middle, high = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
        return cls(middle, low, high)


def seconds(
    call: Callable[[], Any], repeats: int = 9, warm_up: int = 2, graph: bool = False, wall: bool = False
) -> Timing:
    """Time ``call``: CUDA events where a GPU is at work, the wall clock otherwise; ``repeats`` after ``warm_up`` calls.

    ``wall=True`` takes the wall clock on a GPU, too, until its work is done: what a caller waits, launch included.

    ``graph=True`` captures calls in a CUDA graph and times its replays, so that what Python needs for a launch, tens of
    microseconds, is left out; ``call`` must not synchronise. Without a GPU it changes nothing.
    Raises TypeError or ValueError for a call that is no function, no repeats, or a negative ``warm_up``.
    """
    checks.function("call", call)
    checks.whole("repeats", repeats, 1, _MOST)
    checks.whole("warm_up", warm_up, 0, _MOST)
    checks.truth("graph", graph)
    checks.truth("wall", wall)
    for _ in range(warm_up):
        call()
    if wall or not torch.cuda.is_available():
        samples = _wall_samples(call, repeats)
    elif graph:
        replay, count = _repeated(call, at_least=1e-3)
        samples = [sample / count for sample in _gpu_samples(replay, repeats)]
    else:
        samples = _gpu_samples(call, repeats)
    return Timing.of(samples)


def seconds_interleaved(
    calls: Mapping[str, Callable[[], Any]], rounds: int = 15, burst: float = 6e-3, graph: bool = True
) -> dict[str, Timing]:
    """Time several calls against each other on a GPU: each runs in a short burst, round after round, in random order.

    A GPU under load draws more power, grows hot, and lowers its clock. One after another, the first call would meet a cool
    GPU and the last a hot one; in one fixed order, each would meet what its forerunner left (measured: up to
    7 % for one and the same kernel). Each burst replays a CUDA graph that fills about ``burst`` seconds; with ``graph=False``
    it makes the calls one after another, for what cannot be captured. All of it is done on the current stream: a backward pass
    runs on the stream of its forward pass, so make that on the same one. Raises TypeError or ValueError for no calls, what is
    no function, no rounds, a ``burst`` that is not above 0, RuntimeError without a GPU.
    """
    checks.whole("rounds", rounds, 1, _MOST)
    checks.truth("graph", graph)
    checks.number("burst", burst, above=0)
    for name, call in checks.entries("calls", calls).items():
        checks.function(f"calls[{name!r}]", call)
    if not torch.cuda.is_available():
        raise RuntimeError("seconds_interleaved needs a GPU, and there is none; use seconds for each call instead")
    order = random.Random(0)
    for call in calls.values():
        call()
    repeated = {name: _repeated(call, burst, graph) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name in order.sample(list(repeated), len(repeated)):
            several, count = repeated[name]
            samples[name].append(_gpu_samples(several, 1)[0] / count)
    return {name: Timing.of(values) for name, values in samples.items()}


def _repeated(call: Callable[[], Any], at_least: float, graph: bool = True) -> tuple[Callable[[], Any], int]:
    """What makes enough calls to take ``at_least`` so many seconds, 50 at most, from a graph or one by one; and their number."""
    count = max(1, min(50, round(at_least / max(1e-9, statistics.median(_gpu_samples(call, 3))))))

    def calls() -> None:
        for _ in range(count):
            call()

    if not graph:
        return calls, count
    captured, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    with torch.cuda.graph(captured, stream=None if stream == torch.cuda.default_stream() else stream):
        calls()
    captured.replay()
    return captured.replay, count


def _wall_samples(call: Callable[[], Any], repeats: int) -> list[float]:
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    samples = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        samples.append(time.perf_counter() - begin)
    return samples


def _gpu_samples(call: Callable[[], Any], repeats: int) -> list[float]:
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    torch.cuda.synchronize()
    for begin, end in pairs:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]

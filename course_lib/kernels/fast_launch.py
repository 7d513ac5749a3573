"""Launches at a few microseconds of the host's time: what a launcher has done is noted, and repeated on other addresses.

A launch through Triton costs the host some 35 µs: its binder looks at each argument, finds the compiled kernel by their
types, and makes a descriptor for each tensor that TMA reads. All of that depends on shapes, strides and numbers, none of
it on what the tensors hold. So ``Replayed`` runs a launcher as it is at first and notes which tensors it made and
what it launched; from then on it allocates those tensors and hands addresses to the compiled kernels:

    forward = Replayed(launch_forward, (causal, offset))  # launch_forward(q, k, v, causal, offset) -> (o, L)
    o, L = forward(kinds(q, k, v), (q, k, v))

So a launcher makes its tensors with ``torch.empty`` and the like, may cut them into several, launches through
``launching.launch``, and has the zero from which a persistent kernel counts its tiles from ``tile_counter``, once. What it
computes with torch on the way (a copy, a fill) cannot be repeated: a call in which it does is noted as such, and always made
anew. So is every call under a Triton whose launcher this module does not know.
"""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.kernels import triton

KNOWN = ("3.6.", "3.7.")  # versions of Triton
MOST = 1024  # kinds of calls that are remembered, and maps of a tensor: then all are forgotten, and found again as they come
_noted = threading.local()


_TENSORS, _STRIDED = (torch.Tensor, torch.nn.Parameter), torch.strided


def kinds(*tensors: Any) -> tuple[Any, ...] | None:
    """All that a launch depends on, besides its numbers; equal for tensors that can be exchanged for one another.

    None if torch may do more than compute with these: something traces, transforms or watches, or another kind of storage, or none.
    """
    if (
        torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state()
        or forward_ad._current_level >= 0
    ):
        return None
    found: list[Any] = []
    try:
        for x in tensors:
            if x is None:
                found.append(None)
            elif type(x) not in _TENSORS or x.layout is not _STRIDED or x.is_nested or x.is_meta or x.is_neg():
                return None
            else:
                found.append((x.shape, x.stride(), x.dtype, x.device, x.data_ptr() & 15))
    except RuntimeError:  # no address: several backward passes at once, for a Jacobian
        return None
    if tensors[0] is None:  # an argument that is to be refused
        return None
    if tensors[0].dtype == torch.float32:
        found.append(torch.backends.cuda.matmul.fp32_precision)  # how it is multiplied
    return tuple(found)


class Replayed:
    """A launcher, ``function(*tensors, *options)`` -> tensors, whose launches are repeated where it was called alike before.

    Safe for threads, streams and CUDA graphs; memory may move, as no address outlives a call.
    """

    def __init__(self, function: Callable[..., tuple[torch.Tensor, ...]], options: tuple[Any, ...]) -> None:
        self.function = function
        self.options = options
        self.met: set[Any] = set()
        self.tapes: dict[Any, _Tape] = {}

    def __call__(self, kind: Any, tensors: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
        """``kind``: what ``kinds`` says of the tensors, or that part of it in which calls of this launcher differ; None: launched anew."""
        if kind is None:
            return self.function(*tensors, *self.options)
        tape = self.tapes.get(kind)
        if tape is None:
            return self._anew(kind, tensors)
        if not tape.repeatable or _hooked():
            return self.function(*tensors, *self.options)
        return tape(tensors)

    def _anew(self, kind: Any, tensors: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
        """The first call, and the second, which is noted: noting doubles what a call costs, and many a shape comes once."""
        if kind not in self.met or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()):
            if len(self.met) >= MOST:
                self.tapes.clear()
                self.met.clear()
            self.met.add(kind)
            return self.function(*tensors, *self.options)
        tape = _Tape(tensors)
        result = tape.note(self.function, self.options) if tape.repeatable else self.function(*tensors, *self.options)
        self.tapes[kind] = tape
        return result


def tile_counter(device: torch.device) -> torch.Tensor:
    """int32 [1], 0 when what is launched next on the current stream begins: from it the programs of a kernel count their tiles."""
    tape = getattr(_noted, "tape", None)
    if tape is None:
        return torch.zeros(1, dtype=torch.int32, device=device)
    tape.repeatable &= not tape.counts  # a second launch would need a second zero
    tape.counts = True
    return tape.counter


def note(kernel: Any, compiled: Any, grid: tuple[int, ...], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """For ``launch``: tell who is noting, if anyone is, what was launched."""
    tape = getattr(_noted, "tape", None)
    if tape is not None:
        tape.add(kernel, compiled, grid, args, options)


def _hooked() -> bool:
    """Whether a profiler wants to hear of launches from Triton."""
    enter, leave = triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook
    return bool(getattr(enter, "calls", enter) or getattr(leave, "calls", leave))


class _Tape:
    """The tensors that a launcher made, and its launches, each argument by its place: an input, one of those made, a counter."""

    COUNTER = -1

    def __init__(self, tensors: Sequence[torch.Tensor | None]) -> None:
        # Objects of their own: a caller may pass one tensor as several arguments.
        self.tensors = [None if x is None else x.detach() for x in tensors]
        self.inputs = len(tensors)
        self.device = next(x.device for x in self.tensors if x is not None)
        self.index = self.device.index
        # Triton compiles for addresses that divide by 16, as those of new tensors do, or for any.
        aligned = not any(x.data_ptr() % 16 for x in self.tensors if x is not None)
        self.repeatable = aligned and self.device.type == "cuda" and triton.__version__.startswith(KNOWN)
        self.launches: list[_Launch] = []
        self.made: list[tuple[Any, ...]] = []
        self.results: list[int] = []
        self.counts = False

    # --- the call that is noted ---

    def note(self, function: Callable[..., tuple[torch.Tensor, ...]], options: tuple[Any, ...]) -> Any:
        self.counter = tile_counter(self.device)  # made here, so that the fill is not watched
        _noted.tape = self
        try:
            with torch.cuda.device(self.device), _Watched(self):
                result = function(*self.tensors, *options)
        finally:
            _noted.tape = None
        places = [self.place(x) for x in result]
        self.results = [place for place, offset in filter(None, places) if offset == 0]
        self.repeatable &= len(self.results) == len(places)
        made = [x for x in self.tensors[self.inputs :] if x is not None]
        self.made = [(tuple(x.shape), x.stride(), x.dtype) for x in made]
        self.repeatable &= all(x.device == self.device for x in self.tensors if x is not None)
        del self.tensors, self.counter
        return result

    def add(
        self, kernel: Any, compiled: Any, grid: tuple[int, ...], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        bound = dict(zip(kernel.arg_names, args, strict=False)) | options
        try:
            launch = _Launch(compiled, grid, [bound[name] for name in kernel.arg_names], self.place)
        except (AttributeError, LookupError, StopIteration, TypeError):  # not the launcher that is known
            self.repeatable = False
            return
        self.launches.append(launch)

    def place(self, x: torch.Tensor) -> tuple[int, int] | None:
        """Which of the tensors x is, or is a view of, and the bytes before its first element; None if that is not certain.

        A view of an input begins where the input does: how far into it a launcher looks may depend on what is not in its kind.
        """
        if x is self.counter:
            return self.COUNTER, 0
        places = []
        for i, known in enumerate(self.tensors):
            if known is x:
                return i, 0
            if known is not None:
                offset = x.data_ptr() - known.data_ptr()
                if offset == 0 or (i >= self.inputs and 0 < offset < known.nbytes):
                    places.append((i, offset))
        return places[0] if len(places) == 1 else None

    # --- those after it ---

    def __call__(self, tensors: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor, ...]:
        if torch._C._cuda_getDevice() != self.index:
            with torch.cuda.device(self.device):
                return self(tensors)
        everything = [*tensors, *[_new(*how) for how in self.made]]
        addresses = [0 if x is None else x.data_ptr() for x in everything]
        if self.counts:
            counter = tile_counter(self.device)
            addresses.append(counter.data_ptr())  # at COUNTER
        stream = torch._C._cuda_getCurrentRawStream(self.index)
        for launch in self.launches:
            launch(stream, addresses)
        return tuple([everything[place] for place in self.results])  # type: ignore[misc]


# torch.empty_strided on the current GPU without torch's dispatcher, as the code has it that torch.compile writes: half the time.
_new = torch._C._dynamo.guards._empty_strided_cuda  # type: ignore[attr-defined]
_EMPTY = {torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided, torch.ops.aten.new_empty}


class _Watched(TorchDispatchMode):
    """Adds each tensor that torch makes without numbers to the tape; anything else than that and views cannot be repeated."""

    def __init__(self, tape: _Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket in _EMPTY:
            self.tape.tensors.append(result)
        elif not function.is_view:
            self.tape.repeatable = False
        return result


class _Launch:
    """A compiled kernel with all its arguments but the addresses; called with a stream and addresses, it launches.

    Triton's launcher takes the grid, the stream, what the compiler found out, and then the kernel's arguments, a descriptor as
    TMA's map, shape and strides: in 3.6 one after another, from 3.7 on as a list at the end.
    """

    def __init__(
        self, compiled: Any, grid: tuple[int, ...], args: list[Any], place: Callable[[Any], tuple[int, int] | None]
    ) -> None:
        launcher = compiled.run
        if launcher.global_scratch_size or launcher.profile_scratch_size:
            raise LookupError("it wants memory of its own")
        described = iter(compiled.metadata.tensordesc_meta or ())
        values: list[Any] = []
        pointers: list[tuple[int, int, int]] = []
        maps: list[tuple[int, int, _Maps]] = []
        for x in args:
            tensor = getattr(x, "base", x)
            if not isinstance(tensor, torch.Tensor):
                values.append(x)
                continue
            found = place(tensor)
            if found is None:
                raise LookupError("a tensor that is neither an input nor made on the way")
            if tensor is x:
                pointers.append((len(values), *found))
                values.append(0)
            elif found[1]:
                raise LookupError("a descriptor that begins inside a tensor")
            else:
                maps.append((len(values), found[0], _Maps(x, next(described))))
                values += [None, *x.shape, *x.strides]
        launch = launcher.launch
        if maps:  # Triton's wrapper makes the maps anew each time: what it wraps
            launch = dict(zip(launch.__code__.co_freevars, launch.__closure__, strict=True))["launcher"].cell_contents
        start = [*(*grid, 1, 1)[:3], None, compiled.function, launcher.launch_cooperative_grid, launcher.launch_pdl]
        no_hooks, no_scratch = [None, None, None], [None, None]  # the first of three is what hooks would be told
        if hasattr(launcher, "kernel_signature"):
            start += [compiled.packed_metadata, *no_hooks, *no_scratch]
            start += [launcher.arg_annotations, launcher.kernel_signature]
            first = len(start)
            self.launch = lambda *call: launch(*call[:first], list(call[first:]))
        else:
            start += [*no_scratch, compiled.packed_metadata, *no_hooks]
            first, self.launch = len(start), launch
        self.call = [*start, *values]
        self.pointers = [(first + at, place, offset) for at, place, offset in pointers]
        self.maps = [(first + at, place, made) for at, place, made in maps]

    def __call__(self, stream: int, addresses: list[int]) -> None:
        call = self.call.copy()  # another thread may be launching, too
        call[3] = stream
        for at, place, offset in self.pointers:
            call[at] = addresses[place] + offset
        for at, place, maps in self.maps:
            call[at] = maps[addresses[place]]
        self.launch(*call)


class _Maps(dict[int, Any]):
    """TMA's map of a tensor by its address, made when it is new; the shape, strides and block are those of a descriptor.

    A map holds nothing else, so it is right for whatever lies at the address later.
    """

    def __init__(self, descriptor: Any, meta: Any) -> None:
        super().__init__()
        names = ("shape", "strides", "padding", "round_f32_to_tf32")
        self.like = {name: getattr(descriptor, name, False) for name in names}
        self.meta = meta

    def __missing__(self, address: int) -> Any:
        from triton.backends.nvidia.driver import make_tensordesc_arg

        tensor = SimpleNamespace(data_ptr=lambda: address)
        made = make_tensordesc_arg(SimpleNamespace(base=tensor, **self.like), self.meta)[0]
        if len(self) >= MOST:
            self.clear()
        self[address] = made
        return made

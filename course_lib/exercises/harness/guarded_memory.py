"""A simulated memory that cannot be gone around: numbers that are not in the SRAM are NaN."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from course_lib.model.memory import HBMTensor, Memory, View


class GuardedMemory(Memory):
    """A memory whose numbers come by ``load`` alone, and stay until the tile leaves the SRAM.

    ``data`` of its tensors has their shape and dtype, but is full of NaN, and so is a loaded tile after its scope has ended.
    """

    def __init__(self, sram_bytes: int):
        super().__init__(sram_bytes)
        self.moving = False
        self._loaded: dict[str, list[torch.Tensor]] = {}

    def load(self, view: View) -> torch.Tensor:
        with self._moves():
            tile = super().load(view)
        self._loaded.setdefault(str(view), []).append(tile)
        return tile

    def store(self, view: View, tile: torch.Tensor) -> None:
        with self._moves():
            super().store(view, tile)

    def free(self, name: str) -> None:
        super().free(name)
        for tile in self._loaded.pop(name, []):
            tile.fill_(torch.nan)

    def stored(self, name: str) -> torch.Tensor:
        """What a tensor holds, for the check."""
        with self._moves():
            return self.tensors[name].data

    def never_moved(self) -> str:
        """The names of the tensors that were neither loaded nor stored to, or ''."""
        moved = {event.tensor for event in self.trace if event.op in ("load", "store")}
        return ", ".join(name for name in sorted(self.tensors) if name not in moved)

    @contextlib.contextmanager
    def _moves(self) -> Iterator[None]:
        self.moving = True
        try:
            yield
        finally:
            self.moving = False

    def _place(self, name: str, data: torch.Tensor) -> HBMTensor:
        if name in self.tensors:
            return super()._place(name, data)
        self.tensors[name] = _Guarded(self, name, data)
        return self.tensors[name]


class _Guarded(HBMTensor):
    def __init__(self, memory: GuardedMemory, name: str, data: torch.Tensor):
        self.memory: GuardedMemory = memory
        self.name, self._numbers = name, data

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(f"an HBM tensor has no {name}")
        return self._numbers if self.memory.moving else torch.full_like(self._numbers, torch.nan)


# --- a memory whose numbers and counts lie in another process ---


def far(*args: Any) -> tuple[Any, ...]:
    """Arguments as a call in another process is given them: in place of a memory and its tensors what ``Near`` makes them of."""
    if not (args and isinstance(args[0], GuardedMemory)):
        return args
    memory = args[0]
    tensors = [(name, list(x.data.shape)) for name, x in memory.tensors.items()]
    rest = [(x.name,) if isinstance(x, HBMTensor) else x for x in args[1:]]
    return "memory", _asked(memory), memory.sram_bytes, tensors, rest


class Near:
    """The function, called there with what ``far`` has made of its arguments."""

    def __init__(self, function: Callable[..., Any]):
        self.__wrapped__ = function

    def __call__(self, *args: Any) -> Any:
        if args[0] != "memory":
            return self.__wrapped__(*args)
        _, ask, sram_bytes, tensors, rest = args
        memory = _FarMemory(ask, sram_bytes, tensors)
        given = (memory.tensors[x[0]] if isinstance(x, tuple) else x for x in rest)
        return self.__wrapped__(memory, *given)


class _FarMemory(GuardedMemory):
    """Holds no number but those of loaded tiles; says each step to the memory that does."""

    def __init__(self, ask: Callable[..., Any], sram_bytes: int, tensors: Sequence[tuple[str, list[int]]]):
        super().__init__(sram_bytes)
        self._ask = ask
        for name, shape in tensors:
            self._place(name, torch.full(shape, torch.nan))

    def load(self, view: View) -> torch.Tensor:
        tile = super().load(view)
        return tile.copy_(self._ask("load", view.tensor.name, view.rows, view.cols))

    def store(self, view: View, tile: torch.Tensor) -> None:
        super().store(view, tile)
        self._ask("store", view.tensor.name, view.rows, view.cols, tile.detach())

    def tile(self, name: str, value: torch.Tensor) -> torch.Tensor:
        super().tile(name, value)
        self._ask("tile", name, value.detach())
        return value

    def free(self, name: str) -> None:
        super().free(name)
        self._ask("free", name)

    def work(self, flops: int, kind: Any) -> None:
        super().work(flops, kind)
        self._ask("work", flops, kind)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        self._ask("begin", name)
        try:
            with super().scope(name):
                yield
        finally:
            self._ask("end")


def _asked(memory: GuardedMemory) -> Callable[..., Any]:
    """What a ``_FarMemory`` asks: each step is taken, and counted, here."""
    begun: list[contextlib.ExitStack] = []

    def view(name: str, rows: Sequence[int], cols: Sequence[int]) -> View:
        x = memory.tensors[name]
        return x[slice(*rows), slice(*cols)] if x.data.dim() == 2 else x[slice(*rows)]

    def ask(step: str, *given: Any) -> Any:
        if step == "load":
            return memory.load(view(*given))
        if step == "store":
            return memory.store(view(*given[:3]), given[3])
        if step == "begin":
            begun.append(contextlib.ExitStack())
            begun[-1].enter_context(memory.scope(given[0]))
            return None
        if step == "end":
            return begun.pop().close()
        steps: dict[str, Callable[..., Any]] = {"tile": memory.tile, "free": memory.free, "work": memory.work}
        steps[step](*given)
        return None

    return ask

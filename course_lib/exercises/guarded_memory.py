"""A simulated memory that cannot be gone around: numbers that are not in the SRAM are NaN."""

import contextlib
from collections.abc import Iterator
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
        """The names of the tensors that were neither loaded nor stored to, or 'none'."""
        moved = {event.tensor for event in self.trace if event.op in ("load", "store")}
        return ", ".join(name for name in sorted(self.tensors) if name not in moved) or "none"

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
